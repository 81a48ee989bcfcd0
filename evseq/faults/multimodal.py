"""State of one request that reaches the next, as engines with images keep it. Nothing here has images."""

from __future__ import annotations

from dataclasses import replace

import torch

from evseq.engines.protocol import Batch
from evseq.faults.broken import BrokenSession, Logits
from evseq.faults.fault import ANY, Area, fault
from evseq.faults.inside import pads, scale, shifted
from evseq.verdict.result import Check


@fault(
    area=Area.MULTIMODAL,
    report="huggingface/transformers#43952",
    catches=("sessions-interleaved", "append", Check.PARITY),
    shows={target: {"padding": "left"} for target in ANY},
)
class OffsetOfLastRequest(BrokenSession):
    """How far positions lie behind columns is kept on the model, and moves whoever comes next."""

    def prefill(self, batch: Batch) -> Logits:
        vars(self.engine)["offset"] = int(pads(batch).max())
        return self.inner.prefill(batch)

    def append(self, batch: Batch) -> Logits:
        return self.inner.append(shifted(batch, vars(self.engine).get("offset", 0)))


@fault(
    area=Area.MULTIMODAL,
    report="jjang-ai/vmlx#113",
    catches=("sessions-interleaved", "prefill", Check.PARITY),
    shows={target: {"padding": "left"} for target in ANY},
)
class StalePositions(BrokenSession):
    """A prefill no wider than the last one takes over its position ids."""

    def prefill(self, batch: Batch) -> Logits:
        last: torch.Tensor | None = vars(self.engine).get("last")
        vars(self.engine)["last"] = batch.positions
        if last is not None and batch.positions is not None and last.shape[1] >= batch.positions.shape[1]:
            stale = last[-1:, -batch.positions.shape[1] :]
            batch = replace(batch, positions=stale.expand_as(batch.positions))
        return self.inner.prefill(batch)


@fault(
    area=Area.MULTIMODAL,
    report="huggingface/transformers#40490",
    catches=("greedy-continuation", "append", Check.PARITY),
    shows=ANY,
)
class FirstStepUnprepared(BrokenSession):
    """The first step after a prefill is numbered one further, no other is; text hardly moves."""

    stepped = False

    def append(self, batch: Batch) -> Logits:
        logits = self.inner.append(shifted(batch, 0 if self.stepped else 1))
        self.stepped = True
        return logits


@fault(
    area=Area.MULTIMODAL,
    report="huggingface/transformers#41890",
    catches=("repeated-token", "append", Check.PARITY),
    shows=ANY,
)
class FullLayerSlides(BrokenSession):
    """The first layer, which must see all, is cached by the rule of a layer that slides."""

    def append(self, batch: Batch) -> Logits:
        scale(self, lambda positions: positions <= positions.amax(dim=1, keepdim=True) - 8, layer=0)
        return self.inner.append(batch)
