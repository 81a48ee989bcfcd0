"""Sliding windows: a token too many or too few, and rings that lose their place."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch
from evseq.engines.reference.caches import Ring
from evseq.faults.broken import BrokenSession, Logits
from evseq.faults.fault import ANY, MISTRAL, SLIDING, WINDOW, Area, fault
from evseq.faults.inside import fed, layers, lengths, scale, shifted, views, widened, window
from evseq.faults.needs import in_reference, known_inside, sliding
from evseq.verdict.result import Check


@fault(
    area=Area.WINDOW,
    report="huggingface/transformers#39408",
    catches=("window-crossed", "append", Check.PARITY),
    shows={WINDOW: {"cache": "growing"}},
    needs=(in_reference, sliding),
)
class WindowInclusive(BrokenSession):
    """An appended token sees one token more than the window."""

    def append(self, batch: Batch) -> Logits:
        with widened(self.engine, lambda size: size + 1):
            return self.inner.append(batch)


@fault(
    area=Area.WINDOW,
    report="ml-explore/mlx-lm#390",
    catches=("window-jumped", "prefill", Check.PARITY),
    shows=SLIDING,
    needs=(known_inside, sliding),
)
class PromptWindowInclusive(BrokenSession):
    """The mask of a prompt allows one token more than the window; later steps do not."""

    def prefill(self, batch: Batch) -> Logits:
        with widened(self.engine, lambda size: size + 1):
            return self.inner.prefill(batch)


@fault(
    area=Area.WINDOW,
    report="karpathy/nanochat#456",
    catches=("window-crossed", "append", Check.PARITY),
    shows={WINDOW: {"cache": "growing"}},
    needs=(in_reference, sliding),
)
class WindowForgottenInDecoding(BrokenSession):
    """A single query sees all that is held, window or not."""

    def append(self, batch: Batch) -> Logits:
        with widened(self.engine, lambda size: None if batch.tokens.shape[1] == 1 else size):
            return self.inner.append(batch)


@fault(
    area=Area.WINDOW,
    report="huggingface/transformers#37574",
    catches=("window-crossed", "append", Check.PARITY),
    shows=SLIDING,
    needs=(known_inside, sliding),
)
class RolledTooEarly(BrokenSession):
    """The oldest token leaves when the window is just filled, not when it overflows."""

    def append(self, batch: Batch) -> Logits:
        if fed(self) == window(self) - 1:
            scale(self, lambda positions: positions == 0)
        return self.inner.append(batch)


@fault(
    area=Area.WINDOW,
    report="lablup/mlxcel#678",
    catches=("window-jumped", "append", Check.PARITY),
    shows=SLIDING,
    needs=(known_inside, sliding),
)
class ChunkClampedToWindow(BrokenSession):
    """Before a chunk as wide as the window all older tokens are thrown away, which its first tokens still see."""

    def append(self, batch: Batch) -> Logits:
        if batch.tokens.shape[1] >= window(self):
            scale(self, lambda positions: positions >= 0)
        return self.inner.append(batch)


@fault(
    area=Area.WINDOW,
    report="pytorch/executorch#20346",
    catches=("window-jumped", "append", Check.PARITY),
    shows={WINDOW: {"cache": "ring"}, MISTRAL: {}},
    needs=(known_inside, sliding),
)
class ChunkOverflowsRing(BrokenSession):
    """A chunk wider than the window is written into its ring one slot off."""

    def append(self, batch: Batch) -> Logits:
        logits = self.inner.append(batch)
        if batch.tokens.shape[1] > window(self):
            for held in views(self):
                if held.values.shape[2] >= fed(self):  # this layer keeps all
                    continue
                held.values.copy_(held.values.roll(1, dims=2))
        return logits


@fault(
    area=Area.WINDOW,
    report="huggingface/transformers#35681",
    catches=("window-padded", "append", Check.PARITY),
    shows=SLIDING,
    needs=(known_inside, sliding),
)
class MaskSlicedFromWrongEnd(BrokenSession):
    """Past the window, a padded row's pads are taken for its newest token instead."""

    def append(self, batch: Batch) -> Logits:
        if fed(self) > window(self):
            newest = torch.tensor(own := lengths(self))[:, None] - 1  # row 1
            padded = torch.tensor([count < fed(self) for count in own])[:, None]  # row 1
            scale(self, lambda positions: (positions == newest) & padded)
        return self.inner.append(batch)


@fault(
    area=Area.WINDOW,
    report="EricLBuehler/mistral.rs#246",
    catches=("window-laps", "append", Check.PARITY),
    shows={WINDOW: {"cache": "ring"}},
    needs=(in_reference, sliding),
)
class FourthLapTurned(BrokenSession):
    """In its fourth lap a ring's values lie one slot off."""

    def append(self, batch: Batch) -> Logits:
        for storage in layers(self):
            if isinstance(storage, Ring) and bool((storage.counts >= 3 * storage.slots).any()):
                storage.values = storage.values.roll(1, dims=2)
        return self.inner.append(batch)


@fault(
    area=Area.WINDOW,
    report="rasbt/LLMs-from-scratch#925",
    catches=("buffers-kept", "append", Check.PARITY),
    shows=ANY,
)
class PositionNotReset(BrokenSession):
    """A reset sends back where the next token is written, and not how it is numbered."""

    left = 0

    def reset(self) -> None:
        self.left = max(lengths(self))
        self.inner.reset()

    def append(self, batch: Batch) -> Logits:
        return self.inner.append(shifted(batch, self.left))


@fault(
    area=Area.WINDOW,
    report="huggingface/transformers#37574",
    catches=("window-reload", "append", Check.PARITY),
    shows=SLIDING,
    needs=(known_inside, sliding),
)
class OldestLostInReload(BrokenSession):
    """A cache restored past its window lacks the oldest token the next query sees."""

    restored = False

    def append(self, batch: Batch) -> Logits:
        if self.restored and batch.positions is not None:
            oldest = batch.positions[:, :1] - window(self) + 1  # row 1
            scale(self, lambda positions: positions == oldest)
        return self.inner.append(batch)

    def restore(self, state: CacheState) -> None:
        self.inner.restore(state)
        self.restored = True


@fault(
    area=Area.WINDOW,
    report="ml-explore/mlx-lm#1776",
    catches=("crop-past-window", "crop", Check.ACCOUNTING),
    shows=SLIDING,
    needs=(sliding,),
)
class FullRingNotTrimmed(BrokenSession):
    """Once a window is full, a rollback is skipped and nobody is told."""

    def crop(self, lengths: Sequence[int]) -> None:
        held = self.inner.probe().lengths
        self.inner.crop(held if max(held) > window(self) else lengths)
