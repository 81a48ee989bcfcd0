"""The frame of a sealed file: a safetensors header that lists tensors and carries one text. Needs no torch.

Layout: eight bytes with the header's length, the header as JSON padded with spaces to a multiple of eight, then the
tensors without gaps, those of larger elements first and by name among equals, so that each is aligned
(https://github.com/huggingface/safetensors#format). There is one metadata key, since of several the format's own
library keeps no order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, BinaryIO

from evseq.cache.damage import HeaderDamaged, HeaderTooLarge, NotSealed, TooManyTensors, TrailingBytes, Truncated

__all__ = ["ITEMSIZE", "MAX_HEADER", "MAX_TENSORS", "PARTS", "Extent", "Form", "frame", "unframe"]

PARTS = ("length", "header", "metadata", "tensor")
"""What a file is made of: the header's length, the header, the text it carries, and the tensors."""

MAX_HEADER = 1 << 24
"""Most bytes of a header; a recording with thousands of tensors takes a few of them."""

MAX_TENSORS = 1 << 16

MAX_BRACKETS = 4 * MAX_TENSORS
"""Most brackets of a header: three a tensor, some in names. An empty list takes two bytes there and sixty in memory."""

MAX_BYTES = 1 << 62
"""Most bytes of one tensor. A shape with a zero in it needs none and may still overflow what multiplies it out."""

MAX_AXES = 64
"""Most axes of one tensor, as many as NumPy and torch work with."""

LENGTH = 8
"""Bytes that hold the header's length, little-endian; what is padded to a multiple of."""

KEY = "evseq"
METADATA = "__metadata__"

ITEMSIZE = {
    "F64": 8,
    "I64": 8,
    "F32": 4,
    "I32": 4,
    "BF16": 2,
    "F16": 2,
    "I16": 2,
    "BOOL": 1,
    "I8": 1,
    "U8": 1,
}
"""Bytes of one element, by the format's name of its dtype."""

