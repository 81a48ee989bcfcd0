"""Where scripts are found: files, folders of them, and the shipped suite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from evseq.errors import Problem, ScriptError, UsageError
from evseq.script.document import Script, parse
from evseq.script.source import read

__all__ = ["PATTERN", "SUITE", "read_all"]

SUITE = Path(__file__).parent / "suite"
"""The shipped release suite."""

PATTERN = "*.evseq.yaml"


def read_all(names: Iterable[Path]) -> tuple[Script, ...]:
    """Read every script named, folders walked in sorted order, each file once.

    Raises ScriptError with the problems of all files; UsageError for a name that is neither file nor folder.
    """
    scripts: list[Script] = []
    problems: list[Problem] = []
    for file in dict.fromkeys(_files(names)):
        try:
            scripts.append(parse(read(file)))
        except ScriptError as error:
            problems += error.problems
    if problems:
        raise ScriptError(problems)
    return tuple(scripts)


def _files(names: Iterable[Path]) -> Iterator[Path]:
    for name in names:
        if name.is_dir():
            found = sorted(name.rglob(PATTERN))
            if not found:
                raise UsageError(f"{name}: no {PATTERN} in this folder\n  help: `evseq new NAME` writes one")
            yield from found
        elif name.is_file():
            yield name
        else:
            raise UsageError(f"{name}: no such file or folder\n  help: name a script, or a folder of {PATTERN}")
