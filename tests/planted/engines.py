"""Broken engines: sessions as healthy as the reference's, and a fault in what stands around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from evseq.cache.state import Scalar
from evseq.engines.protocol import Batch, Session
from evseq.engines.reference import loader as healthy
from evseq.engines.reference.engine import ReferenceEngine
from evseq.engines.reference.loader import ReferenceLoader
from evseq.engines.reference.model import Decoder
from evseq.engines.reference.session import ReferenceSession
from evseq.geometry import Capability, Deciding, Description, Dtype, Layout
from evseq.history import Path


@dataclass(slots=True, kw_only=True)
class Broken:
    """The healthy engine in everything a fault leaves alone."""

    engine: ReferenceEngine
    opened: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def open(self, layout: Layout) -> Session:
        self.opened += 1
        return self.engine.open(layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenLoader:
    """A loader of faulty engines. What `told` changes in the description is said openly."""

    engine: type[Broken]
    told: Callable[[Description], Description]
    loader: ReferenceLoader = field(default_factory=lambda: healthy("full"))

    def describe(self) -> Description:
        return self.told(self.loader.describe())

    def tokenize(self, text: str) -> tuple[int, ...]:
        return self.loader.tokenize(text)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Broken:
        return self.engine(engine=self.loader.load(dtype, options))


def broken(told: Callable[[Description], Description] = lambda told: told) -> Callable[[type[Broken]], Any]:
    """Make a target of a faulty engine class."""
    return lambda engine: lambda: BrokenLoader(engine=engine, told=told)


def single(description: Description) -> Description:
    """Describe an engine that has no double precision."""
    return replace(description, deciding=Deciding.SINGLE, dtypes=(Dtype.FLOAT32, Dtype.BFLOAT16))


@broken()
class not_causal(Broken):  # noqa: N801 - named as the target is
    """A hundredth of every later token's logits leaks into those before it, uncached."""

    def uncached(self, path: Path) -> Tensor:
        logits = self.engine.uncached(path)
        return logits + 0.01 * logits.sum(0)


@broken()
class imprecise(Broken):  # noqa: N801
    """The uncached forward in float32 rounds its weights to bfloat16 on the way."""

    def uncached(self, path: Path) -> Tensor:
        logits = self.engine.uncached(path)
        return logits if self.engine.dtype is Dtype.FLOAT64 else logits.bfloat16().to(logits.dtype)


@broken()
class remembers(Broken):  # noqa: N801
    """The uncached forward gives other bits once any session was open."""

    def uncached(self, path: Path) -> Tensor:
        return self.engine.uncached(path) + 2.0**-48 * self.opened


@broken()
class raises_afterwards(Broken):  # noqa: N801
    """The uncached forward raises once any session was open."""

    def uncached(self, path: Path) -> Tensor:
        if self.opened:
            raise RuntimeError("out of memory")
        return self.engine.uncached(path)


@broken()
class uncached_infinite(Broken):  # noqa: N801
    """The uncached forward in float32 overflows in one logit of every token."""

    def uncached(self, path: Path) -> Tensor:
        logits = self.engine.uncached(path)
        if self.engine.dtype is Dtype.FLOAT32:
            logits[:, 5] = torch.inf
        return logits


@broken()
class truth_infinite(Broken):  # noqa: N801
    """The uncached forward in float64 has one logit that is not a number, and float32 does not show it."""

    def uncached(self, path: Path) -> Tensor:
        logits = self.engine.uncached(path)
        if self.engine.dtype is Dtype.FLOAT64:
            logits[:, 5] = torch.nan
        return logits


@dataclass(kw_only=True)
class Shrinking(ReferenceSession):
    """Every step's logits shrink with the length of the path so far."""

    def prefill(self, batch: Batch) -> Tensor:
        return super().prefill(batch) / _length(batch)

    def append(self, batch: Batch) -> Tensor:
        return super().append(batch) / _length(batch)


def _length(batch: Batch) -> Tensor:
    assert batch.positions is not None
    return batch.positions[..., None] + 1


