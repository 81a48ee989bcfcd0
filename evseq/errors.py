"""Errors a person reads: an address, the evidence, a next step."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

__all__ = [
    "CacheError",
    "EngineError",
    "EvseqError",
    "Exit",
    "Place",
    "Problem",
    "ScriptError",
    "TargetError",
    "Untold",
    "UsageError",
    "nearest",
    "printable",
]


class Exit(IntEnum):
    """Exit codes, equal to pytest's."""

    PASSED = 0
    FAILED = 1
    INTERRUPTED = 2
    INTERNAL = 3
    USAGE = 4
    NOTHING = 5


class EvseqError(Exception):
    """Say what is wrong and what to do next; front ends print it without a traceback.

    `exit_code` is the one that a front end ends with.
    """

    exit_code: ClassVar[Exit] = Exit.USAGE


class UsageError(EvseqError):
    """A flag, setting or argument is off. Correct the call."""


class Untold(UsageError):
    """Standard output takes nothing more, mostly since its disk is full. Send it elsewhere."""

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"standard output: cannot be written: {error.strerror or error}\n"
            "  help: make room on its disk, or send it elsewhere"
        )


class TargetError(UsageError):
    """A target cannot be opened. Check its spelling, its folder, or install the extra it needs."""


class EngineError(EvseqError):
    """An engine refused or failed an operation it was asked for. Only `expect: loud` tolerates it."""

    exit_code = Exit.FAILED


class CacheError(EvseqError):
    """A sealed file is not what it should be. Nothing was read from it."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """A place in a script file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One thing wrong in a script, with the value in `message` and the next step in `help`."""

    place: Place
    message: str
    help: str
    excerpt: str = ""

    def __str__(self) -> str:
        parts = [f"{self.place}: {self.message}", self.excerpt, f"  help: {self.help}"]
        return "\n".join(part for part in parts if part)


class ScriptError(EvseqError):
    """A script says something impossible. All problems of the file are listed, in reading order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def nearest(word: str, valid: Iterable[str]) -> str | None:
    """Return the valid word a misspelt one was probably meant to be, or None."""
    close = difflib.get_close_matches(word, list(valid), n=1, cutoff=0.5)
    return close[0] if close else None


def printable(text: str) -> str:
    """Return text that a terminal shows and does not obey: it may come from a file that anybody wrote."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii") for c in text)
