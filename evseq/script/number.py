"""Number words: an integer, an arm, or `[k*]name[+n|-n]`."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

from evseq.errors import nearest

__all__ = ["LARGEST", "NUMBER_WORDS", "NumberError", "evaluate", "number_words"]

NUMBER_WORDS = ("window", "chunk", "capacity", "length", "block")

LARGEST = 1_000_000
"""The largest number; a row or a count beyond it is a slip, and would be worked on for hours."""

_PARTS = re.compile(r"(?:(?P<times>[1-9][0-9]*)\*)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<plus>[+-][0-9]+)?")


class NumberError(ValueError):
    """A number word that has no value here; `help` says what would have one, `path` where it stands if known."""

    def __init__(self, message: str, help: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.help = help
        self.path = path


def evaluate(number: int | str, *, words: Mapping[str, int | None], arms: Mapping[str, int | str]) -> int | None:
    """Return the value of `number`, or None where it depends on something not known without a target.

    `words` gives the number words usable at this place (None: known to exist, value unknown). An arm may itself hold
    a number word. Raises NumberError, also for a value below 0 or above LARGEST.
    """
    if isinstance(number, int):
        return number
    parts = _PARTS.fullmatch(number)
    if parts is None:
        raise NumberError(f"{number!r} is not a number", "write an integer, an arm, or a word such as window+1")
    name = parts["name"]
    if name in words:
        base = words[name]
    elif name in arms and name not in NUMBER_WORDS:
        base = _arm(name, words=words, arms=arms)
    else:
        raise _unknown(name, words=words, arms=arms)
    if base is None:
        return None
    value = int(parts["times"] or 1) * base + int(parts["plus"] or 0)
    if not 0 <= value <= LARGEST:
        raise NumberError(f"{number!r} is {value} here", f"numbers go from 0 to {LARGEST}, and {name} is {base}")
    return value


def number_words(
    arms: Mapping[str, int | str], *, window: int | None, symbolic: bool, block: int | None = None
) -> dict[str, int | None]:
    """Return the number words that have a value in every event of a case: None where only a target knows it.

    `window` is the target's smallest, `block` that of its pool. Raises NumberError, with its path, where the arms
    `chunk` and `capacity` are no sizes on this target.
    """
    own = {"window": window, "block": block}
    target = {name: value for name, value in own.items() if symbolic or value is not None}
    sizes = {
        name: _size(name, arms[name], words=target)
        for name in ("chunk", "capacity")
        if arms.get(name, "whole") != "whole"
    }
    return target | sizes


def _size(name: str, value: int | str, *, words: Mapping[str, int | None]) -> int | None:
    path = ("arms", name)
    try:
        size = evaluate(value, words=words, arms={})
    except NumberError as error:
        raise NumberError(f"arm {name!r}: {error}", error.help, path) from error
    if size == 0:
        raise NumberError(f"arm {name!r}: {value!r} is 0 here", f"a {name} is at least 1", path)
    return size


def _arm(name: str, *, words: Mapping[str, int | None], arms: Mapping[str, int | str]) -> int | None:
    value = arms[name]
    rest = {other: held for other, held in arms.items() if other != name}
    if not _is_number(value, {*words, *rest, *NUMBER_WORDS}):
        help = "write an integer, or a word such as window+1"
        raise NumberError(f"arm {name!r} is {value!r}, which is no number", help)
    try:
        return evaluate(value, words=words, arms=rest)
    except NumberError as error:
        raise NumberError(f"arm {name!r} is {value!r}, and {error}", error.help) from error


def _unknown(name: str, *, words: Mapping[str, int | None], arms: Mapping[str, int | str]) -> NumberError:
    if name in NUMBER_WORDS:
        return NumberError(f"{name!r} has no value here", _WHERE[name])
    valid = sorted({*words, *(arm for arm, held in arms.items() if _is_number(held, {*words, *arms}))})
    close = nearest(name, valid)
    hint = f"did you mean {close!r}?" if close else f"known here: {', '.join(valid)}"
    return NumberError(f"{name!r} is no arm and no number word", hint)


def _is_number(value: int | str, words: Container[str]) -> bool:
    if isinstance(value, int):
        return True
    parts = _PARTS.fullmatch(value)
    return parts is not None and parts["name"] in words


_WHERE = {
    "window": "add `needs: [window]`: this target has no windowed layer",
    "chunk": "give the script a `chunk` arm with a number; `whole` has none",
    "capacity": "give the script a `capacity` arm",
    "block": "add `needs: [pool]`: this target keeps no blocks of what ended",
    "length": "use it where a row is meant: in prefill, append next, crop or mutate-prefix-token",
}