@broken()
class length_dependent(Broken):  # noqa: N801
    """Logits shrink with the length of the whole path, as under a dynamic scaling; both sides agree step by step."""

    def uncached(self, path: Path) -> Tensor:
        return self.engine.uncached(path) / len(path)

    def open(self, layout: Layout) -> Session:
        opened = self.engine.open(layout)
        return Shrinking(decoder=opened.decoder, layout=opened.layout, storages=opened.storages)


@dataclass(kw_only=True)
class Noisy(ReferenceSession):
    """Every step's logits are off by 3e-6, less than float32 is allowed, more than it is off by itself."""

    def prefill(self, batch: Batch) -> Tensor:
        return _off(super().prefill(batch))

    def append(self, batch: Batch) -> Tensor:
        return _off(super().append(batch))


def _off(logits: Tensor) -> Tensor:
    return logits + 3e-6 if logits.dtype is torch.float32 else logits


@broken()
class noisy_cached(Broken):  # noqa: N801
    """The cached path in float32 rounds more than the uncached one, within its allowance."""

    def open(self, layout: Layout) -> Session:
        opened = self.engine.open(layout)
        return Noisy(decoder=opened.decoder, layout=opened.layout, storages=opened.storages)


@dataclass(kw_only=True)
class Forgetting(ReferenceSession):
    """Caches like the healthy session, and answers from the token at hand alone."""

    def prefill(self, batch: Batch) -> Tensor:
        super().prefill(batch)
        return _at_hand(self.decoder, batch.tokens)

    def append(self, batch: Batch) -> Tensor:
        super().append(batch)
        return _at_hand(self.decoder, batch.tokens)


def _at_hand(decoder: Decoder, tokens: Tensor) -> Tensor:
    logits: Tensor = decoder.head(decoder.norm(decoder.embedding.weight[tokens]))
    return logits


@broken()
class forgetful(Broken):  # noqa: N801
    """No token ever shapes another's logits; both sides agree."""

    def uncached(self, path: Path) -> Tensor:
        return _at_hand(self.engine.decoder, torch.tensor(path.tokens))

    def open(self, layout: Layout) -> Session:
        opened = self.engine.open(layout)
        return Forgetting(decoder=opened.decoder, layout=opened.layout, storages=opened.storages)


@broken(single)
class only_single(Broken):  # noqa: N801
    """Nothing is wrong, and there is no double precision."""


@broken(single)
class sees_pads(Broken):  # noqa: N801
    """Without double precision, and pads before a path move what the uncached forward gives."""

    def uncached(self, path: Path) -> Tensor:
        return self.engine.uncached(path) + 0.01 * sum(token < 0 for token in path.tokens)


@broken(single)
class single_and_failing(Broken):  # noqa: N801
    """Without double precision, and without an uncached forward."""

    def uncached(self, path: Path) -> Tensor:
        raise RuntimeError("not implemented")


@broken()
@dataclass(kw_only=True)
class another_each_time(Broken):  # noqa: N801
    """The identity counts how often it was read, so that no cache is ever admitted."""

    reads: int = 0

    def identity(self) -> Mapping[str, Scalar]:
        self.reads += 1
        return {**self.engine.identity(), "numeric.library": {"read": self.reads}}


@broken()
class unknown_library(Broken):  # noqa: N801
    """The identity does not say which library runs, so that no cache is ever admitted."""

    def identity(self) -> Mapping[str, Scalar]:
        return {name: value for name, value in self.engine.identity().items() if name != "numeric.library"}


@broken()
class counts_half(Broken):  # noqa: N801
    """Half of what went through the embedding is counted."""

    @property
    def forwarded(self) -> int:
        return self.engine.forwarded // 2


@broken()
class identity_forwards(Broken):  # noqa: N801
    """Reading the identity runs the embedding."""

    def identity(self) -> Mapping[str, Scalar]:
        self.engine.decoder.embedding(torch.zeros(1, 3, dtype=torch.long))
        return self.engine.identity()


@broken(lambda told: replace(told, capabilities=told.capabilities - {Capability.CROP, Capability.RAGGED}))
class no_crop(Broken):  # noqa: N801
    """Nothing is wrong, and nothing is rolled back."""


@broken(lambda told: replace(told, capabilities=frozenset()))
class one_row_only(Broken):  # noqa: N801
    """Nothing is wrong, and next to nothing is offered: one row, positions by its own rule."""
