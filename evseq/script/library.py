"""Where scripts are found: files, folders of them, and the shipped suite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from evseq.errors import Problem, ScriptError, UsageError
from evseq.script.document import Script, parse
from evseq.script.picks import Pick, read_pick
from evseq.script.source import read

__all__ = ["PATTERN", "QUICK", "SUITE", "quick", "quick_scripts", "read_all"]

SUITE = Path(__file__).parent / "suite"
"""The shipped release suite."""

PATTERN = "*.evseq.yaml"

QUICK = SUITE / "quick.txt"
"""The cases of the suite that still catch every planted fault at the least cost, a pick a line; the audit writes it."""


def quick() -> tuple[Pick, ...]:
    """Return the quick set."""
    return tuple(map(read_pick, QUICK.read_text(encoding="utf-8").splitlines()))


def quick_scripts() -> tuple[Script, ...]:
    """Return the scripts of the quick set, with its cases only."""
    picks: dict[str, list[Pick]] = {}
    for pick in quick():
        picks.setdefault(pick.script, []).append(pick)
    read = read_all(SUITE / f"{name}{PATTERN.removeprefix('*')}" for name in picks)
    return tuple(replace(script, picks=tuple(picks[script.name])) for script in read)


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
