"""Beam reorder: parents that reach some of the cache, or the wrong part of it."""

from __future__ import annotations

from collections.abc import Sequence

from evseq.engines.protocol import Batch
from evseq.faults.broken import BrokenSession, Logits
from evseq.faults.fault import ANY, AT_ONCE, Area, fault
from evseq.faults.inside import layers, lengths, raw, views
from evseq.faults.needs import known_inside, layered
from evseq.faults.serialize import Restored
from evseq.verdict.result import Check


@fault(
    area=Area.BEAM,
    report="huggingface/transformers#46612",
    catches=("beams-swapped-each-step", "append", Check.PARITY),
    shows=ANY,
    needs=(known_inside, layered),
)
class LaterLayersNotSelected(BrokenSession):
    """Only the first layer's cache goes by the name that is reordered."""

    def select(self, parents: Sequence[int]) -> None:
        kept = [(layer.keys, layer.values) for layer in layers(self)]
        self.inner.select(parents)
        for layer, (keys, values) in list(zip(layers(self), kept, strict=True))[1:]:
            if keys is not None and keys.shape == layer.keys.shape:
                layer.keys, layer.values = keys, values


@fault(
    area=Area.BEAM,
    report="huggingface/transformers#46612",
    catches=("beams-after-crop", "append", Check.PARITY),
    shows=AT_ONCE,
    needs=(known_inside,),
)
class ValuesNotSelected(BrokenSession):
    """A cache allocated at once reorders its keys, and its values only while the batch does not grow."""

    def select(self, parents: Sequence[int]) -> None:
        rows = len(self.inner.probe().lengths)
        kept = [layer.values for layer in layers(self)]
        self.inner.select(parents)
        if len(parents) > rows:
            for held, values in zip(views(self), kept, strict=True):
                held.values[:rows].copy_(values)


@fault(
    area=Area.BEAM,
    report="huggingface/transformers#45510",
    catches=("beams-swapped-each-step", "append", Check.PARITY),
    shows=ANY,
    needs=(known_inside,),
)
class OnlyTailSelected(BrokenSession):
    """The last two tokens are reordered; the packed part before them keeps its old order."""

    def select(self, parents: Sequence[int]) -> None:
        kept = [layer.values for layer in layers(self)]
        last = max(self.inner.probe().next_positions) - 2
        self.inner.select(parents)
        for held, values in zip(views(self), kept, strict=True):
            if values.shape == held.values.shape:
                packed = (held.positions < last)[:, None, :, None].to(values.device)  # row 1 slot 1
                held.values.copy_(values.where(packed, held.values))


@fault(
    area=Area.BEAM,
    report="ggml-org/llama.cpp#3802",
    catches=("beams-in-a-ring", "append", Check.PARITY),
    shows=ANY,
)
class BeamsWriteIntoOneRow(BrokenSession):
    """Beams of one parent write their next token into one place, and the last one wins."""

    siblings: tuple[int, ...] = ()

    def select(self, parents: Sequence[int]) -> None:
        self.inner.select(parents)
        self.siblings = tuple(len(parents) - 1 - tuple(reversed(parents)).index(parent) for parent in parents)

    def append(self, batch: Batch) -> Logits:
        logits = self.inner.append(batch)
        if self.siblings:
            for held in views(self):
                newest = (held.positions == held.positions.amax(dim=1, keepdim=True))[:, None, :, None]
                held.values.copy_(held.values[list(self.siblings)].where(newest.to(held.values.device), held.values))
            self.siblings = ()
        return logits


@fault(
    area=Area.BEAM,
    report="vllm-project/vllm#31081",
    catches=("beams-in-a-ring", "append", Check.PARITY),
    shows=ANY,
)
class ParentByWrongCount(BrokenSession):
    """With more than four beams the parent is found by a count that is one too large."""

    def select(self, parents: Sequence[int]) -> None:
        many = len(parents) > 4
        rows = len(self.inner.probe().lengths)
        self.inner.select([parent * rows // (rows + 1) if many else parent for parent in parents])


@fault(
    area=Area.BEAM,
    report="vllm-project/vllm#31081",
    catches=("beams-in-a-ring", "append", Check.PARITY),
    shows=ANY,
)
class InversePermutation(BrokenSession):
    """A permutation is applied backwards; swaps of two do not show it."""

    def select(self, parents: Sequence[int]) -> None:
        whole = sorted(parents) == list(range(len(self.inner.probe().lengths)))
        self.inner.select([list(parents).index(row) for row in range(len(parents))] if whole else parents)


@fault(
    area=Area.BEAM,
    report="huggingface/transformers#46612",
    catches=("half-precision", "beam-select", Check.ACCOUNTING),
    shows=ANY,
    needs=(known_inside,),
)
class MaskNotSelected(BrokenSession):
    """Keys and values are reordered; which slots are pads is not."""

    def select(self, parents: Sequence[int]) -> None:
        own = raw(self)
        masked = [(own, "mask")] if hasattr(own, "mask") else [(storage, "positions") for storage in own.storages]
        kept = [getattr(holder, name) for holder, name in masked]
        self.inner.select(parents)
        for (holder, name), before in zip(masked, kept, strict=True):
            if before.shape == getattr(holder, name).shape:
                setattr(holder, name, before)


@fault(
    area=Area.BEAM,
    report="huggingface/transformers#46612",
    catches=("beams-swapped-each-step", "append", Check.PARITY),
    shows=ANY,
)
class SkippedWithFixedPoint(BrokenSession):
    """When any beam stays in its row, nothing is reordered."""

    def select(self, parents: Sequence[int]) -> None:
        rows = len(self.inner.probe().lengths)
        stays = len(parents) == rows and any(row == parent for row, parent in enumerate(parents))
        self.inner.select(range(rows) if stays else parents)


@fault(
    area=Area.BEAM,
    report="microsoft/onnxruntime#15667",
    catches=("beams-swapped-each-step", "append", Check.PARITY),
    shows=ANY,
)
class SelectBeforeFirstIsLost(BrokenSession):
    """The first choice of parents after a prefill is read from a buffer nobody filled: all zeros."""

    selected = False

    def select(self, parents: Sequence[int]) -> None:
        self.inner.select(parents if self.selected else [0] * len(parents))
        self.selected = True


@fault(
    area=Area.BEAM,
    report="huggingface/transformers#46612",
    catches=("beams-after-reload", "beam-select", Check.ACCOUNTING),
    shows=ANY,
)
class RestoredBeamsStay(Restored):
    """A restored cache goes by another name, which a permutation passes over."""

    def select(self, parents: Sequence[int]) -> None:
        rows = len(lengths(self))
        self.inner.select(range(rows) if self.restored and len(parents) == rows else parents)
