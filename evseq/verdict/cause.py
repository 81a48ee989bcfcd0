"""Cause: what the first divergence has in common with other cases, and what came right before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evseq.script.steps import Crop, Fork, Load, Reset, Select
from evseq.verdict.evidence import Evidence
from evseq.verdict.result import Case, Finding, Outcome

__all__ = ["explained", "preceded"]


def preceded(evidence: Evidence, finding: Finding) -> Finding:
    """Name the last event before `finding` that reshaped or replaced its session's cache, if there is one."""
    steps = evidence.recording.plan.steps
    session = steps[finding.step].session
    for step in reversed(steps[: finding.step]):
        if step.session == session and isinstance(step, Select | Crop | Fork | Load | Reset):
            word = evidence.script.events[step.event].word
            line = evidence.script.place(("events", step.event, word), key=True).line
            return replace(finding, cause=f"the last change of this cache before it: {word} in line {line}")
    return finding


def explained(cases: Sequence[Case]) -> tuple[Case, ...]:
    """Add to each failed case's first finding which arm values only failed cases have.

    `cases` are those of one script on one target. Nothing is added where every case failed: no arm is to blame then.
    """
    failed = [case for case in cases if case.outcome is Outcome.FAILED]
    passed = [case for case in cases if case.outcome is Outcome.PASSED]
    if not failed or not passed:
        return tuple(cases)
    told = []
    for name in failed[0].arms:
        bad = {case.arms[name] for case in failed}
        if not bad & {case.arms[name] for case in passed}:
            told.append(f"{name} {', '.join(str(value) for value in sorted(bad, key=str))}")
    if not told:
        return tuple(cases)
    return tuple(_with_cause(case, f"only with {' and '.join(told)}") for case in cases)


def _with_cause(case: Case, cause: str) -> Case:
    if not case.findings:
        return case
    first, *rest = case.findings
    both = "; ".join(part for part in (cause, first.cause) if part)
    return replace(case, findings=(replace(first, cause=both), *rest))
