"""Regions of a sealed file, and damage to each of them: what a reader that looks away somewhere would admit.

The words are those of the format: the parts of the frame, the fields of the header, and the file's end. Each is damaged
in every place it has, up to a limit, and each damage has one right error.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from evseq.cache.canonical import Scalar, canonical, parse
from evseq.cache.damage import (
    Damage,
    DigestMismatch,
    FingerprintMismatch,
    HeaderDamaged,
    HeaderTooLarge,
    SealBroken,
    TrailingBytes,
    Truncated,
    UnknownAlgorithm,
    UnknownVersion,
    WrongKind,
)
from evseq.cache.frame import LENGTH, METADATA, Extent, frame, unframe
from evseq.cache.header import Algorithm, SealedKind

__all__ = ["ERRORS", "Region", "Variant", "variants"]

MOST = 8
"""Most places of one region that are damaged; of more, as many are taken evenly, the first and the last among them."""

T = TypeVar("T")


class Region(StrEnum):
    """What of a sealed file is damaged."""

    LENGTH = "length"
    HEADER = "header"
    METADATA = "metadata"
    VERSION = "version"
    KIND = "kind"
    ALGORITHM = "algorithm"
    IDENTITY = "identity"
    FINGERPRINT = "fingerprint"
    DIGESTS = "digests"
    SCALARS = "scalars"
    SEAL = "seal"
    TENSOR = "tensor"
    TRUNCATED = "truncated"
    TRAILING = "trailing"


ERRORS: Mapping[Region, type[Damage]] = {
    Region.LENGTH: HeaderTooLarge,
    Region.HEADER: HeaderDamaged,
    Region.METADATA: HeaderDamaged,
    Region.VERSION: UnknownVersion,
    Region.KIND: WrongKind,
    Region.ALGORITHM: UnknownAlgorithm,
    Region.IDENTITY: FingerprintMismatch,
    Region.FINGERPRINT: FingerprintMismatch,
    Region.DIGESTS: SealBroken,
    Region.SCALARS: SealBroken,
    Region.SEAL: SealBroken,
    Region.TENSOR: DigestMismatch,
    Region.TRUNCATED: Truncated,
    Region.TRAILING: TrailingBytes,
}
"""The error a damage of each region is told as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A file damaged in one place of a region; the words of `place` follow those of the region."""

    place: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """An undamaged file, taken apart. The header as JSON ends at byte `base`, where the tensors begin."""

    content: bytes
    table: Mapping[str, Any]
    fields: Mapping[str, Any]
    extents: Mapping[str, Extent]
    base: int


def variants(content: bytes, region: Region) -> Iterator[Variant]:
    """Yield a file of these bytes damaged in each place of `region`. Raises a `Damage` if it is not sound."""
    text, extents = unframe("content", io.BytesIO(content), size=len(content))
    base = LENGTH + int.from_bytes(content[:LENGTH], "little")
    fields: Any = parse(base64.b64decode(text))
    table = json.loads(content[LENGTH:base])
    yield from _WAYS[region](_Whole(content=content, table=table, fields=fields, extents=extents, base=base))


# -- the frame ---------------------------------------------------------------------------------------------------------


def _length(whole: _Whole) -> Iterator[Variant]:
    for byte in range(3, LENGTH):  # a bit of a lower byte leaves a length that may be
        yield _flipped(whole.content, byte, f"byte {byte}")


def _header(whole: _Whole) -> Iterator[Variant]:
    yield _flipped(whole.content, LENGTH, f"byte {LENGTH}")
    for name in _spread(list(whole.extents)):
        start, stop = whole.table[name]["data_offsets"]
        table = {**whole.table, name: {**whole.table[name], "data_offsets": [start + 1, stop + 1]}}
        yield Variant(place=f"entry {name!r}", content=_framed(whole, table))


def _metadata(whole: _Whole) -> Iterator[Variant]:
    ((key, text),) = whole.table[METADATA].items()
    for place in (0, len(text) // 2, len(text) - 1):
        table = {**whole.table, METADATA: {key: f"{text[:place]}!{text[place + 1 :]}"}}
        yield Variant(place=f"character {place}", content=_framed(whole, table))


def _tensor(whole: _Whole) -> Iterator[Variant]:
    extents = [(name, extent) for name, extent in whole.extents.items() if extent.stop > extent.start]
    for name, extent in _spread(extents):
        byte = (extent.start + extent.stop) // 2
        yield _flipped(whole.content, byte, f"{name!r}, byte {byte}")


def _truncated(whole: _Whole) -> Iterator[Variant]:
    ends = {LENGTH // 2, (LENGTH + whole.base) // 2, whole.base, len(whole.content) - 1}
    for end in sorted(ends - {len(whole.content)}):
        yield Variant(place=f"after byte {end}", content=whole.content[:end])


def _trailing(whole: _Whole) -> Iterator[Variant]:
    for count in (1, LENGTH):
        yield Variant(place=f"by {count}", content=whole.content + bytes(count))


# -- the fields of the header: another value, the seal left as it was --------------------------------------------------


def _version(whole: _Whole) -> Iterator[Variant]:
    yield _rewritten(whole, "version", whole.fields["version"] + 1, "the next")


def _kind(whole: _Whole) -> Iterator[Variant]:
    for kind in SealedKind:
        if kind != whole.fields["kind"]:
            yield _rewritten(whole, "kind", kind.value, kind.value)


def _algorithm(whole: _Whole) -> Iterator[Variant]:
    for word in Algorithm:
        if word != whole.fields.get("algorithm"):
            yield _rewritten(whole, "algorithm", word.value, word.value)
    yield _rewritten(whole, "algorithm", "MD5", "MD5")


def _entries(field: str) -> Callable[[_Whole], Iterator[Variant]]:
    """Return what changes each entry of a mapping alone, and adds one where there is none."""

    def changed(whole: _Whole) -> Iterator[Variant]:
        entries = whole.fields[field]
        for name in _spread(sorted(entries)):
            yield _rewritten(whole, field, {**entries, name: _another(entries[name])}, name)
        if not entries:
            yield _rewritten(whole, field, {"other": None}, "an entry more")

    return changed


def _word(field: str) -> Callable[[_Whole], Iterator[Variant]]:
    """Return what changes the first and the last character of a digest."""

    def changed(whole: _Whole) -> Iterator[Variant]:
        digest = whole.fields[field]
        for place in (0, len(digest) - 1):
            other = "0" if digest[place] != "0" else "1"
            yield _rewritten(whole, field, f"{digest[:place]}{other}{digest[place + 1 :]}", f"digit {place}")

    return changed


_WAYS: Mapping[Region, Callable[[_Whole], Iterator[Variant]]] = {
    Region.LENGTH: _length,
    Region.HEADER: _header,
    Region.METADATA: _metadata,
    Region.VERSION: _version,
    Region.KIND: _kind,
    Region.ALGORITHM: _algorithm,
    Region.IDENTITY: _entries("identity"),
    Region.FINGERPRINT: _word("fingerprint"),
    Region.DIGESTS: _entries("digests"),
    Region.SCALARS: _entries("scalars"),
    Region.SEAL: _word("seal"),
    Region.TENSOR: _tensor,
    Region.TRUNCATED: _truncated,
    Region.TRAILING: _trailing,
}


# -- small tools -------------------------------------------------------------------------------------------------------


def _flipped(content: bytes, byte: int, place: str) -> Variant:
    return Variant(place=place, content=content[:byte] + bytes([content[byte] ^ 1]) + content[byte + 1 :])


def _framed(whole: _Whole, table: Mapping[str, Any]) -> bytes:
    """Return the file with another table in its header, spelled as a header is."""
    header = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % LENGTH)
    return len(header).to_bytes(LENGTH, "little") + header + whole.content[whole.base :]


def _rewritten(whole: _Whole, field: str, value: Scalar, place: str) -> Variant:
    text = base64.b64encode(canonical({**whole.fields, field: value})).decode("ascii")
    forms = {name: (extent.dtype, extent.shape) for name, extent in whole.extents.items()}
    return Variant(place=place, content=frame(text, forms)[0] + whole.content[whole.base :])


def _another(value: Scalar) -> Scalar:
    """Return a value of the same type that differs; nothing becomes something."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}?"
        case list():
            return [*value, None]
        case dict():
            return {**value, "other": None}
        case _:
            return 0


def _spread(places: Sequence[T]) -> list[T]:
    """Return at most `MOST` of the places, evenly."""
    if len(places) <= MOST:
        return list(places)
    return [places[number * (len(places) - 1) // (MOST - 1)] for number in range(MOST)]
