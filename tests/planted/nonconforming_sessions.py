"""Sessions that each break one rule of the conformance suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from evseq.cache.state import CacheState
from evseq.engines import protocol
from evseq.engines.protocol import Batch, CacheView, LayerView, Probe
from evseq.engines.reference.session import ReferenceSession
from evseq.errors import EngineError


class Session(ReferenceSession):
    """A session whose feeding can be tampered with in one place."""

    def prefill(self, batch: Batch) -> Tensor:
        return super().prefill(self.tampered(batch))

    def append(self, batch: Batch) -> Tensor:
        return super().append(self.tampered(batch))

    def tampered(self, batch: Batch) -> Batch:
        return batch


class WindowTooWide(Session):
    def append(self, batch: Batch) -> Tensor:
        config = self.decoder.config
        layers = tuple(replace(layer, window=layer.window and layer.window + 1) for layer in config.layers)
        self.decoder.config = replace(config, layers=layers)
        logits = super().append(batch)
        self.decoder.config = config
        return logits


class EveryPrefillStartsAtZero(ReferenceSession):
    def prefill(self, batch: Batch) -> Tensor:
        return super().prefill(replace(batch, positions=batch.mask.cumsum(dim=1) - 1))


class TogetherAtOnePosition(ReferenceSession):
    def append(self, batch: Batch) -> Tensor:
        assert batch.positions is not None
        return super().append(replace(batch, positions=batch.positions[:, :1].expand_as(batch.positions)))


class IgnoresMask(Session):
    def tampered(self, batch: Batch) -> Batch:
        return replace(batch, mask=torch.ones_like(batch.mask))


class HolesTakePositions(Session):
    def tampered(self, batch: Batch) -> Batch:
        width = self.storages[0].positions.shape[1]
        return replace(batch, positions=(torch.arange(batch.mask.shape[1]) + width).expand_as(batch.tokens))


class UnfedRowsTakeToken(ReferenceSession):
    def append(self, batch: Batch) -> Tensor:
        return super().append(replace(batch, mask=torch.ones_like(batch.mask)))


class NumbersFromOne(Session):
    def tampered(self, batch: Batch) -> Batch:
        return batch if batch.positions is not None else replace(batch, positions=batch.mask.cumsum(dim=1))


class IgnoresPositions(Session):
    def tampered(self, batch: Batch) -> Batch:
        return replace(batch, positions=None)


class OverwritesWhenFull(Session):
    def append(self, batch: Batch) -> Tensor:
        if int(self.storages[0].lengths().max()) == self.layout.capacity:
            self.storages[0].crop(self.storages[0].lengths() - 1)
        return super().append(batch)


class BeamLeavesValues(ReferenceSession):
    def select(self, parents: Sequence[int]) -> None:
        values = [storage.values for storage in self.storages]
        super().select(parents)
        for storage, left in zip(self.storages, values, strict=True):
            storage.values = left[[0] * len(parents)]


class CannotCrop(ReferenceSession):
    def crop(self, lengths: Sequence[int]) -> None:
        raise NotImplementedError("crop")


class OneLayerNotCropped(ReferenceSession):
    def crop(self, lengths: Sequence[int]) -> None:
        kept = self.storages[1].copy()
        super().crop(lengths)
        self.storages[1] = kept


class CropsAllRowsAlike(ReferenceSession):
    def crop(self, lengths: Sequence[int]) -> None:
        super().crop([min(lengths)] * len(lengths))


class JoinSeesPads(ReferenceSession):
    def join(self, other: protocol.Session) -> None:
        rows = self.rows or 0
        super().join(other)
        for storage in self.storages:
            storage.positions[rows:, :6] = 0


class JoinForwards(ReferenceSession):
    def join(self, other: protocol.Session) -> None:
        super().join(other)
        self.decoder.embedding(torch.zeros(3, 2, dtype=torch.long))


class CannotJoin(ReferenceSession):
    join = None  # type: ignore[assignment]


class ForkShares(ReferenceSession):
    def fork(self) -> ReferenceSession:
        return type(self)(decoder=self.decoder, layout=self.layout, storages=self.storages, rows=self.rows)


class ForkLosesToken(ReferenceSession):
    def fork(self) -> ReferenceSession:
        twin = super().fork()
        twin.storages[1].positions[:, -1] = -1
        return twin


class ResetForgetsNothing(ReferenceSession):
    def reset(self) -> None:
        self.rows = self.rows


class ExportShares(ReferenceSession):
    def export(self) -> CacheState:
        state = super().export()
        held = {
            f"layer.{number}.{part}": tensor
            for number, storage in enumerate(self.storages)
            for part, tensor in storage.parts().items()
        }
        return replace(state, tensors=held)


class RestoreDropsLast(ReferenceSession):
    def restore(self, state: CacheState) -> None:
        super().restore(state)
        super().crop([length - 1 for length in self.storages[0].lengths().tolist()])


class RestoreForwards(ReferenceSession):
    def restore(self, state: CacheState) -> None:
        super().restore(state)
        self.decoder.embedding(torch.zeros(2, 9, dtype=torch.int64))


class RoundsOnSave(ReferenceSession):
    def export(self) -> CacheState:
        state = super().export()
        return replace(state, tensors={name: rounded(tensor) for name, tensor in state.tensors.items()})


class RestoreTakesHalf(ReferenceSession):
    def restore(self, state: CacheState) -> None:
        try:
            super().restore(state)
        except EngineError:
            self.storages[1] = self.storages[1].restored(state, "layer.1")
            self.rows = self.layout.rows
            raise


class RestoreTakesAnyKind(ReferenceSession):
    def restore(self, state: CacheState) -> None:
        super().restore(replace(state, kind=self.layout.cache))


class ViewShowsMasked(ReferenceSession):
    def view(self) -> CacheView:
        layers = super().view().layers
        return CacheView(
            layers=tuple(
                LayerView(keys=layer.keys, values=layer.values, positions=layer.positions.abs()) for layer in layers
            )
        )


class ProbeForgetsOneHead(ReferenceSession):
    def probe(self) -> Probe:
        probe = super().probe()
        return replace(probe, cache_bytes=probe.cache_bytes // 2)


def rounded(tensor: Tensor) -> Tensor:
    return tensor.half().to(tensor.dtype) if tensor.is_floating_point() else tensor
