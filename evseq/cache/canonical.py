"""Canonical msgpack: one value, one run of bytes, in every process and on every machine.

Keys are sorted, types are strict, numbers take their shortest form. Each value's type is written with it, so that
1, 1.0, True and "1" stay four values. Reading takes nothing that this module would not have written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgpack  # type: ignore[import-untyped]  # ships no types

__all__ = ["MAX_DEPTH", "MAX_ITEMS", "Scalar", "canonical", "measure", "parse"]

if TYPE_CHECKING:
    Scalar = None | bool | int | float | str | list["Scalar"] | dict[str, "Scalar"]
else:  # what checks annotations at run time does not follow a type into itself
    Scalar = None | bool | int | float | str | list | dict
"""A value canonical msgpack can hold."""

MAX_DEPTH = 32
"""Deepest nesting. Configurations nest four or five deep; the C unpacker itself stops at some hundreds."""

MAX_ITEMS = 1 << 20
"""Most items of one list or mapping: the unpacker makes room for a claimed count before it sees the items."""

MAX_NODES = 1 << 18
"""Most lists and mappings of one value: an empty one takes a byte here and sixty in memory."""

LEAST, MOST = -(1 << 63), (1 << 64) - 1  # what a msgpack integer holds

_SHORT_MAPPINGS, _SHORT_LISTS, _SHORT_TEXTS = range(0x80, 0x90), range(0x90, 0xA0), range(0xA0, 0xC0)
"""First bytes that hold a count or a length themselves."""

_LISTS, _MAPPINGS = {0xDC: 2, 0xDD: 4}, {0xDE: 2, 0xDF: 4}
"""First bytes of longer lists and mappings, with how many bytes hold the count."""

_SIZED = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0)}
_SIZED |= {0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}
"""First bytes of binaries, texts and extensions, with how many bytes hold the length, and a type."""

_WIDTHS = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_WIDTHS |= {0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}
"""First bytes of numbers and fixed extensions, with how many bytes follow."""


def canonical(value: object, *, place: str = "value") -> bytes:
    """Return the canonical bytes of a `Scalar`; errors call it `place`.

    Raise `TypeError` for a type that is no `Scalar` (subclasses such as enums and array scalars included) and
    `ValueError` for what msgpack cannot write; both name the place inside the value.
    """
    return _packed(_ordered(value, place=place, depth=0))


def parse(data: bytes) -> Scalar:
    """Return the value `canonical` made `data` from; raise `ValueError`, with the reason, for any other bytes."""
    measure(data)
    try:
        unpacked = msgpack.unpackb(data, max_array_len=MAX_ITEMS, max_map_len=MAX_ITEMS)
    except (ValueError, OverflowError, msgpack.UnpackException) as error:
        raise ValueError(f"not msgpack: {str(error) or type(error).__name__}") from None
    try:
        value = _ordered(unpacked, place="value", depth=0)
    except TypeError as error:
        raise ValueError(str(error)) from None
    if _packed(value) != data:
        raise ValueError("not in canonical form")
    return value


def measure(data: bytes) -> None:
    """Raise ValueError for what would take more memory than its bytes explain, before any of it is taken.

    The unpacker makes room for a claimed count at once, and looks at depth only when it is there. What else is wrong is
    left to it: it has more words for that.
    """
    place, claimed, nodes, waiting = 0, 1, 0, [1]
    while waiting:
        if not waiting[-1]:
            waiting.pop()
            continue
        if place >= len(data):
            return
        waiting[-1] -= 1
        first = data[place]
        place += 1
        count, skipped = _inside(data, first, place)
        place += skipped
        if count is None:
            continue
        if len(waiting) > MAX_DEPTH + 1:  # as `_ordered` counts: the value itself is at depth 0
            raise ValueError(f"nested more than {MAX_DEPTH} deep")
        nodes, claimed = nodes + 1, claimed + count
        if nodes > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES} lists and mappings")
        if count <= 2 * MAX_ITEMS and claimed > len(data):
            raise ValueError(f"{claimed} items in {len(data)} bytes")
        waiting.append(count)


def _inside(data: bytes, first: int, place: int) -> tuple[int | None, int]:
    """Return how many items a list or mapping claims, None for what is neither, and the bytes behind its first one."""
    if first in _SHORT_MAPPINGS:
        return 2 * (first - _SHORT_MAPPINGS.start), 0
    if first in _SHORT_LISTS:
        return first - _SHORT_LISTS.start, 0
    if first in _SHORT_TEXTS:
        return None, first & 0x1F
    if first in _LISTS or first in _MAPPINGS:
        width = _LISTS.get(first) or _MAPPINGS[first]
        count = int.from_bytes(data[place : place + width], "big")
        return (count if first in _LISTS else 2 * count), width
    if first in _SIZED:
        width, kind = _SIZED[first]
        return None, width + kind + int.from_bytes(data[place : place + width], "big")
    return None, _WIDTHS.get(first, 0)


def _packed(ordered: Scalar) -> bytes:
    packed: bytes = msgpack.packb(ordered, strict_types=True)
    return packed


def _ordered(value: object, *, place: str, depth: int) -> Scalar:
    """Return `value` with the keys of every mapping sorted; check types and limits on the way."""
    if depth > MAX_DEPTH:
        raise ValueError(f"{place}: nested more than {MAX_DEPTH} deep")
    if value is None or type(value) is bool or type(value) is float:
        return value
    if type(value) is int:
        if not LEAST <= value <= MOST:
            raise ValueError(f"{place}: {value} does not fit in 64 bits")
        return value
    if type(value) is str:
        return _text(value, place=place)
    if type(value) is list:
        _counted(len(value), place=place)
        return [_ordered(item, place=f"{place}[{index}]", depth=depth + 1) for index, item in enumerate(value)]
    if type(value) is dict:
        _counted(len(value), place=place)
        return {key: _ordered(value[key], place=f"{place}.{key}", depth=depth + 1) for key in _keys(value, place)}
    raise TypeError(f"{place}: {type(value).__name__} is not one of None, bool, int, float, str, list, dict")


def _keys(value: dict[object, object], place: str) -> list[str]:
    keys = []
    for key in value:
        if type(key) is not str:
            raise TypeError(f"{place}: key {key!r} is not a str")
        keys.append(_text(key, place=place))
    return sorted(keys)


def _text(text: str, *, place: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{place}: {text!r} is not Unicode text") from None
    return text


def _counted(count: int, *, place: str) -> None:
    if count > MAX_ITEMS:
        raise ValueError(f"{place}: {count} items, at most {MAX_ITEMS} fit")
