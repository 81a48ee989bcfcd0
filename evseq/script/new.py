"""New scripts: a dozen lines that pass as they stand and show the shape of the language."""

from __future__ import annotations

import re
from pathlib import Path

from evseq.errors import UsageError
from evseq.script.events import NAME

__all__ = ["SUFFIX", "create"]

SUFFIX = ".evseq.yaml"
"""How the name of every script file ends."""

_NAME = re.compile(NAME)

_TEMPLATE = """\
evseq: 1
name: {name}
about: A copy of a cache goes on as its source does, and both as if nothing were cached.
rows:  # a row owns its tokens; events feed it piece by piece
  a: {{random: {{length: 8, seed: 1}}}}
  b: {{random: {{length: 6, seed: 2}}}}
arms:
  padding: [left, right]  # each combination of arms is a case
events:
  - prefill: {{rows: {{a: 6, b: 4}}}}  # the first six and four tokens
  - fork: {{as: copy}}
  - append: {{next: 2}}  # the next two tokens of every row, one forward each
  - append: {{next: 2, on: copy}}  # the same histories: equal to the last bit
"""


def create(name: str, folder: Path) -> Path:
    """Write a first script of that name into `folder`, made if need be; return its file.

    Raises UsageError for a name that no file or script can have, and where the file exists already.
    """
    name = name.removesuffix(SUFFIX)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"new: {name!r} is no name\n  help: begin with a letter or _, go on with letters, digits and _ . -; "
            "the folder is said with --dir"
        )
    file = folder / f"{name}{SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8", newline="\n") as out:
            out.write(_TEMPLATE.format(name=name))
    except FileExistsError:
        raise UsageError(f"new: {file} exists already\n  help: take another name, or remove it first") from None
    except OSError as error:
        raise UsageError(f"new: {file}: cannot be written: {error.strerror}\n  help: name another --dir") from None
    return file
