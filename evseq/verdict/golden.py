"""Same history, same logits as the accepted release: the check against goldens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jaxtyping import Float
from torch import Tensor

from evseq.geometry import Dtype, Promise
from evseq.replay.recording import Fed
from evseq.verdict.allowance import allowance
from evseq.verdict.evidence import Evidence
from evseq.verdict.result import Check, Finding
from evseq.verdict.standard import Accepted, Missing, Worst, worst

__all__ = ["golden", "golden_share"]


def golden(evidence: Evidence) -> Iterator[Finding]:
    """Find observations further from the accepted logits of their history than allowed, in any arm and dtype.

    Goldens are truths of the model itself. Of a cache kind that promises anything else, only the uncached forward of
    the model is held to them.
    """
    match evidence.golden:
        case Accepted() as accepted:
            yield from _against(accepted, evidence)
        case Missing(required=True, message=message):
            yield evidence.finding(Check.GOLDEN, 0, message)
        case _:  # not recorded, which is a note, or nobody asked
            pass


def golden_share(evidence: Evidence) -> float | None:
    """Return the largest share of an allowance by which any observation is off its golden; None without one."""
    if not isinstance(evidence.golden, Accepted) or evidence.kind.promise is not Promise.EXACT:
        return None
    return max(
        (float(off.share.max()) for _, _, off in _held(evidence.golden, evidence, evidence.recording.dtype)),
        default=None,
    )


def _against(accepted: Accepted, evidence: Evidence) -> Iterator[Finding]:
    for fed in evidence.recording.fed:
        if any(node not in accepted.rows for node in fed.nodes):
            yield _unknown(fed, accepted, evidence)
    references, dtype = evidence.plain or evidence.references, evidence.recording.dtype
    allowed = allowance(references.deciding.dtype, references)
    exact = evidence.kind.promise is Promise.EXACT
    for fed, known, off in _held(accepted, evidence, dtype):
        # Where the cached step still gives what was accepted, truth may have moved: parity alone cannot tell which.
        truth = references.truth[references.places(tuple(fed.nodes[place] for place in known))]
        uncached = _off(accepted, evidence, fed, known, allowed, truth)
        usable = fed.logits[known].isfinite().all(-1)  # the others are told by `finite`
        for found, place in enumerate(known):
            row, index, expected = fed.rows[place], fed.indices[place], float(off.expected[found])
            if exact and usable[found] and not off.share[found] <= 1:
                actual = float(off.actual[found])
                message = _missed(off, found, accepted, dtype)
                share = float(off.share[found])
                yield evidence.finding(
                    Check.GOLDEN, fed.step, message, row=row, index=index, actual=actual, expected=expected, share=share
                )
            elif not uncached.share[found] <= 1:
                message = f"the uncached forward: {_missed(uncached, found, accepted, references.deciding.dtype)}"
                share = float(uncached.share[found])
                yield evidence.finding(
                    Check.GOLDEN, fed.step, message, row=row, index=index, expected=expected, share=share
                )


def _missed(off: Worst, found: int, accepted: Accepted, dtype: Dtype) -> str:
    actual, expected = float(off.actual[found]), float(off.expected[found])
    return (
        f"{off.name[found]} is {actual:.6g}, accepted {expected:.6g} at revision {accepted.revision}: "
        f"off by {abs(actual - expected):.3g}, allowed {float(off.allowed[found]):.3g} in {dtype}"
    )


def _held(accepted: Accepted, evidence: Evidence, dtype: Dtype) -> Iterator[tuple[Fed, list[int], Worst]]:
    """Hold each forward to the golden: which of its observations are known there, and the worst of each."""
    allowed = allowance(dtype, evidence.plain or evidence.references)
    for fed in evidence.recording.fed:
        known = [place for place, node in enumerate(fed.nodes) if node in accepted.rows]
        if known:
            yield fed, known, _off(accepted, evidence, fed, known, allowed, fed.logits[known].double())


def _off(
    accepted: Accepted,
    evidence: Evidence,
    fed: Fed,
    known: Sequence[int],
    allowed: Float[Tensor, " node"],
    logits: Float[Tensor, "observation vocab"],
) -> Worst:
    """Hold what one side gives for some observations of a forward to the accepted logits."""
    nodes = tuple(fed.nodes[place] for place in known)
    rows = [accepted.rows[node] for node in nodes]
    # A golden is stored in float32: its own rounding is allowed on top of what the dtype is.
    limits = (
        allowed[(evidence.plain or evidence.references).places(nodes)] + Dtype.FLOAT32.epsilon * accepted.scale[rows]
    )
    return worst(accepted.logits.quantities(rows, logits, limits))


def _unknown(fed: Fed, accepted: Accepted, evidence: Evidence) -> Finding:
    place = next(place for place, node in enumerate(fed.nodes) if node not in accepted.rows)
    return evidence.finding(
        Check.GOLDEN,
        fed.step,
        f"the golden of revision {accepted.revision} has no such history: the script, or what its rows hold, was "
        "changed since, or it is of another script of this name; --update-goldens writes a candidate",
        row=fed.rows[place],
        index=fed.indices[place],
    )
