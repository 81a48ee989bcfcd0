"""Order and rounding: results that depend on who came before, and copies that are not bit for bit the same."""

from __future__ import annotations

from evseq.engines.protocol import Batch, Session
from evseq.faults.broken import BrokenEngine, BrokenSession, Forward, Logits
from evseq.faults.fault import ANY, Area, fault
from evseq.faults.inside import scale
from evseq.faults.serialize import Restored
from evseq.geometry import Layout
from evseq.verdict.result import Check


class Scaled(BrokenSession):
    """Answers by a factor off."""

    factor = 1.0

    def feed(self, batch: Batch, forward: Forward) -> Logits:
        return forward(batch) * self.factor


@fault(
    area=Area.ORDER,
    report="vllm-project/vllm#42019",
    catches=("sessions-interleaved", "prefill", Check.PARITY),
    shows=ANY,
)
class OrderOfRequests(BrokenEngine):
    """Every second session is a ten-millionth off: what a request gets depends on its turn."""

    turn = 0

    def open(self, layout: Layout) -> Session:
        self.turn += 1
        session = Scaled(self.inner.open(layout), self)
        session.factor = 1.0 if self.turn % 2 else 1 + 1e-7
        return session


@fault(
    area=Area.ORDER,
    report="ollama/ollama#16860",
    catches=("reload-continues", "append", Check.CONTINUITY),
    shows=ANY,
)
class RestoredAddsOtherwise(Restored):
    """A restored session adds up in another order: every logit is right, and not the same bits."""

    def append(self, batch: Batch) -> Logits:
        return self.inner.append(batch) * (1 + 2.0**-51 * self.restored)


@fault(
    area=Area.ORDER,
    report="beehive-lab/GPULlama3.java#149",
    catches=("chunk-splits", "append", Check.PARITY),
    shows=ANY,
)
class SlowDrift(BrokenSession):
    """Each step is a billionth further off than the one before; no choice of a token ever shows it."""

    steps = 0

    def append(self, batch: Batch) -> Logits:
        self.steps += 1
        return self.inner.append(batch) * (1 + 1e-9 * self.steps)


@fault(
    area=Area.ORDER,
    report="vllm-project/vllm#42019",
    catches=("requests-in-turn", "append", Check.PARITY),
    shows=ANY,
)
class SecondTimeOtherwise(BrokenSession):
    """A prompt that this engine has answered before is taken from somewhere else, where one of its tokens is weaker."""

    def prefill(self, batch: Batch) -> Logits:
        logits = self.inner.prefill(batch)
        answered: set[str] = vars(self.engine).setdefault("answered", set())
        prompt = str(batch.tokens.tolist())
        if prompt in answered:
            scale(self, lambda positions: positions == 0, 0.999)
        answered.add(prompt)
        return logits
