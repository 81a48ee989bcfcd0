"""Number words: an integer, an arm, or `[k*]name[+n|-n]`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from evseq.errors import nearest

__all__ = ["NUMBER_WORDS", "NumberError", "evaluate"]

NUMBER_WORDS = ("window", "chunk", "capacity", "length")

_PARTS = re.compile(r"^(?:(?P<times>[1-9][0-9]*)\*)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<plus>[+-][0-9]+)?$")


class NumberError(ValueError):
    """A number word that has no value here; `help` says what would have one, `path` where it stands if known."""

    def __init__(self, message: str, help: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.help = help
        self.path = path


def evaluate(number: int | str, *, words: Mapping[str, int | None], arms: Mapping[str, int | str]) -> int | None:
    """Return the value of `number`, or None where it depends on something not known without a target.

    `words` gives the number words usable at this place (None: known to exist, value unknown). An arm may itself hold
    a number word. Raises NumberError.
    """
    if isinstance(number, int):
        return number
    parts = _PARTS.match(number)
    if parts is None:
        raise NumberError(f"{number!r} is not a number", "write an integer, an arm, or a word such as window+1")
    name = parts["name"]
    if name in words:
        value = words[name]
    elif name in arms:
        value = _arm(name, words=words, arms=arms)
    else:
        raise _unknown(name, words=words, arms=arms)
    if value is None:
        return None
    return int(parts["times"] or 1) * value + int(parts["plus"] or 0)


def _arm(name: str, *, words: Mapping[str, int | None], arms: Mapping[str, int | str]) -> int | None:
    value = arms[name]
    if isinstance(value, int):
        return value
    rest = {other: held for other, held in arms.items() if other != name}
    return evaluate(value, words=words, arms=rest)


def _unknown(name: str, *, words: Mapping[str, int | None], arms: Mapping[str, int | str]) -> NumberError:
    if name in NUMBER_WORDS:
        return NumberError(f"{name!r} has no value here", _WHERE[name])
    valid = sorted({*words, *arms})
    close = nearest(name, valid)
    hint = f"did you mean {close!r}?" if close else f"known here: {', '.join(valid)}"
    return NumberError(f"{name!r} is no arm and no number word", hint)


_WHERE = {
    "window": "add `needs: [window]`: this target has no windowed layer",
    "chunk": "give the script a `chunk` arm with a number; `whole` has none",
    "capacity": "give the script a `capacity` arm",
    "length": "use it where a row is meant: in prefill, crop or mutate-prefix-token",
}
