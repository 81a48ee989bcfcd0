"""The header of a sealed file: what it is, whose it is, and what must stand behind it. Needs no torch."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from os import PathLike
from typing import Any, BinaryIO

from evseq.cache.canonical import Scalar, canonical, measure, parse
from evseq.cache.damage import (
    FieldDamaged,
    FingerprintMismatch,
    HeaderDamaged,
    MissingField,
    SealBroken,
    TensorMissing,
    UnknownAlgorithm,
    UnknownField,
    UnknownTensor,
    UnknownVersion,
    WrongKind,
)
from evseq.cache.fields import FORMAT_VERSION
from evseq.cache.frame import Extent, Form, frame, unframe
from evseq.cache.identity import Identity
from evseq.cache.opening import opened

__all__ = ["HEADER_FIELDS", "WRITTEN", "Algorithm", "Header", "SealedKind", "encode", "inspect_header", "read"]

HEADER_FIELDS: Mapping[str, type] = {
    "version": int,
    "kind": str,
    "algorithm": str,
    "identity": dict,
    "fingerprint": str,
    "digests": dict,
    "scalars": dict,
    "seal": str,
}
"""What the text of the frame holds, and as what. `seal` is SHA-256 over all the others; `algorithm` may be missing."""


class SealedKind(StrEnum):
    """What a sealed file is."""

    CACHE = "cache"
    GOLDEN = "golden"
    RECORDING = "recording"


class Algorithm(StrEnum):
    """What the digests of tensors are. A header says so in its field `algorithm`, which SHA-256 goes without."""

    SHA256 = "SHA-256"
    BLAKE3 = "BLAKE3"


WRITTEN: Mapping[SealedKind, Algorithm] = {
    SealedKind.CACHE: Algorithm.BLAKE3,  # gigabytes, on the way of a request
    SealedKind.GOLDEN: Algorithm.SHA256,  # ledgers pin its bytes
    SealedKind.RECORDING: Algorithm.SHA256,
}
"""What a file of each kind is written with. SHA-256 is read of every kind: caches had it too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Everything a sealed file says before its tensors; `digests` and `extents` name the same tensors.

    `seal` vouches for all the rest, tensors by their digests.
    """

    kind: SealedKind
    algorithm: Algorithm
    identity: Identity
    digests: Mapping[str, str]
    scalars: Mapping[str, Scalar]
    extents: Mapping[str, Extent]
    size: int
    seal: str


def encode(
    *,
    kind: SealedKind,
    algorithm: Algorithm,
    identity: Identity,
    digests: Mapping[str, str],
    scalars: Mapping[str, Scalar],
    forms: Mapping[str, Form],
) -> tuple[bytes, tuple[str, ...], str]:
    """Return everything that stands before tensors of these digests and forms, their order after it, and the seal.

    Raise `TypeError` or `ValueError`, naming the place, for what no header holds.
    """
    fields: dict[str, Scalar] = {
        "version": FORMAT_VERSION,
        "kind": kind.value,
        "identity": dict(identity.values),
        "fingerprint": identity.fingerprint(),
        "digests": dict(digests),
        "scalars": dict(scalars),
    }
    if algorithm is not Algorithm.SHA256:
        fields["algorithm"] = algorithm.value
    fields["seal"] = seal = _seal(fields)
    packed = canonical(fields, place="header")
    measure(packed)  # never write what is not read
    header, order = frame(base64.b64encode(packed).decode("ascii"), forms)
    return header, order, seal


def inspect_header(path: str | PathLike[str], *, kind: SealedKind | None = None) -> Header:
    """Return a file's header without looking at its tensors; raise a `Damage` where that is not sound."""
    with opened(path) as file:
        return read(path, file, kind=kind)


