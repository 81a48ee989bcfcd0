"""Rotary scaling: angles of a base that depends on what it should not."""

from __future__ import annotations

from evseq.engines.protocol import Batch
from evseq.faults.broken import BrokenEngine, BrokenSession, Logits, Rows
from evseq.faults.fault import ANY, Area, Side, fault
from evseq.faults.inside import fed, rotary_base
from evseq.faults.needs import known_inside, rotary
from evseq.faults.serialize import Restored
from evseq.history import Path
from evseq.verdict.result import Check


@fault(
    area=Area.ROPE,
    report="huggingface/transformers#25104",
    catches=("tile-edges", "append", Check.PARITY),
    shows=ANY,
    needs=(known_inside, rotary),
)
class BaseByLength(BrokenSession):
    """Beyond 64 columns new tokens are turned by another base than the cached ones were."""

    def append(self, batch: Batch) -> Logits:
        with rotary_base(self.engine, 2.0 if fed(self) >= 64 else 1.0):
            return self.inner.append(batch)


@fault(
    area=Area.ROPE,
    report="huggingface/transformers#27227",
    catches=("unequal-rows", "prefill", Check.PARITY),
    shows=ANY,
    needs=(known_inside, rotary),
    side=Side.UNCACHED,
)
class BaseStaysEnlarged(BrokenEngine):
    """Without a cache, what follows a longer text is turned by the base enlarged for it."""

    longest = 0

    def uncached(self, path: Path) -> Rows:
        self.longest = max(self.longest, len(path))
        with rotary_base(self, 2.0 if len(path) < self.longest else 1.0):
            return self.inner.uncached(path)


@fault(
    area=Area.ROPE,
    report="ggml-org/llama.cpp#4097",
    catches=("reload-continues", "append", Check.PARITY),
    shows=ANY,
    needs=(known_inside, rotary),
)
class RestoredUnscaled(Restored):
    """A restored session goes on with the base before scaling."""

    def append(self, batch: Batch) -> Logits:
        with rotary_base(self.engine, 0.5 if self.restored else 1.0):
            return self.inner.append(batch)


@fault(
    area=Area.ROPE,
    report="vllm-project/vllm#3488",
    catches=("chunk-splits", "append", Check.PARITY),
    shows=ANY,
    needs=(known_inside, rotary),
)
class LongTableForDecoding(BrokenSession):
    """A single query is turned by a table made for the largest length."""

    def append(self, batch: Batch) -> Logits:
        with rotary_base(self.engine, 4.0 if batch.tokens.shape[1] == 1 else 1.0):
            return self.inner.append(batch)
