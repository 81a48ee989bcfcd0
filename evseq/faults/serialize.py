"""Saving and restoring: parts of a cache that do not come back, or come back as something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch, Session
from evseq.faults.broken import BrokenSession, Logits
from evseq.faults.fault import ANY, FULL, Area, Side, fault
from evseq.faults.inside import layers, lengths, scale
from evseq.faults.needs import everywhere, grouped, in_reference, layered
from evseq.history import Path
from evseq.verdict.result import Check


class Restored(BrokenSession):
    """Remembers that it came from a file."""

    restored = False

    def restore(self, state: CacheState) -> None:
        self.inner.restore(state)
        self.restored = True


def tensors(state: CacheState, change: Callable[[str, Tensor], Tensor]) -> CacheState:
    """Return a state with changed tensors."""
    return replace(state, tensors={name: change(name, tensor) for name, tensor in state.tensors.items()})


@fault(
    area=Area.SERIALIZE,
    report="ggml-org/llama.cpp#1257",
    catches=("reload-continues", "reload", Check.ACCOUNTING),
    shows=ANY,
    needs=(everywhere,),
)
class LastTokenNotStored(BrokenSession):
    """A file holds all tokens but the last of every row."""

    def restore(self, state: CacheState) -> None:
        self.inner.restore(state)
        self.inner.crop([length - 1 for length in lengths(self)])


@fault(
    area=Area.SERIALIZE,
    report="ggml-org/llama.cpp#26676",
    catches=("reload-continues", "reload", Check.REUSE),
    shows=ANY,
    side=Side.REUSE,
)
class RestoredAndComputedAgain(Restored):
    """A restore succeeds, and the first step on it runs the whole prefix through the model once more."""

    def append(self, batch: Batch) -> Logits:
        if self.restored:
            self.restored = False
            for length in lengths(self):
                self.engine.inner.uncached(Path(tokens=(1,) * length, positions=tuple(range(length))))
        return self.inner.append(batch)


@fault(
    area=Area.SERIALIZE,
    report="ml-explore/mlx-examples#977",
    catches=("reload-continues", "reload", Check.ACCOUNTING),
    shows={FULL: {"cache": "fixed"}},
    needs=(in_reference,),
)
class WholeBufferCounts(BrokenSession):
    """The empty rest of a buffer is saved with it, and counts as tokens once restored."""

    def restore(self, state: CacheState) -> None:
        self.inner.restore(state)
        for storage in layers(self):
            columns = getattr(storage, "columns", storage.positions.shape[1])
            storage.positions[:, columns:] = 0


@fault(
    area=Area.SERIALIZE,
    report="ggml-org/llama.cpp#3445",
    catches=("reload-continues", "append", Check.COMPLETED),
    shows={FULL: {"cache": "fixed"}},
    needs=(in_reference,),
)
class FilledBySize(BrokenSession):
    """The number of columns in use comes back as the size of the buffer."""

    def restore(self, state: CacheState) -> None:
        full = dict.fromkeys(state.scalars, state.tensors["layer.0.keys"].shape[2])
        self.inner.restore(replace(state, scalars=full))


@fault(
    area=Area.SERIALIZE,
    report="ferranpons/Llamatik#141",
    catches=("reload-continues", "append", Check.PARITY),
    shows=ANY,
)
class CursorNotSaved(Restored):
    """Keys and values are saved, where the next token stands is not."""

    def append(self, batch: Batch) -> Logits:
        if self.restored and batch.positions is not None:
            batch = replace(batch, positions=batch.positions - torch.tensor(lengths(self))[:, None] + 1)
        return self.inner.append(batch)


@fault(
    area=Area.SERIALIZE,
    report="LMCache/LMCache#2951",
    catches=("reload-after-crop", "append", Check.PARITY),
    shows=ANY,
    needs=(grouped,),
)
class HeadsSwapped(BrokenSession):
    """The heads of one layer come back in the order of another group's."""

    def restore(self, state: CacheState) -> None:
        self.inner.restore(tensors(state, lambda name, part: part.flip(1) if name == "layer.1.values" else part))


@fault(
    area=Area.SERIALIZE,
    report="abetlen/llama-cpp-python#363",
    catches=("fork-chain", "append", Check.PARITY),
    shows=ANY,
    needs=(layered,),
)
class SavedUnderOneName(Restored):
    """A restored session, saved again, has one layer's keys under another's name."""

    def export(self) -> CacheState:
        state = self.inner.export()
        below = state.tensors["layer.0.keys"]
        return tensors(state, lambda name, part: below if self.restored and name == "layer.1.keys" else part)


@fault(
    area=Area.SERIALIZE,
    report="abetlen/llama-cpp-python#997",
    catches=("fork-chain", "append", Check.PARITY),
    shows=ANY,
)
class ForkSavesSource(BrokenSession):
    """A fork's file holds the newest token of its source."""

    source: BrokenSession | None = None

    def fork(self) -> Session:
        twin = self.twin()
        twin.source = self
        return twin

    def export(self) -> CacheState:
        state = self.inner.export()
        if self.source is None:
            return state
        other = self.source.inner.export().tensors
        same = {name for name, part in state.tensors.items() if part.shape == other[name].shape and "values" in name}
        return tensors(state, lambda name, part: other[name] if name in same else part)


@fault(
    area=Area.SERIALIZE,
    report="ferranpons/Llamatik#141",
    catches=("beams-reloaded", "append", Check.PARITY),
    shows=ANY,
)
class ReloadedBeamMasked(Restored):
    """Of more than two restored beams the last one has lost its first token."""

    def append(self, batch: Batch) -> Logits:
        if self.restored:
            third = (torch.arange(len(batch.tokens)) > 1)[:, None]  # row 1
            scale(self, lambda positions: (positions == 0) & third)
        return self.inner.append(batch)


@fault(
    area=Area.SERIALIZE,
    report="abetlen/llama-cpp-python#997",
    catches=("two-saves", "append", Check.PARITY),
    shows=ANY,
)
class OneSlotForSaves(BrokenSession):
    """There is one place for saved states: a file restores what was saved last, where its shape fits."""

    def export(self) -> CacheState:
        state = self.inner.export()
        vars(self.engine)["slot"] = state
        return state

    def restore(self, state: CacheState) -> None:
        last: CacheState = vars(self.engine).get("slot", state)
        shapes = [{name: part.shape for name, part in one.tensors.items()} for one in (last, state)]
        fits = shapes[0] == shapes[1] and (last.kind, last.scalars) == (state.kind, state.scalars)
        self.inner.restore(last if fits else state)


@fault(
    area=Area.SERIALIZE,
    report="ggml-org/llama.cpp#730",
    catches=("two-saves", "append", Check.PARITY),
    shows=ANY,
)
class SecondSaveHalved(BrokenSession):
    """What a session saves a second time is not all of what it holds: values come back halved."""

    saves = 0

    def export(self) -> CacheState:
        self.saves += 1
        half = 1.0 if self.saves == 1 else 0.5
        return tensors(self.inner.export(), lambda name, part: part * half if name.endswith("values") else part)
