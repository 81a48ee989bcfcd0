"""Rows and batch sizes: some row of some batch, and no other."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from evseq.engines.protocol import Batch
from evseq.faults.broken import BrokenSession, Forward, Logits
from evseq.faults.fault import ANY, Area, fault
from evseq.faults.inside import scale
from evseq.verdict.result import Check


@fault(
    area=Area.ROW,
    report="tenstorrent/tt-xla#5940",
    catches=("unequal-rows", "prefill", Check.PARITY),
    shows=ANY,
)
class OnlyFirstRowRight(BrokenSession):
    """A batched prefill is right in its first row, and a thousandth off in every other."""

    def prefill(self, batch: Batch) -> Logits:
        logits = self.inner.prefill(batch)
        logits[1:] *= 1.001
        return logits


@fault(
    area=Area.ROW,
    report="ml-explore/mlx-lm#1141",
    catches=("crop-to-the-start", "beam-select", Check.ACCOUNTING),
    shows=ANY,
)
class EmptyRowsNotMultiplied(BrokenSession):
    """An empty cache keeps its number of rows when beams are made of it."""

    def select(self, parents: Sequence[int]) -> None:
        if any(self.inner.probe().lengths):
            self.inner.select(parents)


@fault(
    area=Area.ROW,
    report="ggml-org/llama.cpp#5658",
    catches=("unequal-rows", "append", Check.PARITY),
    shows=ANY,
)
class ThirdRowLosesFirst(BrokenSession):
    """In a batch of three or more the first token of rows after the second is not seen."""

    def append(self, batch: Batch) -> Logits:
        later = (torch.arange(len(batch.tokens)) >= 2)[:, None]  # row 1
        scale(self, lambda positions: (positions == 0) & later)
        return self.inner.append(batch)


@fault(
    area=Area.ROW,
    report="tenstorrent/tt-xla#5940",
    catches=("repeated-token", "append", Check.PARITY),
    shows=ANY,
)
class EqualTokensAnsweredOnce(BrokenSession):
    """Rows that are fed the same token get the first one's answer."""

    def append(self, batch: Batch) -> Logits:
        logits = self.inner.append(batch)
        same = (batch.tokens == batch.tokens[:1]).all(dim=1)  # row
        return logits[:1].where(same[:, None, None], logits)


@fault(
    area=Area.ROW,
    report="abetlen/llama-cpp-python#888",
    catches=("beams-grow-and-shrink", "append", Check.PARITY),
    shows=ANY,
)
class LastRowForgetsInGrownBatch(BrokenSession):
    """In a batch wider than the one it began with, the last row's newest token is not seen."""

    rows = 0

    def prefill(self, batch: Batch) -> Logits:
        self.rows = len(batch.tokens)
        return self.inner.prefill(batch)

    def append(self, batch: Batch) -> Logits:
        if self.rows and len(batch.tokens) > self.rows:
            last = (torch.arange(len(batch.tokens)) == len(batch.tokens) - 1)[:, None]  # row 1
            scale(self, lambda positions: (positions == positions.amax(dim=1, keepdim=True)) & last)
        return self.inner.append(batch)


@fault(
    area=Area.ROW,
    report="tenstorrent/tt-xla#5940",
    catches=("eight-rows", "prefill", Check.PARITY),
    shows=ANY,
)
class RowsBehindSixth(BrokenSession):
    """In a batch of seven rows or more, those behind the sixth are a thousandth off."""

    def feed(self, batch: Batch, forward: Forward) -> Logits:
        logits = forward(batch)
        logits[6:] *= 1.001
        return logits
