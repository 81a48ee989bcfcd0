"""What a run was not held to: failures that are known, and findings that a script allows."""

from __future__ import annotations

from evseq.report.figures import counted, figure
from evseq.verdict.result import Allowed, Case, Known, Outcome, Result

__all__ = ["allowed", "known"]

_TOLD = 3
"""Most entries without a case that are named without `-v`."""


def known(result: Result, *, verbose: bool) -> list[str]:
    """List the failures that are known, with why and where that is written up, and entries that mean no case."""
    by_entry: dict[Known, list[Case]] = {}
    for case in result.cases:
        if case.outcome is Outcome.KNOWN:
            for entry in case.known:
                by_entry.setdefault(entry, []).append(case)
    lines = [f"known: {counted(result.counts[Outcome.KNOWN], 'case')}"] if by_entry else []
    for entry, cases in by_entry.items():
        lines.append(f"  {entry.check}: {counted(len(cases), 'case')}, {entry.link}: {entry.reason}")
        if verbose:
            lines += [f"    {case.id}" for case in cases]
    if idle := result.unmatched:
        named = ", ".join(idle if verbose else idle[:_TOLD]) + (", ..." if len(idle) > _TOLD and not verbose else "")
        lines.append(f"{'  ' if lines else 'known: '}no case here is meant by {counted(len(idle), 'line')}: {named}")
    return lines


def allowed(result: Result) -> list[str]:
    """List every allowance that was used: how often, how far, within what, and why."""
    used: dict[tuple[str, str], list[Allowed]] = {}
    for case in result.cases:
        for one in case.allowed:
            if one.findings:
                used.setdefault((one.place, one.check), []).append(one)
    lines = []
    for (place, check), uses in used.items():
        shares = [use.share for use in uses if use.share is not None]
        most = f"at most {figure(max(shares))} of {figure(uses[0].within)} allowances" if shares else ""
        most = most or f"at most {max(use.findings for use in uses):,} of {uses[0].within:,}"
        findings = sum(use.findings for use in uses)
        told = f"{counted(findings, 'finding')} in {counted(len(uses), 'case')}, {most}"
        lines.append(f"  {place}: {check}: {told}: {uses[0].because}")
    total = sum(one.findings for case in result.cases for one in case.allowed)
    return [f"allowed: {counted(total, 'finding')}", *lines] if lines else []
