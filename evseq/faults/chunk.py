"""Chunked prefill: chunks that forget what came before them, and edges of tiles."""

from __future__ import annotations

from dataclasses import replace

from evseq.engines.protocol import Batch
from evseq.faults.broken import BrokenSession, Logits
from evseq.faults.fault import ANY, Area, fault
from evseq.faults.inside import fed, lengths, scale, shifted, views
from evseq.verdict.result import Check


@fault(
    area=Area.CHUNK,
    report="AI-Hypercomputer/maxtext#1448",
    catches=("chunk-splits", "prefill", Check.PARITY),
    shows={target: {"chunk": "5"} for target in ANY},
)
class ChunkNumbersAnew(BrokenSession):
    """Every chunk of a prefill is numbered from 0."""

    def prefill(self, batch: Batch) -> Logits:
        return self.inner.prefill(replace(batch, positions=(batch.mask.cumsum(dim=1) - 1).clamp(min=0)))


@fault(
    area=Area.CHUNK,
    report="meta-llama/llama#899",
    catches=("draft-and-rollback", "append", Check.PARITY),
    shows=ANY,
)
class MaskOfQueriesOnly(BrokenSession):
    """The mask of several appended tokens is as wide as they are: the prefix before them is not seen."""

    def append(self, batch: Batch) -> Logits:
        if batch.tokens.shape[1] > 1:
            scale(self, lambda positions: positions >= 0)
        return self.inner.append(batch)


@fault(
    area=Area.CHUNK,
    report="Mikyx-1/TinyLLM#18",
    catches=("chunk-splits", "prefill", Check.PARITY),
    shows={target: {"chunk": "5"} for target in ANY},
)
class LastQueryAnswersAll(BrokenSession):
    """With a cache the causal mask is left out: all tokens of a chunk answer as its last one does."""

    def prefill(self, batch: Batch) -> Logits:
        logits = self.inner.prefill(batch)
        return logits[:, -1:].expand_as(logits).clone()


@fault(
    area=Area.CHUNK,
    report="tenstorrent/tt-metal#48899",
    catches=("tile-edges", "append", Check.PARITY),
    shows=ANY,
)
class TileEdgeUnseen(BrokenSession):
    """From 64 cached tokens on the one at the tile's edge is not seen."""

    def append(self, batch: Batch) -> Logits:
        if fed(self) >= 64:
            scale(self, lambda positions: positions == 63)
        return self.inner.append(batch)


@fault(
    area=Area.CHUNK,
    report="tenstorrent/tt-metal#54413",
    catches=("chunk-splits", "append", Check.PARITY),
    shows={target: {"chunk": "whole"} for target in ANY},
)
class LastColumnLeftZero(BrokenSession):
    """At a prompt of exactly 13 tokens one head's last column stays zero."""

    def prefill(self, batch: Batch) -> Logits:
        logits = self.inner.prefill(batch)
        if batch.tokens.shape[1] == 13:
            for held in views(self):
                newest = (held.positions == 12)[:, :, None].to(held.values.device)  # row slot 1
                held.values[:, -1].copy_(held.values[:, -1].masked_fill(newest, 0.0))
        return logits


@fault(
    area=Area.CHUNK,
    report="AI-Hypercomputer/maxtext#1448",
    catches=("chunk-splits-padded", "prefill", Check.PARITY),
    shows={target: {"padding": "left", "chunk": "6"} for target in ANY},
)
class ChunkOfPadsCounted(BrokenSession):
    """A chunk that holds nothing but pads of a row moves that row's positions by one, once it begins."""

    def prefill(self, batch: Batch) -> Logits:
        held = lengths(self)
        late = [int(fed(self) > 0 and not own) for own in held] or [0] * len(batch.tokens)
        begun = batch.mask.cumsum(dim=1) > 1  # row column
        moved = shifted(batch, batch.tokens.new_tensor(late))
        kept = batch.positions
        if kept is None or moved.positions is None:
            return self.inner.prefill(batch)
        return self.inner.prefill(replace(batch, positions=moved.positions.where(begun, kept)))


@fault(
    area=Area.CHUNK,
    report="meta-llama/llama#899",
    catches=("long-draft", "append", Check.PARITY),
    shows=ANY,
)
class NineAtOnce(BrokenSession):
    """Of more than eight tokens appended in one forward, those behind the eighth are a thousandth off."""

    def append(self, batch: Batch) -> Logits:
        logits = self.inner.append(batch)
        logits[:, 8:] *= 1.001
        return logits


@fault(
    area=Area.CHUNK,
    report="meta-llama/llama#899",
    catches=("every-split", "append", Check.PARITY),
    shows=ANY,
)
class SquareMask(BrokenSession):
    """Where exactly as many tokens are appended as are held the mask is square, and what is held is not seen."""

    def append(self, batch: Batch) -> Logits:
        if batch.tokens.shape[1] == fed(self) > 1:
            scale(self, lambda positions: positions >= 0)
        return self.inner.append(batch)


@fault(
    area=Area.CHUNK,
    report="tenstorrent/tt-metal#54413",
    catches=("lengths-swept", "append", Check.PARITY),
    shows=ANY,
)
class LengthSixteen(BrokenSession):
    """A prompt of exactly sixteen tokens leaves its last column zero."""

    def prefill(self, batch: Batch) -> Logits:
        logits = self.inner.prefill(batch)
        if batch.tokens.shape[1] == 16:
            scale(self, lambda positions: positions == 15)
        return logits


@fault(
    area=Area.CHUNK,
    report="tenstorrent/tt-metal#48899",
    catches=("long-tail", "append", Check.PARITY),
    shows=ANY,
)
class TailForgetsChunk(BrokenSession):
    """Thirty steps behind several tokens that came in one forward, the newest of those is not seen any more."""

    newest = 0
    steps = 0

    def append(self, batch: Batch) -> Logits:
        if batch.tokens.shape[1] > 1:
            self.newest, self.steps = min(lengths(self)) + batch.tokens.shape[1] - 1, 0
        self.steps += 1
        if self.newest and self.steps > 30:
            scale(self, lambda positions: positions == self.newest)
        return self.inner.append(batch)
