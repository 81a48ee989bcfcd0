"""Caches allocated at once: what lies behind the last column, and the last column itself."""

from __future__ import annotations

from collections.abc import Sequence

from evseq.engines.protocol import Batch
from evseq.engines.reference.caches import Fixed
from evseq.faults.broken import BrokenSession, Logits
from evseq.faults.fault import ANY, AT_ONCE, FULL, MISTRAL, WINDOW, Area, fault
from evseq.faults.inside import fed, layers, raw, scale, views, window
from evseq.faults.needs import allocates, in_reference, known_inside, sliding
from evseq.verdict.result import Check


@fault(
    area=Area.STATIC,
    report="huggingface/transformers#46446",
    catches=("buffers-kept", "prefill", Check.ACCOUNTING),
    shows={FULL: {"cache": "fixed"}},
    needs=(in_reference,),
)
class OldSlotsSeen(BrokenSession):
    """After a reset, what a longer request left behind the last column is seen in the last layer."""

    old: object = None

    def reset(self) -> None:
        self.old = layers(self)[-1].positions.clone()
        self.inner.reset()

    def prefill(self, batch: Batch) -> Logits:
        logits = self.inner.prefill(batch)
        last, old = layers(self)[-1], self.old
        if isinstance(last, Fixed) and old is not None:
            last.positions[:, last.columns :] = old[: len(last.positions), last.columns :]  # type: ignore[index]
        return logits


@fault(
    area=Area.STATIC,
    report="huggingface/transformers#30437",
    catches=("unequal-rows", "append", Check.PARITY),
    shows={FULL: {"cache": "fixed"}},
    needs=(in_reference,),
)
class MaskOfWholeBuffer(BrokenSession):
    """A step is masked as if the buffer were full: its empty slots are seen."""

    def append(self, batch: Batch) -> Logits:
        for storage in layers(self):
            if isinstance(storage, Fixed):
                storage.positions[:, storage.columns :] = 0
        return self.inner.append(batch)


@fault(
    area=Area.STATIC,
    report="huggingface/transformers#46446",
    catches=("unequal-rows", "append", Check.PARITY),
    shows=AT_ONCE,
    needs=(known_inside, allocates),
)
class FullBufferDropsOldest(BrokenSession):
    """When the last slot is filled the oldest token is given up for it."""

    def append(self, batch: Batch) -> Logits:
        capacity = raw(self).layout.capacity
        full = fed(self) + batch.tokens.shape[1] == capacity
        if full and any(held.values.shape[2] == capacity for held in views(self)):
            scale(self, lambda positions: positions == 0)
        return self.inner.append(batch)


@fault(
    area=Area.STATIC,
    report="Dao-AILab/flash-attention#772",
    catches=("beams-in-a-ring", "append", Check.PARITY),
    shows=ANY,
)
class FarRowsWriteIntoFirst(BrokenSession):
    """From the fifth row on strides overflow: what such a row writes lands in the first."""

    def append(self, batch: Batch) -> Logits:
        logits = self.inner.append(batch)
        for held in views(self):
            if len(held.values) > 4:
                newest = (held.positions[:1] == held.positions[:1].amax())[:, None, :, None]
                held.values[:1].copy_(held.values[4:5].where(newest.to(held.values.device), held.values[:1]))
        return logits


@fault(
    area=Area.STATIC,
    report="huggingface/transformers#46446",
    catches=("buffers-kept-after-beams", "beam-select", Check.ACCOUNTING),
    shows=ANY,
)
class RowsByLayout(BrokenSession):
    """A cache keeps the number of rows it was allocated for when beams grow beyond it."""

    def select(self, parents: Sequence[int]) -> None:
        self.inner.select(parents[: raw(self).layout.rows])


@fault(
    area=Area.STATIC,
    report="huggingface/transformers#30437",
    catches=("window-and-capacity", "append", Check.PARITY),
    shows={WINDOW: {"cache": "fixed", "capacity": "window"}, MISTRAL: {"cache": "static", "capacity": "window"}},
    needs=(known_inside, allocates, sliding),
)
class RoomOfOneWindow(BrokenSession):
    """A buffer with exactly as much room as the window gives up its oldest token one step early."""

    def append(self, batch: Batch) -> Logits:
        capacity = raw(self).layout.capacity
        if capacity == window(self) == fed(self) + batch.tokens.shape[1]:
            scale(self, lambda positions: positions == 0)
        return self.inner.append(batch)