Form = tuple[str, tuple[int, ...]]
"""A dtype by the format's name, and a shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Where a tensor lies: bytes `start` to `stop`, counted from the beginning of the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def frame(text: str, forms: Mapping[str, Form]) -> tuple[bytes, tuple[str, ...]]:
    """Return everything that stands before the tensors, and the order in which they follow.

    Raise `ValueError` for what no reader takes.
    """
    if len(forms) > MAX_TENSORS:
        raise ValueError(f"{len(forms)} tensors, at most {MAX_TENSORS} are read")
    for name, (dtype, shape) in forms.items():
        if name == METADATA:
            raise ValueError(f"tensor {name!r}: the format keeps this name for itself")
        if not _fits(dtype, shape):
            raise ValueError(f"tensor {name!r}: {dtype} of shape {list(shape)} is too large")
    header = _json(text, forms)
    if len(header) > MAX_HEADER:
        raise ValueError(f"a header of {len(header)} bytes, at most {MAX_HEADER} are read")
    if (brackets := _brackets(header)) > MAX_BRACKETS:
        raise ValueError(f"names with {brackets} brackets, at most {MAX_BRACKETS} are read")
    return len(header).to_bytes(LENGTH, "little") + header, tuple(_laid_out(forms, base=0))


def unframe(path: str | PathLike[str], file: BinaryIO, *, size: int) -> tuple[str, dict[str, Extent]]:
    """Return the text and the tensors' places, in the order in which they lie, of a file of `size` bytes.

    Raise a `Damage` for anything `frame` would not have written. The bytes of the tensors are not looked at.
    """
    raw = _raw(path, file, size=size)
    top = _object(path, raw)
    metadata = top.pop(METADATA, None)
    match metadata:
        case {"evseq": str() as text} if len(metadata) == 1:
            pass
        case _:
            raise NotSealed(path, f"{METADATA}: {_keys(metadata)}, expected one text under the key {KEY!r}")
    if len(top) > MAX_TENSORS:
        raise TooManyTensors(path, f"{len(top)} tensors, at most {MAX_TENSORS} are read")
    forms = {name: _form(path, name, entry) for name, entry in top.items()}
    base = LENGTH + len(raw)
    extents = _laid_out(forms, base=base)
    for name, extent in extents.items():
        actual, expected = top[name]["data_offsets"], [extent.start - base, extent.stop - base]
        if actual != expected:
            raise HeaderDamaged(path, f"tensor {name!r}: data_offsets {actual!r}, its place is {expected}")
    end = max([base, *(extent.stop for extent in extents.values())])
    if size < end:
        raise Truncated(path, f"ends at byte {size} of {end}")
    if size > end:
        raise TrailingBytes(path, f"goes on to byte {size}, its last tensor ends at byte {end}")
    if raw != _json(text, forms):
        raise HeaderDamaged(path, f"bytes {LENGTH} to {base}: not spelled as a header is written")
    return text, extents


def _raw(path: str | PathLike[str], file: BinaryIO, *, size: int) -> bytes:
    if size < LENGTH:
        raise Truncated(path, f"ends at byte {size}, the header's length alone takes {LENGTH}")
    length = int.from_bytes(file.read(LENGTH), "little")
    if length > MAX_HEADER:
        raise HeaderTooLarge(path, f"bytes 0 to {LENGTH}: a header of {length} bytes, at most {MAX_HEADER} are read")
    if LENGTH + length > size:
        raise Truncated(path, f"ends at byte {size}, its header at byte {LENGTH + length}")
    return file.read(length)


def _object(path: str | PathLike[str], raw: bytes) -> dict[str, Any]:
    if (brackets := _brackets(raw)) > MAX_BRACKETS:
        raise TooManyTensors(path, f"a header with {brackets} brackets, at most {MAX_BRACKETS} are read")
    try:
        top = json.loads(raw.decode())
    except json.JSONDecodeError as error:
        raise HeaderDamaged(path, f"byte {LENGTH + error.pos}: not JSON: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise HeaderDamaged(path, f"byte {LENGTH + error.start}: not UTF-8: {error.reason}") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        raise HeaderDamaged(path, f"bytes {LENGTH} to {LENGTH + len(raw)}: not JSON: {error}") from None
    if not isinstance(top, dict):
        raise HeaderDamaged(path, f"byte {LENGTH}: a JSON {type(top).__name__}, not an object")
    return top


def _keys(metadata: object) -> str:
    match metadata:
        case None:
            return "none"
        case dict():
            return f"keys {sorted(metadata)}"
        case _:
            return f"a {type(metadata).__name__}"


def _form(path: str | PathLike[str], name: str, entry: Any) -> Form:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise HeaderDamaged(path, f"tensor {name!r}: expected dtype, shape and data_offsets")
    dtype, shape = entry["dtype"], entry["shape"]
    if type(dtype) is not str or dtype not in ITEMSIZE:
        raise HeaderDamaged(path, f"tensor {name!r}: dtype {dtype!r} is not one of {', '.join(ITEMSIZE)}")
    if not isinstance(shape, list) or not all(type(length) is int and length >= 0 for length in shape):
        raise HeaderDamaged(path, f"tensor {name!r}: shape {shape!r} is not a list of lengths")
    if not _fits(dtype, tuple(shape)):
        raise HeaderDamaged(path, f"tensor {name!r}: {dtype} of shape {shape} is too large")
    return dtype, tuple(shape)


def _laid_out(forms: Mapping[str, Form], *, base: int) -> dict[str, Extent]:
    """Return the tensors' places when the first byte behind the header is number `base`."""
    extents = {}
    for name, (dtype, shape) in sorted(forms.items(), key=lambda item: (-ITEMSIZE[item[1][0]], item[0])):
        stop = base + ITEMSIZE[dtype] * math.prod(shape)
        extents[name] = Extent(dtype=dtype, shape=shape, start=base, stop=stop)
        base = stop
    return extents


def _json(text: str, forms: Mapping[str, Form]) -> bytes:
    entries: dict[str, Any] = {METADATA: {KEY: text}}
    for name, extent in _laid_out(forms, base=0).items():
        entries[name] = {
            "dtype": extent.dtype,
            "shape": list(extent.shape),
            "data_offsets": [extent.start, extent.stop],
        }
    header = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    return header + b" " * (-len(header) % LENGTH)


def _brackets(header: bytes) -> int:
    return header.count(b"{") + header.count(b"[")


def _fits(dtype: str, shape: tuple[int, ...]) -> bool:
    return len(shape) <= MAX_AXES and ITEMSIZE[dtype] * math.prod(max(length, 1) for length in shape) <= MAX_BYTES
