"""Nothing is reused at or beyond the first difference, and what is admitted is really reused."""

from __future__ import annotations

from collections.abc import Iterator

from evseq.cache.fields import FIELDS
from evseq.replay.recording import Asked
from evseq.script.events import Reused
from evseq.script.steps import Load
from evseq.verdict.allowance import allowance
from evseq.verdict.compare import deviation
from evseq.verdict.evidence import Evidence
from evseq.verdict.result import Check, Finding

__all__ = ["refusal", "reuse", "undamaged"]


def refusal(evidence: Evidence) -> Iterator[Finding]:
    """Find changes that were not refused by name, place and before any forward, and refusals without a change."""
    for asked in evidence.recording.asked:
        load = evidence.load(asked.step)
        if load.refused is not None:
            yield from _refused(evidence, asked, load)
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
        others = asked.differences[1:]
        told += [(f"refused for {other} too, which was not changed", other, "nothing") for other in others]
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
    in_row = isinstance(first.row, str)
    token = in_row and FIELDS[first.field].unit == "index"  # others count slots, characters or layers
    return evidence.finding(
        Check.REFUSAL,
        asked.step,
        f"refused for {first}, though nothing was changed",
        row=str(first.row) if in_row else rows[0].name,
        index=first.index if token and first.index is not None else 0,
        actual="refused",
        expected="admitted",
    )


def undamaged(evidence: Evidence, step: int) -> dict[str, str]:
    """Return touched rows in which the forced stale cache is not wrong by more than allowed, with what it is off by.

    Rows that truth itself does not tell apart are left out: the change is out of reach of the probe token.
    """
    references, load = evidence.references, evidence.load(step)
    forced = next((forced for forced in evidence.recording.forced if forced.step == step), None)
    if forced is None or load.damage is None:
        return {}
    right = load.damage.right[-1]
    places = references.places(tuple(nodes[-1] for nodes in right.nodes))
    truths, stale = references.truth[places], references.truth[references.places(load.damage.stale)]
    limits = allowance(evidence.recording.dtype, references)[places]
    shown, reach = deviation(forced.logits, truths).largest, deviation(stale, truths).largest
    return {
        right.rows[row]: f"off by only {float(shown[row]):.3g}, allowed {float(limits[row]):.3g}"
        for row in load.damage.touched
        if float(reach[row]) > 0 and float(shown[row]) <= float(limits[row])
    }


def _damage(evidence: Evidence, step: int, load: Load) -> Iterator[Finding]:
    """Find forced stale caches that show no damage, or that do not answer as what was saved would."""
    if load.damage is None:
        return
    right = load.damage.right[-1]
    if evidence.recording.dtype is evidence.references.deciding.dtype:
        for row, how in undamaged(evidence, step).items():
            yield evidence.finding(
                Check.REFUSAL,
                step,
                f"the stale cache, forced, is {how}: this change shows no damage, the script has no power",
                row=row,
                index=right.indices[right.rows.index(row)][-1],
            )
    for forced in evidence.recording.forced:
        if forced.step != step:
            continue
        places = evidence.references.places(load.damage.stale)
        off = deviation(forced.logits, evidence.references.truth[places])
        limits = allowance(evidence.recording.dtype, evidence.references)[places]
        for row in (off.largest > limits).nonzero().flatten().tolist():
            yield evidence.finding(
                Check.PARITY,
                step,
                f"the stale cache, forced, is off by {float(off.largest[row]):.3g} from what was saved, "
                f"allowed {float(limits[row]):.3g}",
                row=right.rows[row],
                index=right.indices[row][-1],
            )


def reuse(evidence: Evidence) -> Iterator[Finding]:
    """Find admitted caches that were not used: prefix tokens forwarded again at the reload or the next step on it."""
    for asked in evidence.recording.asked:
        load = evidence.load(asked.step)
        if load.refused is not None or asked.differences:
            continue
        again = asked.forwarded + _surplus(evidence, asked)
        used = max(0, load.request.tokens - again)
        message, actual, wanted = f"{again} token columns of the prefix were forwarded again", again, "0"
        failed = bool(again)
        if load.reused is not None and load.reused_limit is not None:
            wanted = next(f"{word} {load.reused_limit}" for word, n in load.reused if n is not None)
            message, actual = f"{used} of {load.request.tokens} tokens came from the cache", used
            failed = not _holds(load.reused, load.reused_limit, used)
        if failed:
            yield evidence.finding(
                Check.REUSE,
                asked.step,
                f"{message}, expected {wanted}",
                row=load.request.rows[0].name,
                index=0,
                actual=actual,
                expected=wanted,
            )


def _surplus(evidence: Evidence, asked: Asked) -> int:
    """Return the token columns that the next step on a reloaded session forwarded beyond its own."""
    later = (fed for fed in evidence.recording.fed if fed.session == asked.session and fed.step > asked.step)
    following = next(later, None)
    if following is None or following.prefill:  # never fed, or dropped and another opened under its name
        return 0
    return max(0, following.forwarded - following.columns)


def _holds(reused: Reused, limit: int, used: int) -> bool:
    if reused.most is not None:
        return used <= limit
    if reused.least is not None:
        return used >= limit
    return used == limit
