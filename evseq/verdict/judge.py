"""Judge: a recording and its references become a case of the result."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import torch

from evseq.replay.recording import Fed, Recording
from evseq.verdict.allowance import allowance
from evseq.verdict.cause import preceded, sided
from evseq.verdict.checks import CHECKS
from evseq.verdict.compare import deviation
from evseq.verdict.evidence import Evidence
from evseq.verdict.golden import golden_share
from evseq.verdict.label import Label
from evseq.verdict.result import Case, Check, Finding, Latency, Margin, Note, Outcome
from evseq.verdict.rounding import rounding
from evseq.verdict.second_law import undamaged
from evseq.verdict.standard import Accepted, Missing

__all__ = ["judge"]


def judge(evidence: Evidence, label: Label) -> Case:
    """Apply every check; the first divergence in the order of events leads."""
    recording, script = evidence.recording, evidence.script
    order = list(Check)
    findings = sorted(
        (finding for check in CHECKS.values() for finding in check(evidence)),
        key=lambda finding: (finding.step, order.index(finding.check)),
    )
    findings[:1] = [sided(preceded(evidence, finding), findings) for finding in findings[:1]]
    kind = evidence.description.cache(recording.plan.cache)
    assert kind is not None
    return Case(
        id=label.id,
        script=script.name,
        file=script.source.file,
        target=label.target,
        arms=recording.plan.arms,
        outcome=Outcome.FAILED if findings else Outcome.PASSED if recording.fed else Outcome.UNSUPPORTED,
        reason=None if findings or recording.fed else "raised, as allowed, before anything was observed",
        promise=kind.promise.value,
        golden=evidence.golden.revision if isinstance(evidence.golden, Accepted) else None,
        golden_share=golden_share(evidence),
        dtype=recording.dtype.value,
        observations=sum(len(fed.nodes) for fed in recording.fed),
        findings=tuple(findings),
        notes=tuple(_notes(evidence, findings)),
        margin=_margin(evidence),
        errors=rounding(recording, evidence.references).ratio,
        latency=_latency(recording),
        peak_cache_bytes=recording.peak_cache_bytes,
        replay_forwards=len(recording.fed) + len(recording.forced),
        seconds=recording.seconds,
        replay=label.replay,
    )


def _notes(evidence: Evidence, findings: Sequence[Finding]) -> list[Note]:
    recording = evidence.recording
    notes = []
    if isinstance(evidence.golden, Missing) and not evidence.golden.required:
        notes.append(Note(kind="not recorded", message=evidence.golden.message))
    raised = {evidence.step(failure.step).event for failure in recording.failures}
    wrong = {evidence.step(finding.step).event for finding in findings}
    for event in sorted(recording.plan.loud - wrong):
        how = "raised, as allowed" if event in raised else "right"
        notes.append(Note(kind="loud", message=f"{evidence.script.events[event].word} of event {event + 1}: {how}"))
    if recording.skipped:
        notes.append(Note(kind="not judged", message=f"{recording.skipped} later steps on sessions that were gone"))
    if not recording.repeats:
        notes.append(
            Note(kind="not judged", message="continuity: the engine was not seen to repeat itself bit for bit")
        )
    if recording.fed and not recording.shown:
        notes.append(Note(kind="not judged", message="isolation: the engine does not show its keys and values"))
    for asked in recording.asked:
        for name in undamaged(evidence, asked.step):
            if recording.dtype is not evidence.references.deciding.dtype:
                told = f"row {name!r}: the damage of a refused change does not show in {recording.dtype}"
                notes.append(Note(kind="not judged", message=told))
    for forced in recording.forced:
        load = evidence.load(forced.step)
        assert load.damage is not None
        right = tuple(nodes[-1] for nodes in load.damage.right[-1].nodes)
        places, stale = evidence.references.places(right), evidence.references.places(load.damage.stale)
        for row in load.damage.touched:
            if torch.equal(evidence.references.truth[places[row]], evidence.references.truth[stale[row]]):
                name = load.request.rows[row].name
                notes.append(Note(kind="out of reach", message=f"row {name!r}: truth is the same after the change"))
    return notes


def _margin(evidence: Evidence) -> Margin | None:
    references, dtype = evidence.references, evidence.recording.dtype
    allowed = allowance(dtype, references)
    worst: Margin | None = None
    for fed in evidence.recording.fed:
        if not fed.nodes:  # a chunk of nothing but masked slots
            continue
        places = references.places(fed.nodes)
        off, limits = deviation(fed.logits, references.truth[places]).largest, allowed[places]
        place = int((off / limits.clamp_min(1e-300)).argmax())
        margin = Margin(
            deviation=float(off[place]),
            err=float(references.err[dtype][places[place]]),
            allowed=float(limits[place]),
        )
        if worst is None or margin.fraction > worst.fraction:
            worst = margin
    return worst


def _latency(recording: Recording) -> Latency:
    """Sum the chunks of each prefill up to its first append; take medians over sessions and later forwards."""
    prefills: dict[tuple[str, int], float] = {}
    for fed in recording.fed:
        if fed.prefill:
            key = (fed.session, fed.event)
            prefills[key] = prefills.get(key, 0.0) + fed.seconds
    later = [fed.seconds for fed in recording.fed if _is_later(fed)]
    return Latency(
        first=median(prefills.values()) if prefills else None,
        later=median(later) if later else None,
    )


def _is_later(fed: Fed) -> bool:
    return not fed.prefill and fed.width == 1
