"""Caches that promise less than `exact`: blocks of the wrong scale, packed parts left behind, masks too small."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch
from evseq.faults.broken import BrokenSession, Forward, Logits
from evseq.faults.fault import FULL, LLAMA, Area, fault
from evseq.faults.inside import layers
from evseq.faults.needs import in_reference, known_inside, offers
from evseq.verdict.result import Check

BLOCKS: Mapping[str, Mapping[str, str]] = {FULL: {"cache": "blocks"}}
PACKED: Mapping[str, Mapping[str, str]] = {**BLOCKS, LLAMA: {"cache": "quantised"}}
STREAMING: Mapping[str, Mapping[str, str]] = {FULL: {"cache": "streaming"}}


def blocks(session: BrokenSession) -> list[Any]:
    """Return the layers of the reference that round blocks; none of another kind of cache."""
    return [layer for layer in layers(session) if hasattr(layer, "packed")]


def quantised(session: BrokenSession) -> list[Any]:
    """Return the layers of transformers that hold packed numbers by now."""
    return [layer for layer in layers(session) if getattr(layer, "_quantized_keys", None) is not None]


def rounded(storage: Any, before: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield the row and slots of what a storage rounded since `before` tokens of each row were."""
    for row, (first, last) in enumerate(zip(before.tolist(), storage.packed.tolist(), strict=False)):
        slots = (storage.positions[row] >= 0).nonzero().flatten()
        if last > first:
            yield row, slots[first:last]


class AfterRounding(BrokenSession, ABC):
    """Changes the blocks that a forward rounded, once it is over."""

    def feed(self, batch: Batch, forward: Forward) -> Logits:
        rows = len(batch.tokens)
        counted = [(layer, layer.packed.clone()) for layer in blocks(self)]
        logits = forward(batch)
        for storage, packed in counted:
            fresh = packed if len(packed) == rows else torch.zeros(rows, dtype=packed.dtype)
            for row, slots in rounded(storage, fresh):
                self.change(storage, row, slots)
        return logits

    @abstractmethod
    def change(self, storage: Any, row: int, slots: Tensor) -> None: ...


@fault(
    area=Area.DTYPE,
    report="huggingface/transformers#40099",
    catches=("rounded-beams", "append", Check.SOLO),
    shows=BLOCKS,
    needs=(in_reference, offers("blocks")),
)
class ScaleOfNeighbour(AfterRounding):
    """A block of values is read with the scale of the row before it."""

    def change(self, storage: Any, row: int, slots: Tensor) -> None:
        own, other = (storage.values[of][:, slots] for of in (row, row - 1 if row else row))
        sizes = [block.amax(1, keepdim=True) - block.amin(1, keepdim=True) for block in (own, other)]
        low = own.amin(1, keepdim=True)
        storage.values[row, :, slots] = low + (own - low) * sizes[1] / sizes[0].clamp(min=1e-9)


@fault(
    area=Area.DTYPE,
    report="ggml-org/llama.cpp#23689",
    catches=("less-than-exact", "append", Check.ENVELOPE),
    shows=PACKED,
    needs=(known_inside,),
)
class ZeroPointDropped(AfterRounding):
    """Packed values are read as if their smallest number were zero."""

    def feed(self, batch: Batch, forward: Forward) -> Logits:
        logits = super().feed(batch, forward)
        for layer in quantised(self):
            layer._quantized_values._shift.zero_()  # noqa: SLF001 - a packed tensor has no other way in
        return logits

    def change(self, storage: Any, row: int, slots: Tensor) -> None:
        block = storage.values[row][:, slots]
        storage.values[row, :, slots] = block - block.amin(1, keepdim=True)


@fault(
    area=Area.BEAM,
    report="huggingface/transformers#45510",
    catches=("rounded-beams", "append", Check.SOLO),
    shows=PACKED,
    needs=(known_inside,),
)
class PackedNotSelected(BrokenSession):
    """A choice of beams reorders the tail alone; what is packed stays with the row it was of."""

    def select(self, parents: Sequence[int]) -> None:
        held = [(layer, layer.keys, layer.values, layer.packed) for layer in blocks(self)]
        self.inner.select(parents)
        for layer, keys, values, packed in held:
            for row in range(min(len(parents), len(packed))):
                slots = int(min(packed[row], layer.packed[row]))
                layer.keys[row, :, :slots], layer.values[row, :, :slots] = keys[row, :, :slots], values[row, :, :slots]
        for layer in quantised(self):
            if layer._pending_beam_idx is not None:  # noqa: SLF001
                rows = layer._quantized_keys.shape[0]  # noqa: SLF001
                layer._pending_beam_idx = torch.arange(len(parents)).clamp(max=rows - 1)  # noqa: SLF001


@fault(
    area=Area.DTYPE,
    report="NVIDIA/TensorRT-LLM#2699",
    catches=("less-than-exact", "append", Check.SOLO),
    shows=PACKED,
    needs=(known_inside,),
)
class TailRoundedInReload(BrokenSession):
    """What waited to be rounded is rounded when a cache comes back from a file, and once more when its time comes."""

    def restore(self, state: CacheState) -> None:
        self.inner.restore(state)
        for layer in blocks(self):
            for row, packed in enumerate(layer.packed.tolist()):
                slots = (layer.positions[row] >= 0).nonzero().flatten()[packed:]
                layer.pack_block(row, slots)
        for layer in quantised(self):
            if layer.keys.numel():
                for name in ("keys", "values"):
                    tail = getattr(layer, name)
                    packed = layer._quantize(tail.contiguous(), axis=layer.axis_key)  # noqa: SLF001
                    setattr(layer, name, layer._dequantize(packed))  # noqa: SLF001


@fault(
    area=Area.DTYPE,
    report="vllm-project/vllm#38479",
    catches=("less-than-exact", "prefill", Check.PARITY),
    shows={FULL: {"cache": "quantised"}},
    needs=(in_reference, offers("quantised")),
)
class OneScaleForAll(BrokenSession):
    """All tokens of a forward are rounded by one scale, whatever their own sizes are."""

    def feed(self, batch: Batch, forward: Forward) -> Logits:
        for layer in layers(self):
            if hasattr(layer, "rounded") and not hasattr(layer, "packed"):
                layer.rounded = _by_one_scale
        return forward(batch)


def _by_one_scale(states: Tensor) -> Tensor:
    step = (states.max() - states.min()).clamp(min=1e-9) / 255
    return states.min() + ((states - states.min()) / step).round() * step


class Streams(BrokenSession):
    """Shows other first and last tokens than the kind declares."""

    first, last = 0, 0

    def feed(self, batch: Batch, forward: Forward) -> Logits:
        for layer in layers(self):
            kind = getattr(layer, "kind", None)
            if kind is not None and kind.streams == (2, 6):
                layer.kind = replace(kind, streams=(2 + self.first, 6 + self.last))
        return forward(batch)


@fault(
    area=Area.WINDOW,
    report="huggingface/transformers#33691",
    catches=("less-than-exact", "prefill", Check.PARITY),
    shows=STREAMING,
    needs=(in_reference, offers("streaming")),
)
class FirstTokensShort(Streams):
    """One of the first tokens that are to stay seen is let go."""

    first = -1


@fault(
    area=Area.WINDOW,
    report="huggingface/transformers#33691",
    catches=("declared-visibility", "prefill", Check.PARITY),
    shows=STREAMING,
    needs=(in_reference, offers("streaming")),
)
class LastTokensLong(Streams):
    """A token between the first and the last stays seen one step too long."""

    last = 1
