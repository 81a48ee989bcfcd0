"""Judge: a recording and its references become a case of the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from evseq.cache.fields import FIELDS, Kind
from evseq.geometry import Promise
from evseq.replay.recording import Asked, Fed, Recording
from evseq.verdict.allowance import allowance
from evseq.verdict.allowed import tolerated
from evseq.verdict.cause import modelled, preceded, sided
from evseq.verdict.checks import CHECKS
from evseq.verdict.compare import deviation, share
from evseq.verdict.evidence import Evidence
from evseq.verdict.first_law import rerouted
from evseq.verdict.golden import golden_share
from evseq.verdict.label import Label
from evseq.verdict.lossy import envelope_share, solo_margin
from evseq.verdict.pooling import policies
from evseq.verdict.result import Case, Check, Finding, Latency, Margin, Note, Outcome
from evseq.verdict.rounding import rounding
from evseq.verdict.second_law import shown_damage
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
    findings, allowed = tolerated(evidence, findings)
    findings[:1] = [modelled(evidence, sided(preceded(evidence, finding), findings)) for finding in findings[:1]]
    promise = evidence.kind.promise
    return Case(
        id=label.id,
        script=script.name,
        file=script.source.file,
        target=label.target,
        arms=recording.plan.arms,
        outcome=Outcome.FAILED if findings else Outcome.PASSED if recording.fed else Outcome.UNSUPPORTED,
        reason=None if findings or recording.fed else "raised, as allowed, before anything was observed",
        promise=promise.value,
        golden=evidence.golden.revision if isinstance(evidence.golden, Accepted) and promise is Promise.EXACT else None,
        golden_share=golden_share(evidence),
        dtype=recording.dtype.value,
        observations=sum(len(fed.nodes) for fed in recording.fed),
        findings=tuple(findings),
        allowed=allowed,
        notes=tuple(_notes(evidence, findings)),
        margin=solo_margin(evidence) if promise is Promise.LOSSY else _margin(evidence),
        envelope=envelope_share(evidence),
        errors=None if promise is Promise.LOSSY else rounding(recording, evidence.references).ratio,
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
        turn = recording.plan.turns[event]
        number = " of event ".join(str(part + 1) for part in reversed(turn.path) if isinstance(part, int))
        where = f"event {number}, round {turn.round}" if turn.round else f"event {number}"
        notes.append(Note(kind="loud", message=f"{turn.event.word} of {where}: {how}"))
    if told := rerouted(evidence):
        notes.append(Note(kind="not judged", message=told))
    if recording.skipped:
        notes.append(Note(kind="not judged", message=f"{recording.skipped} later steps on sessions that were gone"))
    if not recording.repeats:
        notes.append(
            Note(kind="not judged", message="continuity: the engine was not seen to repeat itself bit for bit")
        )
    if recording.fed and not recording.shown:
        notes.append(Note(kind="not judged", message="isolation: the engine does not show its keys and values"))
    lossy = evidence.kind.promise is Promise.LOSSY
    if lossy and evidence.kind.envelope is None:
        notes.append(Note(kind="not judged", message=f"envelope: cache {evidence.kind.name!r} declares none"))
    if lossy and any(asked.differences for asked in recording.asked):
        told = "the damage of a refused change: a lossy cache is off from truth with or without it"
        notes.append(Note(kind="not judged", message=told))
    for asked in recording.asked:
        notes += [note for note in _refusal_notes(evidence, asked) if note not in notes]
    notes += [note for note in policies(evidence) if note not in notes]
    return notes


def _refusal_notes(evidence: Evidence, asked: Asked) -> Iterator[Note]:
    """Say of a refusal why no number shows that it was right, where none does."""
    load = evidence.load(asked.step)
    refused = load.refused
    if refused is None:
        return
    if FIELDS[refused].kind is Kind.POLICY and asked.differences:
        yield Note(kind="policy", message=f"{refused}: refused by {asked.by}; {FIELDS[refused].reason}")
    for forced in evidence.recording.forced:
        if forced.step == asked.step and forced.raised is not None:
            told = forced.raised.partition("\n")[0]
            yield Note(kind="out of reach", message=f"{refused}: the engine takes no such cache, {told}")
        elif forced.step == asked.step and load.damage is not None and not load.damage.touched:
            told = "no row attends to what was changed, or all moved as a whole, which a code of distances cannot show"
            yield Note(kind="out of reach", message=f"{refused}: {told}")
    for row, shown in (shown_damage(evidence, asked.step) or {}).items():
        if not shown.reached:
            yield Note(kind="out of reach", message=f"row {row!r}: truth is the same after the change")
        elif not shown.wrong and evidence.recording.dtype is not evidence.references.deciding.dtype:
            told = f"row {row!r}: the damage of a refused change does not show in {evidence.recording.dtype}"
            yield Note(kind="not judged", message=told)


def _margin(evidence: Evidence) -> Margin | None:
    references, dtype = evidence.references, evidence.recording.dtype
    allowed = allowance(dtype, references)
    worst: Margin | None = None
    for fed in evidence.recording.fed:
        if not fed.nodes:  # a chunk of nothing but masked slots
            continue
        places = references.places(fed.nodes)
        off, limits = deviation(fed.logits, references.truth[places]).largest, allowed[places]
        place = int(share(off, limits).argmax())
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
