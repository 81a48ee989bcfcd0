"""Caches of two halves: one follows an operation, the other does not. No layer here is recurrent."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch, Session
from evseq.faults.broken import BrokenEngine, BrokenSession, Logits
from evseq.faults.fault import ANY, RIGHT, Area, fault
from evseq.faults.inside import fed, lengths, scale, shifted, views
from evseq.faults.needs import layered
from evseq.faults.serialize import Restored
from evseq.geometry import Layout
from evseq.verdict.result import Check


@fault(
    area=Area.HYBRID,
    report="huggingface/transformers#48256",
    catches=("unequal-rows", "append", Check.PARITY),
    shows=RIGHT,
)
class StateDecaysOverPads(BrokenSession):
    """Right pads go on moving a row's state: its last token fades with each of them."""

    def prefill(self, batch: Batch) -> Logits:
        logits = self.inner.prefill(batch)
        padded = ~batch.mask[:, -1:]  # row 1
        last = torch.tensor(lengths(self))[:, None] - 1  # row 1
        scale(self, lambda positions: (positions == last) & padded, 0.9, layer=0)
        return logits


@fault(
    area=Area.HYBRID,
    report="huggingface/transformers#32677",
    catches=("unequal-rows", "append", Check.PARITY),
    shows={target: {"padding": "left"} for target in ANY},
)
class PadsEnterState(BrokenSession):
    """Left pads enter the state of a row before its first token does."""

    def prefill(self, batch: Batch) -> Logits:
        logits = self.inner.prefill(batch)
        padded = ~batch.mask[:, :1]  # row 1
        scale(self, lambda positions: (positions == 0) & padded, 1.1, layer=0)
        return logits


@fault(
    area=Area.HYBRID,
    report="huggingface/transformers#46190",
    catches=("tile-edges", "append", Check.PARITY),
    shows={target: {"filled": "63"} for target in ANY},
)
class StatePaddedToTile(BrokenSession):
    """A prefill is filled up to a multiple of 64 with zeros, which still move the state, by little."""

    def prefill(self, batch: Batch) -> Logits:
        logits = self.inner.prefill(batch)
        scale(self, lambda positions: positions >= 0, 1 - 1e-6 * (-fed(self) % 64))
        return logits


@fault(
    area=Area.HYBRID,
    report="huggingface/transformers#48947",
    catches=("reload-continues", "append", Check.PARITY),
    shows=ANY,
)
class WrongAfterFirstReuse(Restored):
    """The first step on a restored cache is right; from the second on it is numbered one short."""

    steps = 0

    def append(self, batch: Batch) -> Logits:
        logits = self.inner.append(shifted(batch, -1 if self.restored and self.steps else 0))
        self.steps += 1
        return logits


@fault(
    area=Area.HYBRID,
    report="vllm-project/vllm#34587",
    catches=("reload-continues", "append", Check.PARITY),
    shows=ANY,
)
class BlockCoversLess(BrokenSession):
    """Of the block of four tokens that was last begun, nothing but its first token is restored."""

    def restore(self, state: CacheState) -> None:
        self.inner.restore(state)
        whole = torch.tensor([length // 4 * 4 for length in lengths(self)])[:, None]  # row 1
        scale(self, lambda positions: positions > whole)


@fault(
    area=Area.HYBRID,
    report="JamePeng/llama-cpp-python#59",
    catches=("sessions-interleaved", "append", Check.PARITY),
    shows=ANY,
)
class SecondRunCountsOn(BrokenEngine):
    """The second session of an engine numbers appended tokens one further, the third two."""

    runs = 0

    def open(self, layout: Layout) -> Session:
        self.runs += 1
        session = Later(self.inner.open(layout), self)
        session.run = self.runs - 1
        return session


class Later(BrokenSession):
    """Knows how many sessions its engine opened before."""

    run = 0

    def append(self, batch: Batch) -> Logits:
        return self.inner.append(shifted(batch, self.run))


@fault(
    area=Area.HYBRID,
    report="eullm/eullm#217",
    catches=("crop-and-rewrite", "crop", Check.ISOLATION),
    shows=ANY,
    needs=(layered,),
)
class HalvesPartInCrop(BrokenSession):
    """In a rollback the keys of later layers move by what was dropped, their values do not."""

    def crop(self, lengths: Sequence[int]) -> None:
        self.inner.crop(lengths)
        for held in views(self)[1:]:
            held.keys.copy_(held.keys.roll(1, dims=2))
