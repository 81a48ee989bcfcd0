"""Report of an audit: lines a person reads, and one JSON object for other programs, version 1.

A reader ignores keys it does not know: a new key does not raise the version, a changed or removed one does. A number
that is infinite or none stands as null. The object has:
  version         version of this format: 1
  targets         the targets asked for
  scripts         names of the scripts of the suite that were played
  whole           whether no filter left anything out and the targets are the reference engine's
  faults          number of faults that were tried
  killed          how many of them some script caught
  survivors       names of the others
  astray          names of those that were caught, but not by script, event and check that the catalogue names
  idle_scripts    names of scripts that caught nothing
  idle_checks     names of checks that found nothing in any red case
  healthy_cases   number of cases judged on healthy targets, with other rows too if those were asked for
  false_alarms    a list of {case, finding}: healthy cases that failed
  margins         by dtype {healthy, healthy_case, fault, fault_name, tried, unseen}: shares of the allowance, the
                  largest of a healthy case and the smallest that a fault came to, with whose they are; numbers are null
                  where nothing was compared; `tried` is a number, `unseen` names faults not caught in this dtype
  quick           the cheapest cases that still catch all, each a text as in the quick set that ships: a script, and
                  each arm that is not at its first value, or the dtype not the one that decides, as `arm=value`; empty
                  where only the quick set that ships was played, which says nothing of what others would catch
  stale           why the quick set that ships is out of date, or null
  shipped         whether only the quick set that ships was played, until a fault was caught
  table           a list, in the order of the catalogue, of {fault, area, side, report, about, target, arms, dtype,
                  cases, reds, beside, named}: `reds` are the scripts that caught it, each {script, place, event, check,
                  checks, ratio, case, red, played, pick, meant}, what led in the first red case, its ratio to the
                  allowance (null where no parity led), how many cases were red of how many played, what a quick set
                  would say of that case and how many cases that means there; `beside` has by dtype the first that
                  caught it there, or null; `named` is {script, event, check} that the catalogue says must lead
  apart           by fault, why it was not tried on these targets
  seconds, interrupted, exit
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evseq.audit.audit import Audit, Margins
from evseq.audit.trial import Tried
from evseq.faults.catalogue import FAULTS
from evseq.report.figures import counted, duration, figure
from evseq.report.output import put
from evseq.script.quick import QUICK
from evseq.verdict.result import Exit

__all__ = ["VERSION", "as_data", "lines", "write"]

VERSION = 1
"""The version of the format described above."""

SHOWN = 12
"""Names a line lists; JSON has them all."""


def write(audit: Audit, path: Path) -> None:
    """Write the JSON object, over whatever the file held. Raises UsageError where it cannot be written."""
    put(path, json.dumps(as_data(audit), indent=1, allow_nan=False) + "\n")


def as_data(audit: Audit) -> dict[str, Any]:
    """Return the object described above."""
    return {
        "version": VERSION,
        "targets": list(audit.targets),
        "scripts": list(audit.scripts),
        "whole": audit.whole,
        "faults": len(audit.tried),
        "killed": audit.killed,
        "survivors": list(audit.survivors),
        "astray": list(audit.astray),
        "idle_scripts": list(audit.idle_scripts),
        "idle_checks": [str(check) for check in audit.idle_checks],
        "healthy_cases": audit.healthy_cases,
        "false_alarms": [asdict(alarm) for alarm in audit.false_alarms],
        "margins": {dtype: _finite(asdict(margins)) for dtype, margins in audit.margins().items()},
        "quick": list(audit.quick),
        "stale": audit.stale,
        "shipped": audit.shipped,
        "table": [_row(one) for one in audit.tried],
        "apart": dict(audit.apart),
        "seconds": audit.seconds,
        "interrupted": audit.interrupted,
        "exit": int(audit.exit),
    }


def _row(one: Tried) -> dict[str, Any]:
    fault = FAULTS[one.fault]
    row = {"area": fault.area, "side": fault.side, "report": fault.url, "about": fault.about}
    named = {"script": fault.catches.script, "event": fault.catches.event, "check": fault.catches.check}
    return {**_finite(asdict(one)), **row, "named": named}


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {key: _finite(part) for key, part in value.items()}
        case list() | tuple():
            return [_finite(part) for part in value]
        case _:
            return value


def lines(audit: Audit) -> Iterator[str]:
    """Yield a line for each fault, then whatever is wrong, and the verdict."""
    if audit.tried:
        yield _columns("fault", "by", "ratio", "script", "event", "check", "on")
    yield from (_line(one) for one in audit.tried)
    if audit.apart:
        yield f"\n{counted(len(audit.apart), 'fault')} left out: {_listed(audit.apart)}"
        yield from (f"  {reason}" for reason in dict.fromkeys(audit.apart.values()))
    yield ""
    for dtype, margins in audit.margins().items():
        yield _margins(dtype, margins)
    if not audit.shipped:
        yield f"quick set: {counted(len(audit.quick), 'line')}: {', '.join(audit.quick) or '-'}"
    yield from (f"\nfalse alarm: {alarm.case}\n  {alarm.finding}" for alarm in audit.false_alarms)
    yield from _wanting(audit)
    yield f"\n{_verdict(audit)}"


def _wanting(audit: Audit) -> Iterator[str]:
    failure = "idle" if audit.whole else "idle here, which is no failure"
    if audit.survivors:
        yield f"\nsurvived: {', '.join(audit.survivors)}\n  help: write a script that catches them"
    if audit.astray:
        yield f"\ncaught, but not as the catalogue names it: {', '.join(audit.astray)}"
    if audit.idle_scripts:
        yield f"\n{failure}: scripts {', '.join(audit.idle_scripts)}"
    if audit.idle_checks:
        yield f"\n{failure}: checks {', '.join(audit.idle_checks)}"
    if audit.stale:
        yield f"\nthe quick set is out of date: {audit.stale}\n  help: evseq audit --quick-file {QUICK}"


def _line(one: Tried) -> str:
    on = f"{one.target}{''.join(f' {name}={value}' for name, value in one.arms.items())}"
    if not one.reds:
        return _columns(one.fault, "0", "-", "-", "-", "-", on)
    named = FAULTS[one.fault].catches.script
    shown = next((red for red in one.reds if red.script == named), one.reds[0])
    by = str(len(one.reds))
    return _columns(one.fault, by, figure(one.ratio(one.dtype)), shown.script, shown.event, str(shown.check), on)


def _columns(fault: str, by: str, ratio: str, script: str, event: str, check: str, on: str) -> str:
    return f"{fault:<32}  {by:>2}  {ratio:>8}  {script:<27}  {event:<11}  {check:<10}  {on}"


def _margins(dtype: str, margins: Margins) -> str:
    caught = f"{margins.tried - len(margins.unseen)} of {counted(margins.tried, 'fault')} caught"
    least = f"the smallest fault's is {figure(margins.fault)}" + (f" ({margins.fault_name})" if margins.fault else "")
    most = f"{dtype}: the largest healthy share of an allowance is {figure(margins.healthy)}"
    return f"{most}, {least}; {caught}" if margins.tried else most


def _listed(names: Mapping[str, str]) -> str:
    shown = list(names)[:SHOWN]
    return ", ".join(shown) + (f", and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _verdict(audit: Audit) -> str:
    tried = f"{audit.killed} of {counted(len(audit.tried), 'fault')} killed"
    healthy = f"{counted(len(audit.false_alarms), 'false alarm')} in {counted(audit.healthy_cases, 'healthy case')}"
    words = {Exit.PASSED: "passed", Exit.FAILED: "failed", Exit.INTERRUPTED: "interrupted"}
    return f"{words.get(audit.exit, 'nothing to try')}: {tried}, {healthy}, {duration(audit.seconds)}"
