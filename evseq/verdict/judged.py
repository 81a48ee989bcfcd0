"""Judged: which of the number formats and kernels a target offers were looked at, and which were not."""

from __future__ import annotations

from collections.abc import Sequence

from evseq.geometry import Description
from evseq.verdict.result import Case, Judged, Outcome

__all__ = ["judged"]


def judged(target: str, description: Description, cases: Sequence[Case]) -> Judged:
    """Sort what `target` offers by whether any of `cases` ran in it. What ships in the rest is not judged."""
    ran = [case for case in cases if case.target == target and case.outcome is not Outcome.UNSUPPORTED]
    offered = {dtype.value: any(case.dtype == dtype for case in ran) for dtype in description.dtypes}
    engine = target.partition(":")[0]
    for option, values in description.options.items():
        chosen = {str(case.arms.get(f"{engine}.{option}", values[0])) for case in ran}
        offered |= {f"{option} {value}": value in chosen for value in values}
    return Judged(
        target=target,
        judged=tuple(word for word, seen in offered.items() if seen),
        not_judged=tuple(word for word, seen in offered.items() if not seen),
    )
