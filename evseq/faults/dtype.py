"""Number formats and quantised caches: what is held is not what was computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch, Probe
from evseq.faults.broken import BrokenSession, Forward, Logits
from evseq.faults.fault import ANY, Area, Side, fault
from evseq.faults.inside import views
from evseq.faults.serialize import tensors
from evseq.verdict.result import Check


def eighths(values: Tensor) -> Tensor:
    """Round each token's numbers to 8 bits of its largest."""
    size = values.abs().amax(dim=-1, keepdim=True).clamp(min=1e-9) / 127
    return (values / size).round() * size


@fault(
    area=Area.DTYPE,
    report="ggml-org/llama.cpp#23689",
    catches=("unequal-rows", "append", Check.PARITY),
    shows=ANY,
)
class ValuesRounded(BrokenSession):
    """Values are held in bfloat16, keys as they are."""

    def feed(self, batch: Batch, forward: Forward) -> Logits:
        logits = forward(batch)
        for held in views(self):
            held.values.copy_(held.values.bfloat16())
        return logits


@fault(
    area=Area.DTYPE,
    report="huggingface/transformers#40099",
    catches=("repeated-token", "append", Check.PARITY),
    shows=ANY,
)
class OldTokensQuantised(BrokenSession):
    """What is older than four tokens is held in 8 bits, and nobody said so."""

    def append(self, batch: Batch) -> Logits:
        for held in views(self):
            old = held.positions <= held.positions.amax(dim=1, keepdim=True) - 4
            chosen = old[:, None, :, None].to(held.values.device)  # row 1 slot 1
            held.values.copy_(eighths(held.values).where(chosen, held.values))
        return self.inner.append(batch)


@fault(
    area=Area.DTYPE,
    report="NVIDIA/TensorRT-LLM#2699",
    catches=("reload-continues", "append", Check.PARITY),
    shows=ANY,
)
class SavedInHalf(BrokenSession):
    """Keys and values are rounded to float16 on their way to the file."""

    def export(self) -> CacheState:
        state = self.inner.export()
        return tensors(state, lambda _, part: part.half().to(part.dtype) if part.is_floating_point() else part)


@fault(
    area=Area.DTYPE,
    report="NVIDIA/TensorRT-LLM#2699",
    catches=("reload-continues", "append", Check.PARITY),
    shows=ANY,
)
class RestoredThroughSingle(BrokenSession):
    """Restored values went through float32: far less than any half precision rounds."""

    def restore(self, state: CacheState) -> None:
        self.inner.restore(state)
        for held in views(self):
            held.values.copy_(held.values.float())


@fault(
    area=Area.DTYPE,
    report="vllm-project/vllm#38479",
    catches=("tile-edges", "append", Check.PARITY),
    shows=ANY,
)
class OneHeadQuantised(BrokenSession):
    """The first head of the last layer is read with tables of fewer bits than it was written with."""

    def append(self, batch: Batch) -> Logits:
        values = views(self)[-1].values
        values[:, 0].copy_(eighths(values[:, 0] / 16) * 16)
        return self.inner.append(batch)


@fault(
    area=Area.DTYPE,
    report="NVIDIA/kvpress#27",
    catches=("unequal-rows", "prefill", Check.ACCOUNTING),
    shows=ANY,
    side=Side.ACCOUNTING,
)
class LengthOfTail(BrokenSession):
    """Asked for its length, a cache with a packed part tells at most eight tokens."""

    def probe(self) -> Probe:
        probe = self.inner.probe()
        return replace(probe, lengths=tuple(min(length, 8) for length in probe.lengths))


@fault(
    area=Area.DTYPE,
    report="huggingface/transformers#45510",
    catches=("half-precision", "append", Check.PARITY),
    shows={target: {"dtype": "bfloat16"} for target in ANY},
)
class HalfBeamsRolled(BrokenSession):
    """In bfloat16 alone, a choice of beams gives each the values of the next."""

    def select(self, parents: Sequence[int]) -> None:
        self.inner.select(parents)
        for held in views(self):
            if held.values.dtype == torch.bfloat16:
                held.values.copy_(held.values.roll(1, dims=0))
