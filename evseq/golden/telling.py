"""Telling: what lies in a folder of goldens, candidates and comparisons, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from evseq.errors import printable
from evseq.golden.candidate import Candidate, Change
from evseq.golden.compact import BLIND, Compact
from evseq.golden.comparison import Comparison
from evseq.golden.drift import Drift, Flip, Moved
from evseq.golden.refusals import NAMED, some
from evseq.golden.review import EventReview, Review, Token
from evseq.golden.root import DIGITS
from evseq.golden.status import Status
from evseq.verdict.result import Check, Outcome

__all__ = ["brief", "compared", "table", "whole"]


def brief(review: Review) -> str:
    """Tell a candidate in one line, and each event that moved and each check that found something in one more."""
    few = f"; {review.candidate.judged}" if review.candidate.judged else ""
    head = f"{review.place}: {review.candidate.change}: {_overall(review)}{few}"
    moved = [f"{_event(one)}{_worst(one)}" for one in review.events if one.moved]
    return printable("\n".join([head, *(f"  {line}" for line in (*moved, *_found(review.candidate)))]))


def whole(review: Review) -> str:
    """Tell everything that is known of a candidate."""
    candidate = review.candidate
    lines = [*_provenance(candidate), *_against(review), _overall(review)]
    lines += [BLIND] if isinstance(review.golden.logits, Compact) else []
    told = [f"{review.place}: {candidate.change}", *(f"  {line}" for line in lines)]
    for event in review.events:
        told += ["", f"  {_event(event, compared=review.drift is not None)}"]
        told += [f"    {line}" for line in (*_moves(event), *_arms(event))]
    return printable("\n".join([*told, "", *(f"  {line}" for line in _checks(candidate))]))


def compared(comparison: Comparison) -> list[str]:
    """Tell how far two revisions are apart, script by script, then the worst of all."""
    drifts = comparison.drifts
    lines = [f"{comparison.model}: {comparison.revision} against {comparison.parent}"]
    lines += [f"  {script}: {_drift(drift)}" for script, drift in drifts.items()]
    for label, scripts in ((comparison.revision, comparison.added), (comparison.parent, comparison.removed)):
        lines += [f"  only at {label}: {', '.join(scripts)}"] if scripts else []
    if not drifts:
        return [*lines, "  no script has a golden at both"]
    largest = [(script, drift.largest) for script, drift in drifts.items() if drift.largest is not None]
    for script, moved in sorted(largest, key=lambda found: found[1].share)[-1:]:
        lines.append(f"  worst of all: {script}: {_allowances(moved.share)}: {_element(moved)}")
    script, drift = max(drifts.items(), key=lambda found: found[1].kl)
    lines.append(f"  largest KL: {script}: {_kl(drift)}")
    flips = [(flip.margin, script) for script, drift in drifts.items() for flip in drift.flips]
    most = "" if not flips else ", at most by a margin of {:.3g}, in {}".format(*max(flips))
    return [*lines, f"  next tokens changed: {len(flips):,}{most}"]


def table(status: Status) -> list[str]:
    """Tell what lies in a folder of goldens, a line for each revision of a model."""
    accepted = Counter((place.model, place.revision) for place in status.accepted)
    waiting = Counter((place.model, place.revision, change) for place, change in status.candidates)
    others = {
        (place.model, place.revision) for place in (*status.unvouched, *status.missing, *status.unused, *status.halves)
    }
    rows = [("model", "revision", "accepted", *(change.value for change in Change), "witnesses")]
    for model, revision in sorted({*accepted, *(key[:2] for key in waiting), *others}):
        counts = [accepted[model, revision], *(waiting[model, revision, change] for change in Change)]
        counts.append(len(list(status.root.witness(model, revision).glob("*.json"))))
        rows.append((model, revision, *map(str, counts)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_cells(row, widths)).rstrip() for row in rows] if len(rows) > 1 else []


def _provenance(candidate: Candidate) -> list[str]:
    commit = "in no repository" if candidate.commit is None else f"at commit {candidate.commit[:DIGITS]}"
    lines = [f"made {candidate.made:%Y-%m-%d %H:%M} UTC by {candidate.target}, {commit}"]
    lines += [f"uncommitted then: {some(candidate.unclean)}"] if candidate.unclean else []
    libraries = ", ".join(f"{name} {version}" for name, version in candidate.libraries.items())
    lines += [f"with {libraries}; on {candidate.processor}", f"weights {candidate.weights[:DIGITS]}"]
    lines += [candidate.judged] if candidate.judged else []
    lines += [] if candidate.finite else ["not finite: some logits are no numbers"]
    lines += [] if candidate.repeats else ["not repeated: the same truth computed twice had other bits"]
    return lines


def _against(review: Review) -> list[str]:
    if review.against is None:
        return ["nothing accepted to compare it with"]
    if review.drift is None:
        return [f"not compared: the golden of {review.against} is not the one that was accepted"]
    if review.against == review.place:
        return ["compared with the accepted golden of its name"]
    return [f"compared with revision {review.against.revision}"]


def _overall(review: Review) -> str:
    if review.drift is None:
        return _histories(len(review.golden.histories.observed))
    told = _drift(review.drift)
    return f"{told}; only the file's form changes" if review.candidate.change is Change.FORMAT else told


def _drift(drift: Drift) -> str:
    if not drift.matched:
        return f"no history in common; {drift.added:,} added; {drift.removed:,} removed"
    parts = [f"{len(drift.moved):,} of {drift.matched:,} histories moved, at most {_allowances(drift.share)}"]
    parts += [f"{drift.added:,} added"] if drift.added else []
    parts += [f"{drift.removed:,} removed"] if drift.removed else []
    parts.append(f"KL {_kl(drift)}")
    if drift.flips:
        margins = sorted((flip.margin for flip in drift.flips), reverse=True)
        shown = some([f"{margin:.3g}" for margin in margins])
        parts.append(f"next tokens changed: {len(margins):,}, by margins of {shown}")
    return "; ".join(parts)


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Pad the names on the right, the counts on the left."""
    names = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
    return names + [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]


