"""Evidence: one recording with the references and the script it is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from evseq.geometry import CacheKind, Description
from evseq.replay.recording import Fed, Recording
from evseq.replay.references import References
from evseq.script.document import Script
from evseq.script.steps import Load, Step
from evseq.script.turns import Turn
from evseq.verdict.compare import Excess
from evseq.verdict.result import Check, Finding
from evseq.verdict.standard import Accepted, Missing

__all__ = ["Evidence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a check may look at. Without a `golden`, missing or not, nobody asked for one.

    `plain` are references of the model itself, where those the recording is held to are of a cache kind's policy.
    """

    recording: Recording
    references: References
    script: Script
    description: Description
    golden: Accepted | Missing | None = None
    plain: References | None = None

    @property
    def kind(self) -> CacheKind:
        """The cache kind that was played."""
        kind = self.description.cache(self.recording.plan.cache)
        assert kind is not None  # the plan took the word from the description
        return kind

    def step(self, index: int) -> Step:
        """Return a step of the plan."""
        return self.recording.plan.steps[index]

    def turn(self, step: Step) -> Turn:
        """Return the event that `step` is part of."""
        return self.recording.plan.turns[step.event]

    def load(self, index: int) -> Load:
        """Return a step known to be a reload."""
        step = self.step(index)
        assert isinstance(step, Load)
        return step

    def finding(
        self,
        check: Check,
        step: int,
        message: str,
        *,
        row: str | None = None,
        index: int | None = None,
        actual: object = None,
        expected: object = None,
        share: float | None = None,
    ) -> Finding:
        """Address a finding to the script line of `step`."""
        turn = self.turn(self.step(step))
        return Finding(
            check=check,
            place=str(self.script.place(turn.word, key=True)),
            event=turn.event.word,
            round=turn.round,
            step=step,
            row=row,
            index=index,
            message=message,
            actual=None if actual is None else str(actual),
            expected=None if expected is None else str(expected),
            share=share,
        )

    def too_far(self, check: Check, fed: Fed, one: Excess, *, against: str) -> Finding:
        """Tell of a forward's observation that is further than allowed from what `against` names."""
        return self.finding(
            check,
            fed.step,
            f"logit {one.entry} is {one.actual:.6g}, {against} {one.expected:.6g}: off by {one.off:.3g}, "
            f"allowed {one.allowed:.3g} in {self.recording.dtype}",
            row=fed.rows[one.place],
            index=fed.indices[one.place],
            actual=one.actual,
            expected=one.expected,
            share=one.share,
        )
