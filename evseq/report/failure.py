"""Failures in words: the first divergence leads, then the worst, the counts, the likely cause, the command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from evseq.errors import EvseqError, Place
from evseq.report.figures import counted
from evseq.script.source import Source, read
from evseq.verdict.result import Case, Check, Finding, Outcome

__all__ = ["alike", "case_text", "finding_text"]

_ALSO = 6
"""Most cases named beside the one that is told; the table has them all."""


def case_text(case: Case, *, also: Sequence[Case] = ()) -> str:
    """Tell why `case` failed. `also` are cases of the same script and target that diverge first at the same place."""
    first = case.findings[0]
    worst = max(case.findings, key=_off)
    checks = Counter(finding.check for finding in case.findings)
    told = ", ".join(f"{number:,} {check}" for check, number in checks.items())
    cause = next((finding.cause for finding in case.findings if finding.cause), None)
    lines = [finding_text(first)]
    if _off(worst) > _off(first):
        lines.append(f"  worst: {worst}")
    lines.append(f"  {counted(len(case.findings), 'finding')} in {counted(case.observations, 'observation')}: {told}")
    if cause:
        lines.append(f"  likely cause: {cause}")
    lines.append(f"  case: {case.id}")
    if also:
        named = ", ".join(other.id for other in also[:_ALSO]) + (", ..." if len(also) > _ALSO else "")
        lines.append(f"  the same in {counted(len(also), 'other case')}: {named}")
    lines.append(f"  replay: {case.replay}")
    return "\n".join(lines)


def finding_text(finding: Finding) -> str:
    """Tell one finding: its address and message, then the line of the script."""
    told = str(finding).replace("\n", "\n    ")  # what an engine raised may have many lines
    return "\n".join(part for part in (told, _excerpt(finding.place)) if part)


def alike(cases: Iterable[Case]) -> tuple[tuple[Case, ...], ...]:
    """Return the failed cases, those together that are of one script and target and diverge first in the same way."""
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in cases:
        if case.outcome is Outcome.FAILED:
            first = case.findings[0]
            groups.setdefault((case.target, first.place, first.event, first.check), []).append(case)
    return tuple(tuple(group) for group in groups.values())


def _off(finding: Finding) -> float:
    """Return by how many logits a finding is off; 0 where it is not about logits."""
    if (
        finding.check not in (Check.PARITY, Check.GOLDEN, Check.CONTINUITY)
        or finding.actual is None
        or finding.expected is None
    ):
        return 0.0
    return abs(float(finding.actual) - float(finding.expected))


def _excerpt(place: str) -> str:
    """Return the line of a script and the one above it, or nothing where the script is no longer what was run."""
    file, line, column = place.rsplit(":", 2) if place.count(":") > 1 else (place, "", "")
    source = _source(file) if line.isdecimal() and column.isdecimal() else None
    return source.excerpt(Place(file=file, line=int(line), column=int(column))) if source else ""


@lru_cache(maxsize=64)
def _source(file: str) -> Source | None:
    try:
        return read(file)
    except EvseqError:
        return None