def _event(event: EventReview, *, compared: bool = True) -> str:
    head = f"{event.place}: {event.event}: "
    if not compared:
        return f"{head}{_histories(event.histories)}"
    moved = f"{event.moved:,} of {event.histories:,} histories moved"
    return f"{head}{moved}" if event.worst is None else f"{head}{moved}, at most {_allowances(event.worst[1].share)}"


def _worst(event: EventReview) -> str:
    """Return the tail of a line: the worst element of an event, if any moved."""
    if event.worst is None:
        return ""
    token, moved = event.worst
    return f": {token}: {_element(moved)}"


def _moves(event: EventReview) -> list[str]:
    lines = [f"worst{_worst(event)}"] if event.worst else []
    lines += [f"next token: {_flip(token, flip)}" for token, flip in event.flips[:NAMED]]
    left = len(event.flips) - NAMED
    return [*lines, f"next token: another in {_histories(left)} more"] if left > 0 else lines


def _element(moved: Moved) -> str:
    told = f"{moved.name} is {moved.actual:.6g}, accepted {moved.expected:.6g}"
    return f"{told}: off by {abs(moved.actual - moved.expected):.3g}, allowed {moved.allowed:.3g}"


def _flip(token: Token, flip: Flip) -> str:
    return f"{token}: {flip.after}, accepted {flip.before} by a margin of {flip.margin:.3g}"


def _arms(event: EventReview) -> list[str]:
    """Say which cases agree with the truth that a candidate is, at one event."""
    ran = len(event.agree) + len(event.differ)
    if not ran:
        return ["arms: none ran"]
    if not event.differ:
        return [f"arms: all {ran} cases agree"]
    agree = f": {some(event.agree)}" if event.agree else ""
    return [
        f"arms: {len(event.agree)} of {ran} cases agree{agree}",
        f"arms: {len(event.differ)} do not: {some(event.differ)}",
    ]


def _checks(candidate: Candidate) -> list[str]:
    """Say what each check found first, and in how many cases."""
    first: dict[Check, str] = {}
    for case in candidate.cases:
        for told in case.told:
            message = told.message.replace("\n", "\n    ")
            first.setdefault(told.check, f"first {case.id}: {message}")
    if not first:
        return [f"checks: none found anything in {_ran(candidate)} cases"]
    return [f"{found}, {says}" for found, says in zip(_found(candidate), first.values(), strict=True)]


def _found(candidate: Candidate) -> list[str]:
    """Say of each check that found something in how many cases."""
    counts = Counter(check for case in candidate.cases for check in dict.fromkeys(told.check for told in case.told))
    return [f"check {check} found something in {count} of {_ran(candidate)} cases" for check, count in counts.items()]


def _ran(candidate: Candidate) -> int:
    return sum(case.outcome is not Outcome.UNSUPPORTED for case in candidate.cases)


def _histories(number: int) -> str:
    return f"{number:,} {'history' if number == 1 else 'histories'}"


def _allowances(share: float) -> str:
    return f"{share:.3g} allowances"


def _kl(drift: Drift) -> str:
    """Write the divergence; of what compact goldens keep it is a lower bound."""
    return f"{drift.kl:.2g}" if drift.exact else f"at least {drift.kl:.2g}"
