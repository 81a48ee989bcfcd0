"""Isolation: sessions that share what each should have alone, and engines that remember."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from torch import Tensor

from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch, Session
from evseq.faults.broken import BrokenEngine, BrokenSession, Logits, Rows
from evseq.faults.fault import ANY, AT_ONCE, FULL, LLAMA, Area, Side, fault
from evseq.faults.inside import layers, scale, views
from evseq.faults.needs import allocates, known_inside
from evseq.faults.serialize import Restored
from evseq.geometry import Layout
from evseq.history import Path
from evseq.verdict.result import Check


def share(mine: BrokenSession, its: BrokenSession) -> None:
    """Let two sessions write into the same keys and values."""
    for one, other in zip(layers(mine), layers(its), strict=True):
        other.keys, other.values = one.keys, one.values


@fault(
    area=Area.FORK,
    report="huggingface/transformers#32159",
    catches=("crop-after-fork", "append", Check.ISOLATION),
    shows=AT_ONCE,
    needs=(known_inside, allocates),
)
class ForkSharesBuffers(BrokenSession):
    """A fork writes into the buffers of its source."""

    def fork(self) -> Session:
        twin = self.twin()
        share(self, twin)
        return twin


@fault(
    area=Area.FORK,
    report="EricLBuehler/mistral.rs#1026",
    catches=("fork-chain", "append", Check.ISOLATION),
    shows=AT_ONCE,
    needs=(known_inside, allocates),
)
class ForkOfReloadShares(BrokenSession):
    """A session that came from a file hands its buffers on to its forks."""

    restored = False

    def restore(self, state: CacheState) -> None:
        self.inner.restore(state)
        self.restored = True

    def fork(self) -> Session:
        twin = self.twin()
        if self.restored:
            share(self, twin)
        return twin


@fault(
    area=Area.FORK,
    report="sgl-project/mini-sglang#142",
    catches=("copies-outlive-their-source", "append", Check.ISOLATION),
    shows=AT_ONCE,
    needs=(known_inside, allocates),
)
class ReloadsShareBuffers(BrokenSession):
    """Two reloads of one prefix are mapped to the same buffers."""

    def restore(self, state: CacheState) -> None:
        self.inner.restore(state)
        last = vars(self.engine).get("last", lambda: None)()
        if last is not None:
            share(last, self)
        vars(self.engine)["last"] = weakref.ref(self)


@fault(
    area=Area.FORK,
    report="sgl-project/sglang#23392",
    catches=("copies-outlive-their-source", "drop", Check.ISOLATION),
    shows=ANY,
)
class DropFreesFork(BrokenSession):
    """Dropping a session frees what its fork still uses."""

    child: BrokenSession | None = None

    def fork(self) -> Session:
        self.child = self.twin()
        return self.child

    def __del__(self) -> None:
        if self.child is not None:
            scale(self.child, lambda positions: positions >= 0)


@fault(
    area=Area.FORK,
    report="EricLBuehler/candle-vllm#12",
    catches=("buffers-kept", "prefill", Check.PARITY),
    shows={FULL: {"cache": "growing"}, LLAMA: {"cache": "dynamic"}},
)
class NothingClears(BrokenSession):
    """A new request goes on in the cache of the one before it."""

    def reset(self) -> None:
        """Leave everything as it is."""


@fault(
    area=Area.FORK,
    report="huggingface/transformers#37078",
    catches=("reload-continues", "serialize", Check.ISOLATION),
    shows=ANY,
)
class SavingWrites(BrokenSession):
    """Reading the cache out to a file changes it."""

    def export(self) -> CacheState:
        state = self.inner.export()
        scale(self, lambda positions: positions == 0, 1.001)
        return state


@fault(
    area=Area.FORK,
    report="Lightning-AI/litgpt#1596",
    catches=("sessions-interleaved", "prefill", Check.ISOLATION),
    shows=ANY,
)
class ThirdSessionTakesSlot(BrokenEngine):
    """There is room for two live sessions; a third one writes over the first."""

    def open(self, layout: Layout) -> Session:
        opened = BrokenSession(self.inner.open(layout), self)
        live = [seen for seen in vars(self).get("opened", []) if seen() is not None]
        if len(live) >= 2:
            scale(live[0](), lambda positions: positions >= 0, 0.9)
        vars(self)["opened"] = [*live, weakref.ref(opened)]
        return opened


@fault(
    area=Area.FORK,
    report="vllm-project/vllm#4761",
    catches=("sessions-interleaved", "append", Check.PARITY),
    shows=ANY,
    needs=(known_inside,),
)
class FreedBlockReused(BrokenSession):
    """What a dropped session held for its first token is taken for another's."""

    fresh = False

    def prefill(self, batch: Batch) -> Logits:
        logits = self.inner.prefill(batch)
        freed: list[Tensor] | None = vars(self.engine).pop("freed", None)
        for held, values in zip(views(self), freed or (), strict=False):
            held.values[:1].copy_(values.where((held.positions[:1] == 0)[:, None, :, None], held.values[:1]))
        return logits

    def __del__(self) -> None:
        if held := views(self):
            vars(self.engine)["freed"] = [layer.values[:1, :, :1].clone() for layer in held]


@fault(
    area=Area.FORK,
    report="rasbt/LLMs-from-scratch#1048",
    catches=("sessions-interleaved", "prefill", Check.REFERENCE),
    shows=ANY,
    side=Side.UNCACHED,
)
class CachedCallsMoveUncached(BrokenEngine):
    """Where a cached call stood stays on the model, and an uncached one starts from there."""

    opened = 0

    def open(self, layout: Layout) -> Session:
        self.opened += 1
        return self.inner.open(layout)

    def uncached(self, path: Path) -> Rows:
        return self.inner.uncached(path) + 2.0**-40 * self.opened


@fault(
    area=Area.FORK,
    report="NVIDIA/TensorRT-LLM#8813",
    catches=("fork-after-beams", "append", Check.ISOLATION),
    shows=AT_ONCE,
    needs=(known_inside, allocates),
)
class ForkOfBeamsShares(BrokenSession):
    """Once beams were chosen, a fork writes into their buffers."""

    selected = False

    def select(self, parents: Sequence[int]) -> None:
        self.inner.select(parents)
        self.selected = True

    def fork(self) -> Session:
        twin = self.twin()
        if self.selected:
            share(self, twin)
        return twin


@fault(
    area=Area.FORK,
    report="time-series-foundation-models/lag-llama#81",
    catches=("reset-after-reload", "prefill", Check.ACCOUNTING),
    shows={FULL: {"cache": "growing"}},
)
class RestoredNotCleared(Restored):
    """A session that came from a file is not cleared by a reset."""

    def reset(self) -> None:
        if not self.restored:
            self.inner.reset()
