"""Complaints: what is wrong with a script's data, gathered with places until the whole script is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from evseq.errors import Place, Problem, ScriptError, nearest
from evseq.script.compose import Keys
from evseq.script.normal import flow
from evseq.script.source import Source, excerpt
from evseq.script.syntax import MAX_NOTES, MORE

__all__ = ["LONGEST_NAME", "NAME_ADVICE", "Complaints", "did_you_mean", "show"]

LONGEST_NAME = 64
NAME_ADVICE = "a name begins with a letter or _ and goes on with letters, digits and _ . -"

_LONGEST = 60  # of a value quoted in a message


class Complaints:
    """All problems of one script, those of its text first."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Problem] = list(source.problems)
        self.holders = {path[:-1] for path in source.refused}

    def add(self, path: Keys, message: str, advice: str, *, key: bool = False) -> None:
        """Add a problem at `path`, unless that part or an entry of it was refused as text: one fault, one problem."""
        here = self.source.written(path)
        if here in self.holders or any(here[:depth] in self.source.refused for depth in range(len(here) + 1)):
            return
        self._put(self.source.place(path, key=key), self.source.lines, message, advice)

    @property
    def full(self) -> bool:
        """Whether there are so many problems that no more is told."""
        return len(self.problems) > MAX_NOTES

    def add_in_file(self, file: str, lines: tuple[str, ...], line: int, message: str, advice: str) -> None:
        """Add a problem in a line of a file the script names."""
        self._put(Place(file=file, line=line, column=1), lines, message, advice)

    def keys(
        self, path: Keys, data: Collection[str], valid: Collection[str], *, label: str, needed: Iterable[str]
    ) -> None:
        """Add a problem for every key of a mapping that is unknown, and for every one that is missing."""
        unknown = [key for key in data if key not in valid][: MAX_NOTES + 1]
        for key in unknown:
            self.add((*path, key), f"{label}: unknown key {key!r}", did_you_mean(key, valid, "known"), key=True)
        for key in needed:
            if key not in data and not any(nearest(word, [key]) for word in unknown):
                self.add(path, f"{label}: {key} is missing", f"add `{key}:`", key=True)

    def words(self, path: Keys, data: Any, valid: Collection[str], *, label: str) -> tuple[str, ...]:
        """Return the list of valid words `data` should be, each once, or complain."""
        if not isinstance(data, list) or not data:
            self.add(path, f"{label} is {show(data)}, not a list of words", f"write a list; known: {', '.join(valid)}")
            return ()
        for index, word in enumerate(data):
            if word not in valid:
                advice = did_you_mean(str(word), valid, "known")
                self.add((*path, index), f"{label}: unknown word {show(word)}", advice)
            elif word in data[:index]:
                self.add((*path, index), f"{label}: {word!r} is there twice", "keep one of the two")
        return tuple(str(word) for word in data)

    def done(self) -> None:
        """Raise ScriptError if there is any problem."""
        if self.problems:
            raise ScriptError(self.problems)

    def _put(self, place: Place, lines: tuple[str, ...], message: str, advice: str) -> None:
        if self.full:
            return
        if len(self.problems) == MAX_NOTES:
            message, advice = MORE
        self.problems.append(Problem(place=place, message=message, help=advice, excerpt=excerpt(lines, place)))


def did_you_mean(word: str, valid: Collection[str], intro: str) -> str:
    """Return an advice that leads with the nearest valid word and lists them all."""
    close = nearest(word, valid)
    listed = f"{intro}: {', '.join(valid)}"
    return f"did you mean '{close}'? {listed}" if close else listed


def show(value: Any) -> str:
    """Return a value as a message quotes it."""
    if isinstance(value, str):
        return repr(_clipped(value))
    return "nothing" if value is None else _clipped(flow(value))


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
