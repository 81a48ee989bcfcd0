"""Broken engines whose faults were once passed over: each shows only in one corner of one check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch
from evseq.engines.reference import loader as healthy
from evseq.engines.reference.engine import ReferenceEngine
from evseq.engines.reference.session import ReferenceSession
from evseq.geometry import Description, Dtype
from planted.faults import planted


@planted("full")
@dataclass(kw_only=True)
class fork_evicts_from_source(ReferenceSession):  # noqa: N801 - named as the target is
    """A fork's append takes the first token away from its source."""

    source: ReferenceSession | None = None

    def fork(self) -> ReferenceSession:
        twin = super().fork()
        twin.source = self  # type: ignore[attr-defined]
        return twin

    def append(self, batch: Batch) -> Tensor:
        if self.source is not None:
            for storage in self.source.storages:
                storage.positions[:, 0] = -1
        return super().append(batch)


@planted("full")
@dataclass(kw_only=True)
class restores_noise(ReferenceSession):  # noqa: N801
    """What a restore puts into the cache has nothing to do with the file."""

    def restore(self, state: CacheState) -> None:
        super().restore(state)
        for storage in self.storages:
            storage.values = torch.ones_like(storage.values)


@planted("full")
@dataclass(kw_only=True)
class exports_half(ReferenceSession):  # noqa: N801
    """The file holds float16, whatever the engine runs in; a restore casts it back."""

    def export(self) -> CacheState:
        state = super().export()
        tensors = {name: part.half() if part.is_floating_point() else part for name, part in state.tensors.items()}
        return replace(state, tensors=tensors)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneDtype:
    """A loader that gives its float64 engine whatever dtype is asked for."""

    def describe(self) -> Description:
        return healthy("full").describe()

    def tokenize(self, text: str) -> tuple[int, ...]:
        return healthy("full").tokenize(text)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> ReferenceEngine:
        return healthy("full").load(Dtype.FLOAT64, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deaf(OneDtype):
    """A model whose head is zero: every history gives the same logits, right or wrong."""

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> ReferenceEngine:
        engine = healthy("full").load(dtype, options)
        engine.decoder.head.weight.data.zero_()
        return engine
