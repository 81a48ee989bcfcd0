"""Arms: the dimensions of the cases, and which combinations are run."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from evseq.errors import UsageError
from evseq.geometry import Capability, Dtype, Positions
from evseq.script.complaints import LONGEST_NAME, NAME_ADVICE, Complaints, did_you_mean, show
from evseq.script.compose import Keys, Value
from evseq.script.kinds import NAME, WORD

__all__ = [
    "BUILT_IN",
    "MAX_CASES",
    "Arm",
    "Padding",
    "Selection",
    "arm_data",
    "expand",
    "parse_arm",
    "selection",
    "value_schema",
]

MAX_CASES = 100_000
"""A script that needs more is several scripts."""


class Padding(StrEnum):
    """The built-in arm `padding`: where masked slots go when rows are unequal."""

    LEFT = "left"
    RIGHT = "right"
    HOLES = "holes"


class Selection(StrEnum):
    """Which combinations of arms are cases."""

    PAIRWISE = "pairwise"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One dimension of the cases. Where a target lacks a capability in `when`, only the first value stands."""

    values: tuple[int | str, ...]
    when: tuple[str, ...] = ()


BUILT_IN = ("padding", "chunk", "dtype", "cache", "positions", "capacity")
"""The arms evseq itself gives a meaning to."""

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "padding": tuple(Padding),
    "dtype": tuple(Dtype),
    "positions": tuple(Positions),
}
_SIZES: Mapping[str, tuple[str, ...]] = {"chunk": ("whole",), "capacity": ()}  # with the words they take
_NO_VALUE = "is none of its values"
_NEITHER = "is neither an integer nor a word"
_LARGEST = 1_000_000  # as of any number in a script
_NAME = re.compile(NAME)
_WORD = re.compile(WORD)
_WINDOW = re.compile(r"(?:[1-9][0-9]*\*)?window(?:[+-][0-9]+)?")


def expand(arms: Mapping[str, Sequence[int | str]], *, mode: str = "pairwise") -> tuple[dict[str, int | str], ...]:
    """Return the cases: every combination of values, or so many that each pair of values of two arms occurs.

    `mode` is a Selection. The first case has every arm's first value; the rest follow in the order of the product. The
    same arms give the same cases everywhere; an arm without values gives none. Raises UsageError for an unknown mode,
    and beyond `MAX_CASES` combinations, or pairs.
    """
    sizes = [len(values) for values in arms.values()]
    match selection(mode):
        case Selection.ALL:
            _limit(math.prod(sizes), "combinations")
            cases = list(itertools.product(*(range(size) for size in sizes)))
        case Selection.PAIRWISE:
            _limit(sum(a * b for a, b in itertools.combinations(sizes, 2)), "pairs")
            cases = _pairwise(sizes) if all(sizes) else []
    values = arms.values()
    return tuple(
        dict(zip(arms, (held[index] for held, index in zip(values, case, strict=True)), strict=True)) for case in cases
    )


def selection(mode: str) -> Selection:
    """Return the selection of that name. Raises UsageError for an unknown one."""
    try:
        return Selection(mode)
    except ValueError:
        advice = did_you_mean(mode, tuple(Selection), "known")
        raise UsageError(f"no selection of arms {mode!r}\n  help: {advice}") from None


def parse_arm(name: str, data: Value, complaints: Complaints) -> Arm | None:
    """Read one arm, or complain."""
    path: Keys = ("arms", name)
    label = f"arm {name!r}"
    when: tuple[str, ...] = ()
    if isinstance(data, dict):
        complaints.keys(path, data, ("values", "when"), label=label, needed=("values",))
        if "when" in data:
            when = complaints.words((*path, "when"), data["when"], tuple(Capability), label=f"{label}: when")
        if "values" not in data:
            return None
        path, data = (*path, "values"), data["values"]
    if name == "cache" and data == "all":
        data = ["all"]
    if not isinstance(data, list) or not data:
        complaints.add(
            path, f"{label} is {show(data)}, not a list of values", "write a list of integers or words: [a, b]"
        )
        return None
    values: list[int | str] = []
    for index, value in enumerate(data):
        if fault := _fault(name, value):
            complaints.add((*path, index), f"{label}: {show(value)} {fault[0]}", fault[1])
        elif value in values:
            complaints.add((*path, index), f"{label}: {show(value)} is there twice", "keep one of the two")
        else:
            assert isinstance(value, int | str)
            values.append(value)
    if name == "cache" and "all" in values and len(data) > 1:
        complaints.add(path, f"{label}: all stands beside other kinds", "write `cache: all`, or name the kinds")
    return Arm(values=tuple(values), when=when)