def read(path: str | PathLike[str], file: BinaryIO, *, kind: SealedKind | None = None) -> Header:
    """Return the header of an open file.

    Raise a `Damage` for anything `encode` would not have written, and `WrongKind` for a kind other than `kind`.
    """
    size = os.fstat(file.fileno()).st_size
    text, extents = unframe(path, file, size=size)
    fields = _decoded(path, text)
    actual = _known_kind(path, fields, expected=kind)
    algorithm = _known_algorithm(path, fields, kind=actual)
    _check_types(path, fields)
    identity = Identity(values=fields["identity"])
    if (fingerprint := identity.fingerprint()) != fields["fingerprint"]:
        raise FingerprintMismatch(path, f"identity: its fingerprint is {fingerprint}, recorded {fields['fingerprint']}")
    digests = fields["digests"]
    if lost := sorted(digests.keys() - extents.keys()):
        raise TensorMissing(path, f"tensor {lost[0]!r}: in the digests, not in the file")
    if extra := sorted(extents.keys() - digests.keys()):
        raise UnknownTensor(path, f"tensor {extra[0]!r}: in the file, not in the digests")
    if (seal := _seal({name: value for name, value in fields.items() if name != "seal"})) != fields["seal"]:
        raise SealBroken(path, f"seal: the other fields give {seal}, recorded {fields['seal']}")
    return Header(
        kind=actual,
        algorithm=algorithm,
        identity=identity,
        digests=digests,
        scalars=fields["scalars"],
        extents=extents,
        size=size,
        seal=seal,
    )


def _decoded(path: str | PathLike[str], text: str) -> dict[str, Any]:
    """Return the fields, of a version this module reads; their names are right, their types unknown."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise HeaderDamaged(path, f"metadata: not base64: {error}") from None
    if base64.b64encode(data).decode("ascii") != text:  # bits behind the last byte, which decoding drops
        raise HeaderDamaged(path, "metadata: not canonical base64")
    try:
        fields = parse(data)
    except ValueError as error:
        raise HeaderDamaged(path, f"metadata: {error}") from None
    if not isinstance(fields, dict):
        raise HeaderDamaged(path, f"metadata: a {type(fields).__name__}, not a mapping")
    version = fields.get("version", FORMAT_VERSION)
    if type(version) is not int or version != FORMAT_VERSION:
        raise UnknownVersion(path, f"version: {version!r}, this evseq reads {FORMAT_VERSION}")
    if missing := [name for name in HEADER_FIELDS if name not in fields and name != "algorithm"]:
        raise MissingField(path, f"{missing[0]}: missing, every sealed file has it")
    if extra := sorted(fields.keys() - HEADER_FIELDS.keys()):
        raise UnknownField(path, f"{extra[0]}: no sealed file of version {FORMAT_VERSION} has it")
    return fields


def _known_kind(path: str | PathLike[str], fields: Mapping[str, Any], *, expected: SealedKind | None) -> SealedKind:
    kinds = [kind for kind in SealedKind if kind.value == fields["kind"]]
    if not kinds or expected not in (None, *kinds):
        raise WrongKind(path, f"kind: {fields['kind']!r}, expected {expected or ' or '.join(SealedKind)}")
    return kinds[0]


def _known_algorithm(path: str | PathLike[str], fields: Mapping[str, Any], *, kind: SealedKind) -> Algorithm:
    """Return what the digests are. Only what is written is said: neither SHA-256, nor BLAKE3 in other kinds."""
    if "algorithm" not in fields:
        return Algorithm.SHA256
    written = WRITTEN[kind]
    if written is Algorithm.SHA256 or fields["algorithm"] != written.value:
        others = "" if written is Algorithm.SHA256 else f"{written.value!r} or "
        evidence = f"algorithm: {fields['algorithm']!r}, expected {others}none, which is {Algorithm.SHA256}"
        raise UnknownAlgorithm(path, evidence)
    return written


def _check_types(path: str | PathLike[str], fields: Mapping[str, Any]) -> None:
    for name, kind in HEADER_FIELDS.items():
        if name in fields and type(fields[name]) is not kind:
            raise FieldDamaged(path, f"{name}: a {type(fields[name]).__name__}, expected a {kind.__name__}")
    for name, digest in fields["digests"].items():
        if type(digest) is not str:
            raise FieldDamaged(path, f"digests.{name}: a {type(digest).__name__}, expected a str")


def _seal(fields: Mapping[str, Scalar]) -> str:
    return hashlib.sha256(canonical(dict(fields), place="header")).hexdigest()
