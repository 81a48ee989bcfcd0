"""Engines with readers of their own, opened as `planted.readers:NAME` in any process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from safetensors.torch import load_file

from evseq.cache.damage import Damage, HeaderDamaged
from evseq.cache.header import SealedKind, inspect_header
from evseq.cache.sealed import Sealed, open_sealed
from evseq.engines.reference import loader as healthy
from evseq.engines.reference.engine import ReferenceEngine
from evseq.engines.reference.loader import ReferenceLoader
from evseq.geometry import Description, Dtype

Path = str | PathLike[str]


def without_digests(path: Path, *, kind: SealedKind) -> Sealed:
    """Read the header, and the tensors whatever they are."""
    header = inspect_header(path, kind=kind)
    return Sealed(identity=header.identity, scalars=header.scalars, tensors=load_file(path), seal=header.seal)


def all_one_error(path: Path, *, kind: SealedKind) -> Sealed:
    """Refuse what is to be refused, and never say why."""
    try:
        return open_sealed(path, kind=kind)
    except Damage as error:
        raise HeaderDamaged(path, "something is wrong") from error


def nothing(path: Path, **_: SealedKind) -> Sealed:
    """Take no file."""
    raise HeaderDamaged(path, "something is wrong")


@dataclass(slots=True, kw_only=True)
class Reading:
    """The healthy engine with another reader."""

    engine: ReferenceEngine
    unseal: Callable[..., Sealed]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingLoader:
    """Loads it."""

    loader: ReferenceLoader
    unseal: Callable[..., Sealed]

    def describe(self) -> Description:
        """Describe the healthy engine."""
        return self.loader.describe()

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Tokenize as the healthy engine."""
        return self.loader.tokenize(text)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Reading:
        """Load the healthy weights."""
        return Reading(engine=self.loader.load(dtype, options), unseal=self.unseal)


def sound() -> ReadingLoader:
    """Return an engine whose own reader is evseq's."""
    return ReadingLoader(loader=healthy("full"), unseal=open_sealed)


def digests_skipped() -> ReadingLoader:
    """Return an engine that looks at no tensor's digest."""
    return replace(sound(), unseal=without_digests)


def errors_alike() -> ReadingLoader:
    """Return an engine that calls everything the same."""
    return replace(sound(), unseal=all_one_error)


def nothing_read() -> ReadingLoader:
    """Return an engine that takes no file."""
    return replace(sound(), unseal=nothing)