def value_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of one value of the arm `name`, or of an arm of an author's own for any other name."""
    word: dict[str, Any] = {"type": "string", "pattern": NAME, "maxLength": LONGEST_NAME}
    number: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": _LARGEST}
    if name in _CHOICES:
        return {"enum": list(_CHOICES[name])}
    if name in _SIZES:
        ways = [number | {"minimum": 1}, {"type": "string", "pattern": f"^{_WINDOW.pattern}$"}]
        return {"anyOf": [*({"const": other} for other in _SIZES[name]), *ways]}
    if name == "cache":
        return word
    return {"anyOf": [number, word, {"type": "string", "pattern": WORD}]}


def arm_data(name: str, arm: Arm) -> Value:
    """Return what an author writes for `arm`."""
    values: Value = "all" if name == "cache" and arm.values == ("all",) else list(arm.values)
    return {"values": values, "when": list(arm.when)} if arm.when else values


def _fault(name: str, value: Value) -> tuple[str, str] | None:
    """Return what is wrong with a value of the arm `name`, and what to do, or None."""
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    if name in _CHOICES:
        valid = _CHOICES[name]
        return None if value in valid else (_NO_VALUE, did_you_mean(str(value), valid, "known"))
    if name in _SIZES:
        words = _SIZES[name]
        if (
            value in words
            or (number is not None and 1 <= number <= _LARGEST)
            or (isinstance(value, str) and _WINDOW.fullmatch(value))
        ):
            return None
        choices = [*words, "an integer from 1", "a number word such as window+1"]
        return _NO_VALUE, f"write {', '.join(choices[:-1])} or {choices[-1]}"
    if isinstance(value, str) and (_NAME.fullmatch(value) or (name != "cache" and _WORD.fullmatch(value))):
        return None
    if number is not None and name != "cache":
        return None if 0 <= number <= _LARGEST else ("is out of range", f"numbers go from 0 to {_LARGEST}")
    if isinstance(value, bool):
        return _NEITHER, f'write {int(value)}, or the word "{show(value)}" in quotes'
    return _NEITHER, NAME_ADVICE.replace("name", "word")


def _pairwise(sizes: list[int]) -> list[tuple[int, ...]]:
    """Cover all pairs greedily: begin each case with the first pair still open, then take what closes most.

    Of two values that close as many, the one with more open pairs is taken; it saves a fifth of the cases of ten arms.
    """
    if len(sizes) == 1:
        return [(value,) for value in range(sizes[0])]
    arms = range(len(sizes))
    cases: list[tuple[int, ...]] = []
    pairs = [
        ((i, a), (j, b)) for i, j in itertools.combinations(arms, 2) for a in range(sizes[i]) for b in range(sizes[j])
    ]
    still_open = set(pairs)
    degree = Counter(itertools.chain.from_iterable(pairs))
    for first, second in pairs or [((0, 0), (0, 0))]:
        if cases and (first, second) not in still_open:
            continue
        case = dict((first, second)) if cases else dict.fromkeys(arms, 0)
        for arm in arms:
            if arm not in case:
                gains = [(_gain((arm, value), case, still_open), degree[arm, value]) for value in range(sizes[arm])]
                case[arm] = gains.index(max(gains))
        closed = still_open.intersection(itertools.combinations(sorted(case.items()), 2))
        still_open -= closed
        degree.subtract(itertools.chain.from_iterable(closed))
        cases.append(tuple(case[arm] for arm in arms))
    return sorted(cases)


def _gain(here: tuple[int, int], case: Mapping[int, int], still_open: Container[object]) -> int:
    """Return how many open pairs an arm's value would close."""
    return sum(((other, here) if other < here else (here, other)) in still_open for other in case.items())


def _limit(count: int, what: str) -> None:
    if count > MAX_CASES:
        raise UsageError(f"the arms have {count} {what} of values, at most {MAX_CASES}\n  help: give them fewer values")
