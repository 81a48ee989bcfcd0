"""Nothing is reused at or beyond the first difference, and what is admitted is really reused."""

from __future__ import annotations

from collections.abc import Iterator

from evseq.replay.recording import Asked
from evseq.script.steps import Load
from evseq.verdict.allowance import allowance
from evseq.verdict.compare import deviation
from evseq.verdict.evidence import Evidence
from evseq.verdict.result import Check, Finding

__all__ = ["refusal", "reuse"]


def refusal(evidence: Evidence) -> Iterator[Finding]:
    """Find changes that were not refused by name, place and before any forward, and refusals without a change."""
    for asked in evidence.recording.asked:
        load = evidence.load(asked.step)
        if load.refused is not None:
            yield from _refused(evidence, asked, load)
            if evidence.recording.dtype is evidence.references.deciding.dtype:
                yield from _damage(evidence, asked.step, load)
        elif asked.differences:
            yield _admission(evidence, asked)


def _refused(evidence: Evidence, asked: Asked, load: Load) -> Iterator[Finding]:
    assert load.place is not None
    name, index = load.place
    wanted = f"{load.refused} row {name!r} index {index}"
    told: list[tuple[str, object, object]] = []
    if not asked.differences:
        told.append((f"reuse was admitted, expected {load.refused} to be refused", "admitted", wanted))
    else:
        first = asked.differences[0]
        if (first.field, first.row, first.index) != (load.refused, name, index):
            told.append((f"refused for {first}, expected {wanted}", first, wanted))
    if asked.forwarded:
        ran = f"{asked.forwarded} token columns were forwarded before the refusal, expected 0"
        told.append((ran, asked.forwarded, 0))
    for message, actual, expected in told:
        yield evidence.finding(
            Check.REFUSAL, asked.step, message, row=name, index=index, actual=actual, expected=expected
        )


def _admission(evidence: Evidence, asked: Asked) -> Finding:
    first = asked.differences[0]
    rows = evidence.load(asked.step).request.rows
    return evidence.finding(
        Check.REFUSAL,
        asked.step,
        f"refused for {first}, though nothing was changed",
        row=rows[0].name if first.row is None else str(first.row),
        index=first.index or 0,
        actual="refused",
        expected="admitted",
    )


def _damage(evidence: Evidence, step: int, load: Load) -> Iterator[Finding]:
    """Find touched rows in which the stale cache, forced past the refusal, is not wrong by more than the allowance.

    Silent where truth itself does not tell the two requests apart: the change is out of reach of the probe token.
    """
    references = evidence.references
    forced = next((forced for forced in evidence.recording.forced if forced.step == step), None)
    if forced is None or load.damage is None:
        return
    right = load.damage.right[-1]
    truths = references.truth[references.places(tuple(nodes[-1] for nodes in right.nodes))]
    stale = references.truth[references.places(load.damage.stale)]
    limits = allowance(evidence.recording.dtype, references)[
        references.places(tuple(nodes[-1] for nodes in right.nodes))
    ]
    shown, reach = deviation(forced.logits, truths).largest, deviation(stale, truths).largest
    for row in load.damage.touched:
        if float(reach[row]) > 0 and float(shown[row]) <= float(limits[row]):
            yield evidence.finding(
                Check.REFUSAL,
                step,
                f"the stale cache, forced, is off by only {float(shown[row]):.3g}, allowed "
                f"{float(limits[row]):.3g}: this change shows no damage, the script has no power",
                row=right.rows[row],
                index=right.indices[row][-1],
            )


def reuse(evidence: Evidence) -> Iterator[Finding]:
    """Find admitted caches that were not used: prefix tokens forwarded again at the reload or the next step on it."""
    recording = evidence.recording
    for asked in recording.asked:
        load = evidence.load(asked.step)
        if load.refused is not None or asked.differences:
            continue
        following = next((fed for fed in recording.fed if fed.session == asked.session and fed.step > asked.step), None)
        surplus = max(0, following.forwarded - following.columns) if following else 0
        again = asked.forwarded + surplus
        used = load.request.tokens - again
        first = load.request.rows[0].name
        if load.reused is None and again:
            yield evidence.finding(
                Check.REUSE,
                asked.step,
                f"{again} token columns of the prefix were forwarded again, expected 0",
                row=first,
                index=0,
                actual=again,
                expected=0,
            )
        if load.reused is not None and load.reused_limit is not None and not _holds(load, used):
            wanted = next(f"{word} {load.reused_limit}" for word, n in load.reused if n is not None)
            yield evidence.finding(
                Check.REUSE,
                asked.step,
                f"{used} of {load.request.tokens} tokens came from the cache, expected {wanted}",
                row=first,
                index=max(0, used),
                actual=used,
                expected=wanted,
            )


def _holds(load: Load, used: int) -> bool:
    assert load.reused is not None
    assert load.reused_limit is not None
    if load.reused.most is not None:
        return used <= load.reused_limit
    if load.reused.least is not None:
        return used >= load.reused_limit
    return used == load.reused_limit
