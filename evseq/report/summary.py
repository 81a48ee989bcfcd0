"""The end of a report: what was unsupported, what a reader must know, and the verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import assert_never

from evseq.geometry import Dtype
from evseq.report.figures import counted, duration, figure
from evseq.verdict.result import Case, Exit, Note, Outcome, Result, Witnessed

__all__ = ["cancelled", "last_line", "lost", "notes", "unsupported", "unwritten", "verdict"]

_TOLD = 3
"""Most different notes of one kind that are told without `-v`."""


def cancelled(result: Result, *, verbose: bool) -> list[str]:
    """List what an interrupt kept from being judged: how many cases of each script; `verbose` names the cases."""
    by_script: dict[str, list[str]] = {}
    for case in result.cancelled:
        script, target = case.partition("[")[0], case.rpartition("[")[2].removesuffix("]")
        by_script.setdefault(f"{script} on {target}", []).append(case)
    lines = []
    for script, cases in by_script.items():
        lines.append(f"  {script}: {counted(len(cases), 'case')}")
        if verbose:
            lines += [f"    {case}" for case in cases]
    return [f"cancelled: {counted(len(result.cancelled), 'case')}", *lines] if lines else []


def lost(result: Result) -> list[str]:
    """List what became of processes that ended before their work did."""
    told = counted(len(result.lost), "worker")
    return [f"lost: {told}", *(f"  {line}" for line in result.lost)] if result.lost else []


def unsupported(result: Result, *, verbose: bool) -> list[str]:
    """List the reasons why cases did not run, with their number; `verbose` names the cases."""
    by_reason: dict[str, list[str]] = {}
    for case in result.cases:
        if case.outcome is Outcome.UNSUPPORTED:
            by_reason.setdefault(case.reason or "no reason given", []).append(case.id)
    lines = []
    for reason, ids in by_reason.items():
        lines.append(f"  {reason}: {counted(len(ids), 'case')}")
        if verbose:
            lines += [f"    {name}" for name in ids]
    return [f"unsupported: {counted(sum(map(len, by_reason.values())), 'case')}", *lines] if lines else []


def notes(result: Result, *, verbose: bool) -> list[str]:
    """List the notes by kind, with their number; `verbose` tells every one and where."""
    by_kind: dict[str, list[tuple[Case, Note]]] = {}
    for case in result.cases:
        for note in case.notes:
            by_kind.setdefault(note.kind, []).append((case, note))
    lines = []
    for kind, told in by_kind.items():
        lines.append(f"{kind}: {len(told):,} in {counted(len({case.id for case, _ in told}), 'case')}")
        if verbose:
            lines += [f"  {case.id}: {note.message}" for case, note in told]
        else:
            lines += _most_common(note.message for _, note in told)
    return lines


def unwritten(result: Result) -> list[str]:
    """List what could not be written, and why."""
    told = [f"  {line}" for message in result.unwritten for line in message.splitlines()]
    return [f"not written: {counted(len(result.unwritten), 'file')}", *told] if told else []


def verdict(result: Result) -> list[str]:
    """Say what was judged on each target, how near the healthy came to their allowances, and what it cost."""
    lines = ["verdict"]
    lines += [f"  {target}: {_judged(result, target)}" for target in _targets(result)]
    lines += _margins(result)
    lines += _witnesses(result)
    forwards = result.forwards
    lines.append(
        f"  leaves {forwards.leaves:,}; forwards: oracle {forwards.oracle:,}, reference {forwards.reference:,}, "
        f"replay {result.replay_forwards:,}"
    )
    return lines


def last_line(result: Result) -> str:
    """Return the line that says whether the release may ship."""
    counts = result.counts
    judged = counts[Outcome.PASSED] + counts[Outcome.FAILED] + counts[Outcome.KNOWN]
    parts = [f"{counts[Outcome.KNOWN]:,} known"] if counts[Outcome.KNOWN] else []
    parts += [f"{counts[Outcome.UNSUPPORTED]:,} unsupported"] if counts[Outcome.UNSUPPORTED] else []
    parts.append(f"{duration(result.seconds)} on {counted(result.threads, 'thread')}")
    if result.candidates:
        parts.append(f"{counted(len(result.candidates), 'candidate')} written: `evseq golden review`")
    match result.exit:
        case Exit.PASSED:
            head = f"PASSED: {counted(counts[Outcome.PASSED], 'case')}"
        case Exit.FAILED:
            head = f"FAILED: {counts[Outcome.FAILED]:,} of {counted(judged, 'case')}"
            if result.findings:
                head += f", and {counted(len(result.findings), 'finding')} in no case"
        case Exit.INTERRUPTED:
            head = f"INTERRUPTED: {counted(judged, 'case')} judged, {counts[Outcome.FAILED]:,} failed"
            head += f", {len(result.cancelled):,} cancelled"
        case Exit.NOTHING:
            head = "NOTHING SUPPORTED: no case was judged"
            if judged:
                head = (
                    f"NOT JUDGED: no case on {', '.join(result.unjudged)}; {counted(judged, 'case')} passed elsewhere"
                )
        case Exit.USAGE:
            head = (
                f"NOT WRITTEN: {counted(len(result.unwritten), 'file')}; {counted(judged, 'case')} judged, none failed"
            )
        case Exit.INTERNAL:
            raise AssertionError("a result never stands for a run that did not happen")
        case _:
            assert_never(result.exit)
    return ", ".join([head, *parts])


def _most_common(messages: Iterable[str]) -> list[str]:
    counts = Counter(messages)
    lines = [f"  {message}" + (f" ({number:,} times)" if number > 1 else "") for message, number in counts.items()]
    more = [f"  ... and {counted(len(lines) - _TOLD, 'other')}, all told with -v"] if len(lines) > _TOLD else []
    return lines[:_TOLD] + more


def _targets(result: Result) -> list[str]:
    """Return the targets as they were run; one that has no case is named too."""
    run = {case.target: None for case in result.cases}
    return [*run, *(target for target in result.targets if target not in run and not _stands_for(target, run))]


def _stands_for(family: str, run: Iterable[str]) -> bool:
    return any(target.startswith(f"{family}:") for target in run)


def _judged(result: Result, target: str) -> str:
    cases = [case for case in result.cases if case.target == target]
    counts = Counter(case.outcome for case in cases)
    told = ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in Outcome if counts[outcome]) or "no cases"
    promises = ", ".join(sorted({case.promise for case in cases if case.outcome is not Outcome.UNSUPPORTED}))
    held = ", ".join(dict.fromkeys(case.golden for case in cases if case.golden))
    parts = [told, *([f"promise {promises}"] if promises else []), *([f"goldens of {held}"] if held else [])]
    for offered in result.judged:
        if offered.target == target:
            parts += [f"{', '.join(offered.judged)} judged"] if offered.judged else []
            parts += [f"{', '.join(offered.not_judged)} not judged"] if offered.not_judged else []
    return "; ".join(parts)


def _margins(result: Result) -> list[str]:
    lines = []
    for dtype in Dtype:
        margins = [(case.margin, case) for case in result.cases if case.margin is not None and case.dtype == dtype]
        if margins:
            most, case = max(margins, key=lambda pair: _size(pair[0].fraction))
            lines += [
                f"  {dtype}: at most {figure(most.fraction)} of an allowance used, in {case.id}",
                f"    deviation {figure(most.deviation)}, err {figure(most.err)}, allowed {figure(most.allowed)}",
            ]
        lines += [*_ratio(result, dtype), *_golden_shares(result, dtype), *_envelopes(result, dtype)]
    return lines


def _ratio(result: Result, dtype: Dtype) -> list[str]:
    """Say by how much the cached side rounds more than the uncached one; nothing where that is truth itself."""
    ratios = [(case.errors.ratio, case) for case in result.cases if case.errors is not None and case.dtype == dtype]
    known = [(_size(ratio), case.id) for ratio, case in ratios if ratio is not None]
    if not known:
        return []
    most, name = max(known, key=lambda pair: pair[0])
    return [f"  {dtype}: error cached/uncached at most {figure(most)}, in {name}"]


def _envelopes(result: Result, dtype: Dtype) -> list[str]:
    """Say how much of what lossy caches declare was used: their margin is the distance from each row alone."""
    shares = [(case.envelope, case.id) for case in result.cases if case.dtype == dtype]
    known = [(_size(share), name) for share, name in shares if share is not None]
    if not known:
        return []
    most, name = max(known, key=lambda pair: pair[0])
    return [f"  {dtype}: at most {figure(most)} of a declared envelope used, in {name}"]


def _golden_shares(result: Result, dtype: Dtype) -> list[str]:
    shares = [(case.golden_share, case.id) for case in result.cases if case.dtype == dtype]
    known = [(_size(share), name) for share, name in shares if share is not None]
    if not known:
        return []
    most, name = max(known, key=lambda pair: pair[0])
    return [f"  {dtype}: at most {figure(most)} of an allowance from a golden, in {name}"]


def _witnesses(result: Result) -> list[str]:
    """Say how far errors drifted from each witness, and for which targets there was none; nothing without goldens."""
    told: dict[str, list[tuple[Witnessed, Case]]] = {}
    for case in result.cases:
        if case.witnessed is not None:
            told.setdefault(PurePath(case.witnessed.file).stem, []).append((case.witnessed, case))
    lines = []
    for name, cases in told.items():
        drifts = [(_size(said.drift), case.id) for said, case in cases if said.drift is not None]
        if drifts:
            most, where = max(drifts, key=lambda pair: pair[0])
            lines.append(f"  witness: {name}: at most {figure(most)} of an allowance from then, in {where}")
        written = sum(said.written for said, _ in cases)
        lines += [f"  witness: {name}: written of {counted(written, 'case')}"] if written else []
        unknown = [case.target for said, case in cases if said.drift is None and not said.written]
        if unknown:
            without = f"{counted(len(unknown), 'case')} on {', '.join(dict.fromkeys(unknown))}"
            lines.append(f"  witness: {name}: none for {without}")
    return lines


def _size(fraction: float) -> float:
    """Return a fraction as a maximum must see it: what is no number is beyond any."""
    return math.inf if math.isnan(fraction) else fraction
