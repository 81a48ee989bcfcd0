"""Loaders and engines that each break one rule of the conformance suite."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from evseq.cache.state import Scalar
from evseq.engines.reference.engine import ReferenceEngine
from evseq.engines.reference.loader import ReferenceLoader
from evseq.engines.reference.session import ReferenceSession
from evseq.geometry import Description, Dtype, Layout
from evseq.history import Path


@dataclass(frozen=True)
class Loader:
    """The reference with a faulty session or engine."""

    name: str = "full"
    session: type[ReferenceSession] = ReferenceSession
    engine: type[Engine] | None = None

    def describe(self) -> Description:
        return ReferenceLoader(name=self.name).describe()

    def tokenize(self, text: str) -> tuple[int, ...]:
        return ReferenceLoader(name=self.name).tokenize(text)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Engine:
        made = self.engine or Engine
        return made(ReferenceLoader(name=self.name).load(dtype, options), self.session)


class Engine:
    """The reference engine, opening sessions of another class."""

    def __init__(self, healthy: ReferenceEngine, session: type[ReferenceSession]) -> None:
        self.healthy = healthy
        self.session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self.healthy, name)

    def identity(self) -> Mapping[str, Scalar]:
        return self.healthy.identity()

    def tokenize(self, text: str) -> tuple[int, ...]:
        return self.healthy.tokenize(text)

    def uncached(self, path: Path) -> Tensor:
        return self.healthy.uncached(path)

    def open(self, layout: Layout) -> ReferenceSession:
        opened = self.healthy.open(layout)
        return self.session(decoder=opened.decoder, layout=opened.layout, storages=opened.storages)


DESCRIBED = itertools.count()


class ChangingDescription(Loader):
    def describe(self) -> Description:
        described = super().describe()
        return replace(described, dtypes=described.dtypes + described.dtypes[: next(DESCRIBED)])


class PutsBackAlmost(Engine):
    @contextmanager
    def altered(self, field: str, operand: Mapping[str, Any]) -> Iterator[str | None]:
        with self.healthy.altered(field, operand) as key:
            yield key
        self.healthy.decoder.head.weight[0, 0] += 1e-3


class ChangesNothing(Engine):
    def altered(self, field: str, operand: Mapping[str, Any]) -> AbstractContextManager[str | None]:
        return nullcontext()


class IdentityLacksTokenizer(Engine):
    def identity(self) -> Mapping[str, Scalar]:
        return {name: value for name, value in super().identity().items() if name != "tokenizer.merges"}


class IdentityWithSecrets(Engine):
    def identity(self) -> Mapping[str, Scalar]:
        return {**super().identity(), "model.path": "here"}


class IdentityOfNothing(Engine):
    def identity(self) -> Mapping[str, Scalar]:
        return {**super().identity(), "weights.live": {}}


class IdentityOfFloat32(Engine):
    def identity(self) -> Mapping[str, Scalar]:
        return {**super().identity(), "numeric.dtype": "float32"}


class IdentityElsewhere(Engine):
    def identity(self) -> Mapping[str, Scalar]:
        return {**super().identity(), "numeric.device": "cuda"}


class IdentityCountsForwards(Engine):
    def identity(self) -> Mapping[str, Scalar]:
        return {**super().identity(), "model.adapters": [self.forwarded]}


class IdentityOfTensors(Engine):
    def identity(self) -> Mapping[str, Scalar]:
        return {**super().identity(), "model.adapters": torch.zeros(1)}  # type: ignore[dict-item]


class TokensBeyondVocabulary(Loader):
    def tokenize(self, text: str) -> tuple[int, ...]:
        return (64,) * len(text)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Engine:
        engine = super().load(dtype, options)
        engine.tokenize = self.tokenize  # type: ignore[method-assign]
        return engine


class OtherTokenizer(Loader):
    def tokenize(self, text: str) -> tuple[int, ...]:
        return super().tokenize(text)[::-1]


class UncachedLooksAhead(Engine):
    def uncached(self, path: Path) -> Tensor:
        logits: Tensor = super().uncached(path)
        return logits + logits.mean(dim=0)


class UncachedOfLastTokenOnly(Engine):
    def uncached(self, path: Path) -> Tensor:
        return super().uncached(path)[-1:]


class UncachedDrifts(Engine):
    def uncached(self, path: Path) -> Tensor:
        return super().uncached(path) + 1e-9 * int(self.forwarded)


class UncachedSeesOnlyItself(Engine):
    def uncached(self, path: Path) -> Tensor:
        alone = [Path(tokens=(token,), positions=(0,)) for token in path.tokens]
        return torch.stack([Engine.uncached(self, one)[0] for one in alone])


class UncachedAttendsToPads(Engine):
    def uncached(self, path: Path) -> Tensor:
        return super().uncached(replace(path, tokens=tuple(max(token, 0) for token in path.tokens)))


class TakesAnyLayout(Engine):
    def open(self, layout: Layout) -> ReferenceSession:
        return super().open(replace(layout, cache="growing"))


class OneCacheForAll(Engine):
    def open(self, layout: Layout) -> ReferenceSession:
        opened = super().open(layout)
        opened.storages = self.__dict__.setdefault(f"storages {layout}", opened.storages)
        return opened


class CountsNothing(Engine):
    forwarded = 0
