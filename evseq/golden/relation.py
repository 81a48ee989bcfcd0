"""Relation: what a revision says it is to its parent, and where the drift between them is more than that."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import assert_never

from evseq.geometry import Dtype
from evseq.golden.drift import Drift
from evseq.golden.terms import Limits, Relation
from evseq.verdict.allowance import KAPPA, PLAUSIBLE

__all__ = ["exceeded"]


def exceeded(relation: Relation, limits: Limits | None, drifts: Mapping[str, Drift], *, layers: int) -> str | None:
    """Return the first thing in which drifts, by script, are more than the relation allows; None if nothing is.

    Histories that only one side has are more than any relation allows: of them nothing is known. KL of compact goldens
    is a lower bound, so an approximation that stays within it may still be beyond its limit.
    """
    if untold := next(_uncompared(drifts), None):
        return untold
    match relation:
        case Relation.SAME:
            return next(_not_same(drifts), None)
        case Relation.CONVERTED:
            return next(_not_converted(drifts, layers), None)
        case Relation.APPROXIMATED:
            if limits is None:
                return "approximated: no limits on KL and next-token flips are written down"
            return next(_not_approximated(drifts, limits), None)
    assert_never(relation)


def _uncompared(drifts: Mapping[str, Drift]) -> Iterator[str]:
    if not drifts:
        yield "no script has a golden at both revisions"
    for script, drift in drifts.items():
        if not drift.matched:
            yield f"{script}: the two goldens have no history in common"
        elif drift.added or drift.removed:
            yield f"{script}: {drift.added} histories were added and {drift.removed} removed, allowed none"


def _not_same(drifts: Mapping[str, Drift]) -> Iterator[str]:
    for script, drift in drifts.items():
        for moved in drift.moved[:1]:
            yield (
                f"{script}: row {moved.row}: {moved.name} is {moved.actual:.6g}, was {moved.expected:.6g}: "
                f"off by {abs(moved.actual - moved.expected):.3g}, allowed {moved.allowed:.3g}"
            )


def _not_converted(drifts: Mapping[str, Drift], layers: int) -> Iterator[str]:
    explained = KAPPA * PLAUSIBLE * Dtype.FLOAT32.epsilon * math.sqrt(layers)  # of a row's scale
    for script, drift in drifts.items():
        for moved in drift.moved:
            if not moved.deviation <= explained * moved.scale:
                yield (
                    f"{script}: row {moved.row}: {moved.name} is {moved.actual:.6g}, was {moved.expected:.6g}: "
                    f"a logit is off by {moved.deviation:.3g}, "
                    f"rounding to float32 explains {explained * moved.scale:.3g}"
                )
        for flip in drift.flips:
            if not flip.margin <= explained * flip.scale:
                yield (
                    f"{script}: row {flip.row}: the next token is {flip.after}, was {flip.before} by {flip.margin:.3g} "
                    f"logits, rounding to float32 explains {explained * flip.scale:.3g}"
                )


def _not_approximated(drifts: Mapping[str, Drift], limits: Limits) -> Iterator[str]:
    script, worst = max(drifts.items(), key=lambda drift: drift[1].kl)
    if not worst.kl <= limits.max_kl:
        at_least = "" if worst.exact else "at least "
        yield f"{script}: row {worst.kl_row}: KL is {at_least}{worst.kl:.3g} nats, allowed {limits.max_kl:.3g}"
    flips = [
        (script, flip) for script, drift in drifts.items() for flip in drift.flips if not flip.margin <= limits.margin
    ]
    if len(flips) > limits.max_flips:
        script, flip = max(flips, key=lambda found: found[1].margin)
        yield (
            f"{script}: row {flip.row}: the next token is {flip.after}, was {flip.before} by {flip.margin:.3g} logits: "
            f"{len(flips)} changed by more than {limits.margin:.3g}, allowed {limits.max_flips}"
        )
