"""Padding masks: pads that are seen, tokens that are not."""

from __future__ import annotations

from dataclasses import replace

import torch

from evseq.engines.protocol import Batch
from evseq.engines.reference.config import Coding
from evseq.faults.broken import BrokenEngine, BrokenSession, Logits, Rows
from evseq.faults.fault import ALIBI, ANY, LEFT, Area, Side, fault
from evseq.faults.inside import pads, raw, unmask
from evseq.faults.needs import coded, known_inside
from evseq.history import Path
from evseq.verdict.result import Check


@fault(
    area=Area.MASK,
    report="huggingface/transformers#31943",
    catches=("unequal-rows", "prefill", Check.PARITY),
    shows=LEFT,
)
class PadsSeen(BrokenSession):
    """The pads of shorter rows are attended to, as tokens at position 0."""

    def prefill(self, batch: Batch) -> Logits:
        return self.inner.prefill(replace(batch, mask=torch.ones_like(batch.mask)))


@fault(
    area=Area.MASK,
    report="huggingface/transformers#47651",
    catches=("unequal-rows", "prefill", Check.PARITY),
    shows=LEFT,
)
class SevenPads(BrokenSession):
    """With exactly seven pads a row's first token is masked too."""

    def prefill(self, batch: Batch) -> Logits:
        first = batch.mask & (batch.mask.cumsum(dim=1) == 1)  # row column
        seven = (pads(batch) == 7)[:, None]  # row 1
        return self.inner.prefill(replace(batch, mask=batch.mask & ~(first & seven)))


@fault(
    area=Area.MASK,
    report="unslothai/unsloth#6738",
    catches=("unequal-rows", "prefill", Check.PARITY),
    shows=LEFT,
)
class ManyPadsSeen(BrokenSession):
    """Of ten or more pads before a row the last one is attended to."""

    def prefill(self, batch: Batch) -> Logits:
        before = batch.mask.cumsum(dim=1) == 0  # row column
        last = before & ~before.roll(-1, dims=1)  # row column
        many = (before.sum(dim=1) >= 10)[:, None]  # row 1
        return self.inner.prefill(replace(batch, mask=batch.mask | (last & many)))


@fault(
    area=Area.MASK,
    report="unslothai/unsloth#9708",
    catches=("unequal-rows", "prefill", Check.FINITE),
    shows=LEFT,
)
class NothingToSee(BrokenSession):
    """A column with nothing but itself to attend to gives no number, where pads stand before it."""

    def prefill(self, batch: Batch) -> Logits:
        logits = self.inner.prefill(batch)
        alone = batch.mask & (batch.mask.cumsum(dim=1) == 1) & ~batch.mask[:, :1]  # row column
        return logits.masked_fill(alone[..., None], torch.nan)


@fault(
    area=Area.MASK,
    report="Blaizzy/mlx-vlm#1946",
    catches=("unequal-rows", "append", Check.PARITY),
    shows=LEFT,
    needs=(known_inside,),
)
class MaskDroppedAfterPrefill(BrokenSession):
    """The prefill heeds the mask; what it leaves in the cache knows of no pads."""

    def append(self, batch: Batch) -> Logits:
        unmask(self)
        return self.inner.append(batch)


@fault(
    area=Area.MASK,
    report="keras-team/keras-hub#2977",
    catches=("unequal-rows", "append", Check.PARITY),
    shows={ALIBI: {}},
    needs=(coded(Coding.ALIBI),),
)
class BiasOfOneQuery(BrokenSession):
    """The bias by distance is made from the number of queries: for a single one it is nothing."""

    def append(self, batch: Batch) -> Logits:
        decoder = raw(self).decoder
        kept = decoder.config
        if batch.tokens.shape[1] == 1:
            decoder.config = replace(kept, coding=Coding.LEARNED)  # whose table this decoder lacks
        try:
            return self.inner.append(batch)
        finally:
            decoder.config = kept


@fault(
    area=Area.MASK,
    report="huggingface/transformers#48769",
    catches=("unequal-rows", "prefill", Check.REFERENCE),
    shows=ANY,
    side=Side.UNCACHED,
)
class FutureSeen(BrokenEngine):
    """Without padding the mask is left out, and later tokens leak into the uncached logits before them."""

    def uncached(self, path: Path) -> Rows:
        logits = self.inner.uncached(path)
        return logits + 0.01 * logits.sum(dim=0)


@fault(
    area=Area.MASK,
    report="huggingface/transformers#47651",
    catches=("pads-swept", "prefill", Check.PARITY),
    shows=LEFT,
)
class ElevenPads(BrokenSession):
    """With exactly eleven pads a row's first token is masked too."""

    def prefill(self, batch: Batch) -> Logits:
        first = batch.mask & (batch.mask.cumsum(dim=1) == 1)
        return self.inner.prefill(replace(batch, mask=batch.mask & ~(first & (pads(batch) == 11)[:, None])))
