"""Same history, same logits as the accepted release: the check against goldens."""

from __future__ import annotations

from collections.abc import Iterator

from evseq.geometry import Dtype
from evseq.replay.recording import Fed
from evseq.verdict.allowance import allowance
from evseq.verdict.evidence import Evidence
from evseq.verdict.result import Check, Finding
from evseq.verdict.standard import Accepted, Missing, Worst, worst

__all__ = ["from_golden", "golden"]


def golden(evidence: Evidence) -> Iterator[Finding]:
    """Find observations further from the accepted logits of their history than allowed, in any arm and dtype."""
    match evidence.golden:
        case Accepted() as accepted:
            yield from _against(accepted, evidence)
        case Missing(required=True, message=message):
            yield evidence.finding(Check.GOLDEN, 0, message)
        case _:  # not recorded, which is a note, or nobody asked
            pass


def from_golden(evidence: Evidence) -> float | None:
    """Return the largest share of an allowance by which any observation is off its golden; None without one."""
    if not isinstance(evidence.golden, Accepted):
        return None
    return max((float(off.share.max()) for _, _, off in _held(evidence.golden, evidence)), default=None)


def _against(accepted: Accepted, evidence: Evidence) -> Iterator[Finding]:
    for fed in evidence.recording.fed:
        if any(node not in accepted.rows for node in fed.nodes):
            yield _unknown(fed, accepted, evidence)
    dtype = evidence.recording.dtype
    for fed, known, off in _held(accepted, evidence):
        usable = fed.logits[known].isfinite().all(-1)  # the others are told by `finite`
        for found in (~(off.share <= 1) & usable).nonzero().flatten().tolist():
            actual, expected = float(off.actual[found]), float(off.expected[found])
            yield evidence.finding(
                Check.GOLDEN,
                fed.step,
                f"{off.name[found]} is {actual:.6g}, accepted {expected:.6g} at revision {accepted.revision}: "
                f"off by {abs(actual - expected):.3g}, allowed {float(off.allowed[found]):.3g} in {dtype}",
                row=fed.rows[known[found]],
                index=fed.indices[known[found]],
                actual=actual,
                expected=expected,
            )


def _held(accepted: Accepted, evidence: Evidence) -> Iterator[tuple[Fed, list[int], Worst]]:
    """Hold each forward to the golden: which of its observations are known there, and the worst of each."""
    references = evidence.references
    allowed = allowance(evidence.recording.dtype, references)
    for fed in evidence.recording.fed:
        known = [place for place, node in enumerate(fed.nodes) if node in accepted.rows]
        if not known:
            continue
        rows = [accepted.rows[fed.nodes[place]] for place in known]
        limits = allowed[references.places(tuple(fed.nodes[place] for place in known))]
        # A golden is stored in float32: its own rounding is allowed on top of what the dtype is.
        limits = limits + Dtype.FLOAT32.epsilon * accepted.logits.scale[rows]
        yield fed, known, worst(accepted.logits.quantities(rows, fed.logits[known].double(), limits))


def _unknown(fed: Fed, accepted: Accepted, evidence: Evidence) -> Finding:
    place = next(place for place, node in enumerate(fed.nodes) if node not in accepted.rows)
    return evidence.finding(
        Check.GOLDEN,
        fed.step,
        f"the golden of revision {accepted.revision} has no such history: the script, or what its rows hold, was "
        "changed since; --update-goldens writes a candidate",
        row=fed.rows[place],
        index=fed.indices[place],
    )
