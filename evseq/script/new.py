"""New scripts: a dozen lines that pass as they stand and show the shape of the language, or of a kind of bug."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from evseq.errors import UsageError, nearest
from evseq.script.events import NAME

__all__ = ["SUFFIX", "Bug", "create"]

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


class Bug(StrEnum):
    """Kinds of bug that a script may begin with."""

    BEAM = "beam"
    REUSE = "reuse"
    WINDOW = "window"
    CALLER = "caller"
    LOSSY = "lossy"


_BUGS = {
    Bug.BEAM: """\
evseq: 1
name: {name}
about: Beams that change places at every step go on as their parents did.
rows:  # the report's prompts: ids, or {{text: ...}}
  a: {{random: {{length: 8, seed: 1}}}}
  b: {{random: {{length: 8, seed: 2}}}}
arms:
  cache: all  # every cache of the engine reorders in its own way
  dtype: [float64, float32]
events:
  - prefill: {{rows: {{a: 5, b: 5}}}}  # as many tokens as the report's prompts have
  - beam-select: {{a: b, b: a}}  # new name: parent; put the report's beams here, twice the same parent too
  - append: {{ids: {{a: [7], b: [9]}}}}  # what each beam goes on with; not the same, or a swap would not show
  - beam-select: {{a: b, b: b}}
  - append: {{ids: {{a: [11], b: [13]}}}}
""",
    Bug.REUSE: """\
evseq: 1
name: {name}
about: A cache is reused by the request it was made for, and by no other.
rows:  # the report's prompt, and as many tokens more as it goes on with
  a: {{random: {{length: 10, seed: 1}}}}
arms:
  index: [0, 3, length-1]  # which token of the second request is another one: first, middle, last
  cache: all
  dtype: [float64, float32]
events:
  - prefill: {{rows: {{a: 8}}}}  # as many tokens as were cached in the report
  - serialize: {{to: saved}}
  - mutate-prefix-token: {{row: a, index: index, token: 63}}  # the second request
  - reload: {{from: saved, as: other, expect: {{refused: prefix.tokens}}}}
  - reload: {{from: saved, as: same, expect: {{reused: {{exactly: 8}}}}}}  # the same request reuses all of it
  - append: {{next: 2, on: same}}
""",
    Bug.WINDOW: """\
evseq: 1
name: {name}
about: Rows that reach, cross and lap the window see what a forward without a cache sees.
rows:
  a: {{random: {{length: 2*window+4, seed: 1}}}}  # as long as the report's prompt and answer together
  b: {{random: {{length: window+4, seed: 2}}}}
arms:
  fed: [window-1, window, window+1, 2*window]  # tokens of the prompt, around the length in the report
  cache: all
  padding: [left, right]
  dtype: [float64, float32]
needs: [window]
events:
  - prefill: {{rows: {{a: fed, b: 1}}}}  # rows of unequal length: pads count in some windows
  - append: {{next: 3}}  # one token at a time across the edge
""",
    Bug.CALLER: """\
evseq: 1
name: {name}
about: The engine is right for what it was asked; what the caller sent is another prompt.
rows:
  meant: [17, 4, 59, 3, 8, 21]  # the report's prompt
  sent: [0, 0, 17, 4, 59, 3, 8, 21]  # what the caller passed: two pads, and no mask that hides them
arms:
  padding: [left, right, holes]  # the same prompt padded as it should be: no logit may move
  positions: {{values: [given, engine], when: [positions]}}  # numbered by the caller, or left to the engine
  dtype: [float64, float32]
events:
  - prefill: {{rows: {{meant: 4}}, as: alone}}  # all but the tokens the report appends
  - append: {{next: 2, on: alone}}
  - prefill: {{rows: {{meant: 4, sent: 6}}, as: both}}  # if this passes, the engine is not to blame
  - append: {{next: 2, on: both}}
""",
    Bug.LOSSY: """\
evseq: 1
name: {name}
about: A cache that rounds gives each row what it gives that row alone, however rows are moved and saved.
rows:  # the report's prompts: ids, or {{text: ...}}
  a: {{random: {{length: 20, seed: 1}}}}
  b: {{random: {{length: 16, seed: 2}}}}
arms:
  cache: [quantised, blocks]  # the report's kind of cache: `all` stands for exact ones only
  chunk: [whole, 3]  # other pieces give other logits, and may
  dtype: [float64, float32]
events:
  - prefill: {{rows: {{a: 10, b: 7}}}}  # as many tokens as the report's prompts have
  - append: {{next: 3}}  # past the tokens that wait to be rounded
  - serialize: {{to: saved}}
  - reload: {{from: saved, as: again}}
  - append: {{next: 2, on: again}}
  - beam-select: {{x: b, y: a}}  # rows change places while part of each is rounded
  - append: {{ids: {{x: [7, 9, 11], y: [13, 15, 17]}}}}  # not the same: a swap must show
""",
}


def create(name: str, folder: Path, *, bug: str | None = None) -> Path:
    """Write a first script of that name into `folder`, made if need be; return its file.

    It starts from a kind of `bug` where one is named. Raises UsageError for a kind there is none of, for a name that no
    file or script can have, and where the file exists already.
    """
    template = _TEMPLATE if bug is None else _BUGS[_kind(bug)]
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
            out.write(template.format(name=name))
    except FileExistsError:
        raise UsageError(f"new: {file} exists already\n  help: take another name, or remove it first") from None
    except OSError as error:
        raise UsageError(f"new: {file}: cannot be written: {error.strerror}\n  help: name another --dir") from None
    return file


def _kind(bug: str) -> Bug:
    if bug in tuple(Bug):
        return Bug(bug)
    *first, last = kinds = [kind.value for kind in Bug]
    close = nearest(bug, kinds)
    hint = f"did you mean {close!r}?" if close else f"use {', '.join(first)} or {last}"
    raise UsageError(f"new: no kind of bug {bug!r}\n  help: {hint}")
