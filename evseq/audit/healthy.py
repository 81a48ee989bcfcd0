"""Healthy: a target without any fault, on which no script may fail."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from evseq.audit.drawing import drawn
from evseq.audit.scripts import scripts
from evseq.errors import ScriptError
from evseq.part import Part
from evseq.pipeline import Run, ScriptResult, Settings
from evseq.script.cases import lacking
from evseq.script.document import Script
from evseq.verdict.result import Outcome

__all__ = ["Alarm", "Healthy", "Sound", "sound"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthy:
    """A target without any fault, to be tried with the scripts named, in every arm; with a `seed`, with other rows.

    If `quick`, in the cases of the quick set only.
    """

    target: str
    scripts: tuple[str, ...]
    seed: int | None = None
    quick: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A healthy case that failed, and why."""

    case: str
    finding: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """A healthy target after its trial: cases judged, false alarms, and per dtype the largest share and its case.

    `forwards` are those that a case took, by script, those that only references took shared among all its cases.
    """

    target: str
    cases: int
    alarms: tuple[Alarm, ...]
    largest: Mapping[str, tuple[float, str]]
    forwards: Mapping[str, int]


def sound(healthy: Healthy, running: Run) -> Sound:
    """Play what is to be played. Raises TargetError where the target cannot be opened, ScriptError."""
    if healthy.seed is None:
        return _summed(healthy, _run(scripts(healthy.scripts, quick=healthy.quick), healthy.target, running))
    with Run(Settings(threads=running.settings.threads)) as apart:  # other rows are in no golden
        return _summed(healthy, _run(_drawn(healthy, healthy.seed, apart), healthy.target, apart))


def _run(scripts: Iterable[Script], target: str, running: Run) -> dict[str, ScriptResult]:
    return {
        script.name: running.run_script(script, target, chosen)
        for script in scripts
        if (chosen := running.selected(script, target))
    }


def _drawn(healthy: Healthy, seed: int, running: Run) -> Iterator[Script]:
    """Yield the scripts with other rows; one that says nothing with them, as when it changes a token to itself, not."""
    description = running.target(healthy.target).description
    for script in scripts(healthy.scripts, quick=healthy.quick):
        if lacking(script, description) is not None:
            continue
        if other := drawn(script, seed, window=description.geometry.window):
            with suppress(ScriptError):
                chosen = running.selected(other, healthy.target)
                running.check([Part(script=other, target=healthy.target, chosen=chosen)])
                yield other


def _summed(healthy: Healthy, results: Mapping[str, ScriptResult]) -> Sound:
    cases = [case for result in results.values() for case in result.cases]
    largest: dict[str, tuple[float, str]] = {}
    for case in cases:
        if case.margin and (case.dtype not in largest or case.margin.fraction > largest[case.dtype][0]):
            largest[case.dtype] = case.margin.fraction, case.id
    return Sound(
        target=healthy.target,
        cases=sum(case.outcome is not Outcome.UNSUPPORTED for case in cases),
        alarms=tuple(Alarm(case=case.id, finding=str(case.findings[0])) for case in cases if case.findings),
        largest=largest,
        forwards={script: _forwards(result) for script, result in results.items()},
    )


def _forwards(result: ScriptResult) -> int:
    asked = result.forwards.oracle + result.forwards.reference
    judged = sum(case.outcome is not Outcome.UNSUPPORTED for case in result.cases)
    return math.ceil((asked + sum(case.replay_forwards for case in result.cases)) / max(judged, 1))
