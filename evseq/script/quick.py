"""The quick set: cases of the suite that still catch every planted fault at the least cost, a pick a line of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evseq.errors import Place, Problem, ScriptError, UsageError
from evseq.script.cases import all_arms
from evseq.script.complaints import did_you_mean
from evseq.script.document import Script
from evseq.script.library import PATTERN, SUITE, read_all
from evseq.script.picks import EVERY, Pick, read_pick
from evseq.script.source import excerpt

__all__ = ["QUICK", "quick", "quick_scripts"]

QUICK = SUITE / "quick.txt"
"""The one that ships; the audit writes it."""

SUFFIX = PATTERN.removeprefix("*")


def quick(file: Path = QUICK) -> tuple[Pick, ...]:
    """Return the picks of a quick set, in the order of its file; blank lines say nothing.

    Raises ScriptError with everything that is wrong in it, UsageError where it cannot be read.
    """
    try:
        lines = tuple(file.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        raise _unread(file, str(error.strerror)) from None
    except UnicodeDecodeError as error:
        raise _unread(file, f"byte 0x{error.object[error.start]:02x} is not UTF-8") from None
    suite = {entry.name.removesuffix(SUFFIX): entry for entry in sorted(SUITE.glob(PATTERN))}
    named = {line.split()[0] for line in lines if line.strip()}
    scripts = {script.name: script for script in read_all(suite[name] for name in sorted(named & suite.keys()))}
    if problems := list(_problems(str(file), lines, tuple(suite), scripts)):
        raise ScriptError(problems)
    return tuple(read_pick(line) for line in lines if line.strip())


def quick_scripts() -> tuple[Script, ...]:
    """Return the scripts of the quick set that ships, with its cases only."""
    picks: dict[str, list[Pick]] = {}
    for pick in quick():
        picks.setdefault(pick.script, []).append(pick)
    read = read_all(SUITE / f"{name}{SUFFIX}" for name in picks)
    return tuple(replace(script, picks=tuple(picks[script.name])) for script in read)


def _unread(file: Path, why: str) -> UsageError:
    return UsageError(f"{file}: cannot be read: {why}\n  help: `evseq audit --quick-file {file}` writes one")


def _problems(
    file: str, lines: tuple[str, ...], suite: Sequence[str], scripts: Mapping[str, Script]
) -> Iterator[Problem]:
    """Find what is wrong in each line; of a line that is there twice, that alone."""
    seen: set[tuple[str, ...]] = set()
    for number, line in enumerate(lines, start=1):
        words = tuple(line.split())
        wrong = (
            [(0, "this pick is there twice", "keep one of the two")] if words in seen else _wrong(line, suite, scripts)
        )
        seen |= {words} if words else set()
        for column, message, help in wrong:
            place = Place(file=file, line=number, column=column + 1)
            yield Problem(place=place, message=message, help=help, excerpt=excerpt(lines, place))


def _wrong(line: str, suite: Sequence[str], scripts: Mapping[str, Script]) -> Iterator[tuple[int, str, str]]:
    """Find what is wrong in one line: where, what, and what to do."""
    words = [(found.start(), found[0]) for found in re.finditer(r"\S+", line)]
    if not words:
        return
    (start, name), *arms = words
    if name not in scripts:
        yield start, f"no script of the suite has the name {name!r}", did_you_mean(name, suite, "known")
        return
    known = {arm: [EVERY, *(str(value) for value in held.values)] for arm, held in all_arms(scripts[name])}
    told: set[str] = set()
    for column, word in arms:
        arm, equals, value = word.partition("=")
        if not equals or not arm or not value:
            yield column, f"{word!r} tells no arm", "write NAME=VALUE, as in padding=right"
        elif arm not in known:
            yield column, f"{name} has no arm {arm!r}", did_you_mean(arm, known, "known") if known else "leave it out"
        elif value not in known[arm]:
            valid = tuple(dict.fromkeys(known[arm]))
            yield column, f"arm {arm!r} has no value {value!r}", did_you_mean(value, valid, "known")
        elif arm in told:
            yield column, f"arm {arm!r} is there twice", "keep one of the two"
        told.add(arm)
