"""Position ids: tokens numbered by another rule than their place in their own row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from evseq.engines.protocol import Batch
from evseq.faults.broken import BrokenEngine, BrokenSession, Forward, Logits, Rows
from evseq.faults.fault import ANY, FULL, GPT2, LEARNED, RIGHT, Area, Side, fault
from evseq.faults.inside import fed, lengths, pads, shifted
from evseq.faults.needs import absolute, counts_tokens, known_inside
from evseq.history import Path
from evseq.verdict.result import Check


@fault(
    area=Area.POSITIONS,
    report="huggingface/transformers#22161",
    catches=("unequal-rows", "prefill", Check.PARITY),
    shows={LEARNED: {"padding": "left"}, GPT2: {"padding": "left"}},
    needs=(absolute, known_inside),
)
class PadsCounted(BrokenSession):
    """Tokens are numbered from column 0, so that the pads before a row move it."""

    def feed(self, batch: Batch, forward: Forward) -> Logits:
        columns = torch.arange(batch.tokens.shape[1]) + fed(self)
        return forward(replace(batch, positions=columns.expand_as(batch.tokens)))


@fault(
    area=Area.POSITIONS,
    report="unslothai/unsloth#3795",
    catches=("unequal-rows", "append", Check.PARITY),
    shows=ANY,
)
class OneRowNumbersAll(BrokenSession):
    """Appended tokens of every row get the position of the first row's."""

    def append(self, batch: Batch) -> Logits:
        if batch.positions is not None:
            batch = replace(batch, positions=batch.positions[:1].expand_as(batch.positions))
        return self.inner.append(batch)


@fault(
    area=Area.POSITIONS,
    report="huggingface/transformers#48161",
    catches=("unequal-rows", "append", Check.PARITY),
    shows=RIGHT,
)
class RightPadsCarried(BrokenSession):
    """The next position is carried on from a prefill's last column, right pads counted."""

    padded: torch.Tensor | int = 0

    def prefill(self, batch: Batch) -> Logits:
        self.padded = self.padded + pads(batch) * batch.mask[:, :1].any(dim=1)
        return self.inner.prefill(batch)

    def append(self, batch: Batch) -> Logits:
        return self.inner.append(shifted(batch, self.padded))


@fault(
    area=Area.POSITIONS,
    report="ggml-org/llama.cpp#29045",
    catches=("crop-and-rewrite", "append", Check.PARITY),
    shows=ANY,
)
class PositionStaysAfterCrop(BrokenSession):
    """After a rollback tokens are numbered one too far."""

    gone = 0

    def crop(self, lengths: Sequence[int]) -> None:
        self.inner.crop(lengths)
        self.gone = 1

    def append(self, batch: Batch) -> Logits:
        return self.inner.append(shifted(batch, self.gone))


@fault(
    area=Area.POSITIONS,
    report="skyzh/tiny-llm#46",
    catches=("draft-and-rollback", "append", Check.PARITY),
    shows=ANY,
)
class OffsetMovedByOldCount(BrokenSession):
    """After several tokens were fed in one forward, the offset is theirs less one too far."""

    extra = 0

    def append(self, batch: Batch) -> Logits:
        logits = self.inner.append(shifted(batch, self.extra))
        self.extra = batch.tokens.shape[1] - 1
        return logits


@fault(
    area=Area.POSITIONS,
    report="huggingface/transformers#36151",
    catches=("reload-continues", "append", Check.PARITY),
    shows=ANY,
)
class NumberedFromNothing(BrokenSession):
    """Appended tokens are numbered from 0, as if the text passed were the whole text."""

    def append(self, batch: Batch) -> Logits:
        counted = (batch.mask.cumsum(dim=1) - 1).clamp(min=0)
        return self.inner.append(replace(batch, positions=counted))


@fault(
    area=Area.POSITIONS,
    report="mosaicml/examples#257",
    catches=("ragged-appends", "append", Check.PARITY),
    shows=ANY,
)
class WaitedColumnCounted(BrokenSession):
    """A row that waited while others were fed counts the column it waited in."""

    waited: torch.Tensor | int = 0

    def append(self, batch: Batch) -> Logits:
        logits = self.inner.append(shifted(batch, self.waited))
        self.waited = (~batch.mask.any(dim=1)).long()
        return logits

    def select(self, parents: Sequence[int]) -> None:
        self.inner.select(parents)
        self.waited = 0


@fault(
    area=Area.POSITIONS,
    report="ggml-org/llama.cpp#29045",
    catches=("positions-by-engine", "append", Check.PARITY),
    shows={target: {"positions": "engine"} for target in ANY},
)
class EngineLandsAtZero(BrokenSession):
    """Left to itself after a rollback, the engine numbers tokens from 0."""

    cropped = False

    def crop(self, lengths: Sequence[int]) -> None:
        self.inner.crop(lengths)
        self.cropped = True

    def append(self, batch: Batch) -> Logits:
        if batch.positions is None and self.cropped:
            batch = replace(batch, positions=batch.mask.cumsum(dim=1) - 1)
        return self.inner.append(batch)


@fault(
    area=Area.POSITIONS,
    report="mosaicml/examples#257",
    catches=("engine-counts", "prefill", Check.PARITY),
    shows={FULL: {"padding": "holes"}},
    needs=(counts_tokens,),
)
class EngineCountsHoles(BrokenSession):
    """Left to itself, the engine counts every column behind a row's first token."""

    def prefill(self, batch: Batch) -> Logits:
        if batch.positions is None and not any(lengths(self)):
            first = batch.mask.long().argmax(dim=1, keepdim=True)  # row 1
            columns = torch.arange(batch.tokens.shape[1])
            batch = replace(batch, positions=(columns - first).clamp(min=0))
        return self.inner.prefill(batch)


@fault(
    area=Area.POSITIONS,
    report="huggingface/candle#1517",
    catches=("unequal-rows", "prefill", Check.PARITY),
    shows={LEARNED: {}, GPT2: {}},
    needs=(absolute,),
    side=Side.UNCACHED,
)
class UncachedNumbersFromOne(BrokenEngine):
    """Without a cache tokens are numbered from 1, with one from 0."""

    def uncached(self, path: Path) -> Rows:
        return self.inner.uncached(replace(path, positions=tuple(position + 1 for position in path.positions)))
