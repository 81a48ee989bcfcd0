"""Accounting: every logit is right, and one number that the engine tells of itself is not."""

from __future__ import annotations

from dataclasses import replace

from evseq.engines.protocol import Batch, Probe, Session
from evseq.faults.broken import BrokenEngine, BrokenSession, Forward, Logits
from evseq.faults.fault import ANY, FULL, LLAMA, Area, Side, fault
from evseq.faults.needs import layered
from evseq.history import Path
from evseq.verdict.result import Check


@fault(
    area=Area.MEMORY,
    report="xLLM-AI/xllm#828",
    catches=("sessions-interleaved", "prefill", Check.ACCOUNTING),
    shows=ANY,
    side=Side.ACCOUNTING,
)
class DroppedBytesStay(BrokenSession):
    """The bytes of dropped sessions are never given back."""

    def __del__(self) -> None:
        vars(self.engine)["leaked"] = vars(self.engine).get("leaked", 0) + self.inner.probe().cache_bytes

    def probe(self) -> Probe:
        probe = self.inner.probe()
        return replace(probe, cache_bytes=probe.cache_bytes + vars(self.engine).get("leaked", 0))


@fault(
    area=Area.MEMORY,
    report="Avarok-Cybersecurity/atlas#373",
    catches=("crop-after-fork", "fork", Check.ACCOUNTING),
    shows=ANY,
    side=Side.ACCOUNTING,
)
class ForkCountsAsShared(BrokenSession):
    """A fork is told to hold nothing of its own."""

    shared = 0

    def fork(self) -> Session:
        twin = self.twin()
        twin.shared = self.inner.probe().cache_bytes
        return twin

    def probe(self) -> Probe:
        probe = self.inner.probe()
        return replace(probe, cache_bytes=probe.cache_bytes - self.shared)


@fault(
    area=Area.MEMORY,
    report="vllm-project/vllm#35931",
    catches=("buffers-kept", "prefill", Check.ACCOUNTING),
    shows=ANY,
    side=Side.ACCOUNTING,
)
class PinnedAfterReset(BrokenSession):
    """One token stays pinned after a reset, and is counted in every row."""

    pinned = 0

    def reset(self) -> None:
        self.inner.reset()
        self.pinned = 1

    def probe(self) -> Probe:
        probe = self.inner.probe()
        return replace(probe, lengths=tuple(length + self.pinned for length in probe.lengths))


@fault(
    area=Area.MEMORY,
    report="xLLM-AI/xllm#828",
    catches=("unequal-rows", "prefill", Check.ACCOUNTING),
    shows=ANY,
    side=Side.ACCOUNTING,
)
class KeysCountedOnly(BrokenSession):
    """Bytes are those of the keys."""

    def probe(self) -> Probe:
        probe = self.inner.probe()
        return replace(probe, cache_bytes=probe.cache_bytes // 2)


@fault(
    area=Area.MEMORY,
    report="Avarok-Cybersecurity/atlas#373",
    catches=("unequal-rows", "prefill", Check.ACCOUNTING),
    shows=ANY,
    needs=(layered,),
    side=Side.ACCOUNTING,
)
class QueryCountsItself(BrokenSession):
    """In the second layer the next query is counted among what it sees."""

    def probe(self) -> Probe:
        probe = self.inner.probe()
        seen = [tuple(count + (layer == 1) for count in counts) for layer, counts in enumerate(probe.visible)]
        return replace(probe, visible=tuple(seen))


@fault(
    area=Area.MEMORY,
    report="huggingface/transformers#37078",
    catches=("unequal-rows", "append", Check.ACCOUNTING),
    shows=ANY,
    side=Side.ACCOUNTING,
)
class StepForwardedTwice(BrokenSession):
    """A step is run a second time, without a cache, and thrown away."""

    def append(self, batch: Batch) -> Logits:
        logits = self.inner.append(batch)
        columns = batch.tokens.numel()
        self.engine.inner.uncached(Path(tokens=(1,) * columns, positions=tuple(range(columns))))
        return logits


@fault(
    area=Area.MEMORY,
    report="vllm-project/vllm#35931",
    catches=("unequal-rows", "append", Check.ACCOUNTING),
    shows=ANY,
    side=Side.ACCOUNTING,
)
class ForwardsHalved(BrokenEngine):
    """Of what was forwarded half is reported."""

    @property
    def forwarded(self) -> int:
        return self.inner.forwarded // 2


@fault(
    area=Area.MEMORY,
    report="vllm-project/vllm#35931",
    catches=("unequal-rows", "append", Check.ACCOUNTING),
    shows=ANY,
    side=Side.ACCOUNTING,
)
class NextPositionAhead(BrokenSession):
    """The probe tells the last row's next position one too far, once something was appended."""

    stepped = False

    def append(self, batch: Batch) -> Logits:
        self.stepped = True
        return self.inner.append(batch)

    def probe(self) -> Probe:
        probe = self.inner.probe()
        *others, last = probe.next_positions
        return replace(probe, next_positions=(*others, last + self.stepped))


@fault(
    area=Area.MEMORY,
    report="ml-explore/mlx-lm#960",
    catches=("looked-at-only", "probe", Check.ACCOUNTING),
    shows={FULL: {"cache": "growing"}, LLAMA: {"cache": "dynamic"}},
    side=Side.ACCOUNTING,
)
class BytesOfLastFed(BrokenSession):
    """Bytes are counted when something is fed: who is asked tells those of whoever was fed last."""

    def feed(self, batch: Batch, forward: Forward) -> Logits:
        logits = forward(batch)
        vars(self.engine)["counted"] = self.inner.probe().cache_bytes
        return logits

    def probe(self) -> Probe:
        probe = self.inner.probe()
        return replace(probe, cache_bytes=vars(self.engine).get("counted", probe.cache_bytes))
