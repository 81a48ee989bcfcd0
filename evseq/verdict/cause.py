"""Cause: what the first divergence has in common with other cases, and what came right before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evseq.script.steps import Crop, Draw, Fork, Join, Load, Reset, Retire, Select
from evseq.verdict.evidence import Evidence
from evseq.verdict.result import Case, Check, Finding, Outcome

__all__ = ["explained", "modelled", "preceded", "sided"]


LENGTH = (
    "this model's logits depend on the length of what runs, as dynamic and long rotary scaling make them: cached keys "
    "stay turned by the length they were made at"
)


ROUTER = "if the deciding arm passes, a near tie of a router: rounding chose another expert in the cached step alone"


def modelled(evidence: Evidence, finding: Finding) -> Finding:
    """Say what of the model itself parts a cached step from the uncached forward, where something does.

    A length-dependent one gives a history other logits by what is fed in one forward, so that no cache can be right. A
    router with a near tie goes by rounding below the deciding dtype.
    """
    references = evidence.references
    if finding.check is not Check.PARITY:
        return finding
    if references.dependent:
        return _because(finding, LENGTH)
    below = evidence.recording.dtype is not references.deciding.dtype
    return _because(finding, ROUTER) if below and evidence.description.geometry.routed else finding


def preceded(evidence: Evidence, finding: Finding) -> Finding:
    """Name the last event before `finding` that reshaped or replaced its session's cache, if there is one."""
    steps = evidence.recording.plan.steps
    session = steps[finding.step].session
    for step in reversed(steps[: finding.step]):
        if step.session == session and isinstance(step, Select | Retire | Join | Crop | Fork | Load | Draw | Reset):
            turn = evidence.turn(step)
            line = evidence.script.place(turn.word, key=True).line
            where = f"line {line}, round {turn.round}" if turn.round else f"line {line}"
            return replace(finding, cause=f"the last change of this cache before it: {turn.event.word} in {where}")
    return finding


def sided(finding: Finding, findings: Sequence[Finding]) -> Finding:
    """Say which side moved since a golden was accepted, where `findings` tell: the cached one, the other, or both.

    Of a lossy cache, say whether the row alone is wrong too.
    """
    if finding.check is Check.SOLO and finding.row is not None:
        return _because(
            finding,
            "the row alone, fed in the same pieces, goes on otherwise: what stood beside it, or was "
            "done to its cache, moved what is held",
        )
    if finding.check is Check.ENVELOPE:
        return _because(finding, "the row alone is as far off: what is held is wrong however it is fed")
    if finding.check not in (Check.PARITY, Check.GOLDEN):
        return finding
    here = [found for found in findings if _token(found) == _token(finding)]
    missed = [found for found in here if found.check is Check.GOLDEN and found.expected is not None]
    if not missed:
        return finding
    if missed[0].actual is None:
        return _because(finding, "the uncached forward moved: the cached step still gives the accepted logits")
    if any(found.check is Check.PARITY for found in here):
        return _because(finding, "the cached step moved: it misses the accepted logits too")
    return _because(finding, "cached and uncached agree: both moved alike since the golden was accepted")


def _token(finding: Finding) -> tuple[int, str | None, int | None]:
    return finding.step, finding.row, finding.index


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
    return replace(case, findings=(_because(first, cause), *rest))


def _because(finding: Finding, cause: str) -> Finding:
    return replace(finding, cause="; ".join(part for part in (cause, finding.cause) if part))
