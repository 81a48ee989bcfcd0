"""Trial: one fault against every script, or the healthy engine; where each is tried and what turned red."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from evseq.engines.registry import find
from evseq.errors import TargetError
from evseq.faults.catalogue import FAULTS
from evseq.faults.fault import Fault
from evseq.golden.terms import Terms
from evseq.pipeline import Run, Settings, read_scripts
from evseq.script.cases import CaseArms
from evseq.script.document import Arm, Script
from evseq.verdict.result import Case, Check, Outcome

__all__ = ["Alarm", "Healthy", "Red", "Sound", "Trial", "Tried", "attempt", "planted"]


LOOKS = 5
"""Scripts that are played again in a dtype beside. What the deciding dtype does not see no other does, and where it is
furthest off a coarse dtype sees most; a fault that slips through all five would cost thirty scripts to no end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A fault to be tried on `target`, which shows in `arms`, with every script of the suite that is named.

    A script plays its own arms, those that show the fault first, and every value of each once.
    `beside` are dtypes in which the likeliest of the scripts that caught it are played again. Of each script the first
    red case is enough; `full` plays every case of a run, and every script beside.
    """

    fault: str
    target: str
    arms: Mapping[str, str]
    scripts: tuple[str, ...]
    beside: tuple[str, ...] = ()
    full: bool = False
    threads: int = 1
    goldens: Terms = Terms()  # noqa: RUF009 - frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthy:
    """A target without any fault, to be tried with the scripts named, in every arm."""

    target: str
    scripts: tuple[str, ...]
    threads: int = 1
    goldens: Terms = Terms()  # noqa: RUF009 - frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class Red:
    """A script that caught a fault: what led in its first red case, of how many that were played.

    `ratio` is the largest share of its allowance that a logit of that case used; None where no parity led.
    """

    script: str
    place: str
    event: str
    check: Check
    checks: tuple[Check, ...]  # every one that found something, in any red case
    ratio: float | None
    case: str
    red: int
    played: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A fault after its trial: scripts that caught it in `dtype`, and the first that did in each dtype beside."""

    fault: str
    target: str
    arms: Mapping[str, str]
    dtype: str
    reds: tuple[Red, ...]
    beside: Mapping[str, Red | None]
    cases: int

    @property
    def killed(self) -> bool:
        """Whether any script caught it."""
        return bool(self.reds)

    @property
    def as_named(self) -> bool:
        """Whether the finding that the catalogue names leads in the script it names."""
        named = FAULTS[self.fault].catches
        return any((red.script, red.event, red.check) == (named.script, named.event, named.check) for red in self.reds)

    def ratio(self, dtype: str) -> float | None:
        """Return the largest ratio of this fault to its allowance in a dtype."""
        beside = self.beside.get(dtype)
        reds = self.reds if dtype == self.dtype else (beside,) if beside else ()
        known = [red.ratio for red in reds if red.ratio is not None and math.isfinite(red.ratio)]
        return max(known, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A healthy case that failed, and why."""

    case: str
    finding: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """A healthy target after its trial: cases judged, false alarms, and per dtype the largest share and its case."""

    target: str
    cases: int
    alarms: tuple[Alarm, ...]
    largest: Mapping[str, tuple[float, str]]


def planted(fault: Fault, named: Sequence[str]) -> tuple[str, Mapping[str, str]] | str:
    """Return the first of the targets `named` that `fault` can be planted in, with the arms it needs; or why none.

    An engine's name alone stands for the configuration in which the fault is quickest seen.
    """
    reasons = []
    for text in named:
        engine, colon, _ = text.partition(":")
        known = [target for target in fault.shows if target.partition(":")[0] == engine]
        if not colon:
            if known:
                return known[0], dict(fault.shows[known[0]])
            reasons.append(f"it shows in no configuration of {text}")
            continue
        try:
            fault.plant(find(text), target=text)
        except TargetError as error:
            reasons.append(str(error).partition(" cannot be planted: ")[2].partition("\n")[0] or str(error))
        else:
            like = text if text in fault.shows else next(iter(known), None)
            return text, dict(fault.shows[like]) if like else {}
    return "; ".join(dict.fromkeys(reasons))


def attempt(work: Trial | Healthy) -> Tried | Sound:
    """Do what is to be tried. Raises TargetError where a target cannot be opened, ScriptError."""
    return _tried(work) if isinstance(work, Trial) else _sound(work)


def _tried(trial: Trial) -> Tried:
    fault = FAULTS[trial.fault]
    with Run(Settings(threads=trial.threads, goldens=trial.goldens)) as running:
        target = running.target(f"{trial.target}+{trial.fault}")
        dtype = str(trial.arms.get("dtype", target.description.deciding.dtype))
        reds, played = [], 0
        for script in _scripts(trial.scripts):
            if "dtype" in script.arms and dtype not in script.arms["dtype"].values:
                continue
            red, cases = _play(script, trial, running, dtype)
            reds += [red] if red else []
            played += cases
        again = _likeliest(fault, reds)[: None if trial.full else LOOKS]
        beside = {
            other: next((red for script in again if (red := _play(script, trial, running, other)[0])), None)
            for other in trial.beside
            if other != dtype
        }
    return Tried(
        fault=trial.fault,
        target=trial.target,
        arms=trial.arms,
        dtype=dtype,
        reds=tuple(reds),
        beside=beside,
        cases=played,
    )


def _likeliest(fault: Fault, reds: Sequence[Red]) -> list[Script]:
    """Order the scripts that caught a fault: the named one, those that need no allowance, then by how far it is off."""
    order = {red.script: (red.script != fault.catches.script, red.ratio is not None, -(red.ratio or 0)) for red in reds}
    return sorted(_scripts(order), key=lambda script: order[script.name])


def _play(script: Script, trial: Trial, running: Run, dtype: str) -> tuple[Red | None, int]:
    """Play a script in one dtype, its own or not; return what caught the fault, and how many cases were played."""
    text = f"{trial.target}+{trial.fault}"
    running.target(text).renew()  # some faults are of what ran before, which here is chance
    held = replace(script, arms={**script.arms, "dtype": Arm(values=(dtype,))})
    chosen = sorted(running.selected(held, text), key=partial(_apart, trial.arms))
    few = _few(chosen)
    cases: list[Case] = []
    # The first is mostly red; the others share their references.
    for part in (chosen,) if trial.full else (few[:1], few[1:]):
        if part and not any(case.findings for case in cases):
            cases += running.run_script(held, text, part).cases
    red = [case for case in cases if case.findings]
    played = sum(case.outcome is not Outcome.UNSUPPORTED for case in cases)
    return (_red(red, played) if red else None), played


def _few(cases: Sequence[CaseArms]) -> list[CaseArms]:
    """Return the first case and so many that every value of every arm is met, each time the one that adds most."""
    left = {value for case in cases for value in case.arms.items()}
    kept = list(cases[:1])
    while left := left.difference(*(case.arms.items() for case in kept)):
        kept.append(max(cases, key=lambda case: len(left.intersection(case.arms.items()))))
    return kept


def _apart(arms: Mapping[str, str], case: CaseArms) -> bool:
    """Return whether a case lacks an arm that the fault needs: those go last."""
    return any(str(case.arms.get(name)) != value for name, value in arms.items())


def _red(cases: Sequence[Case], played: int) -> Red:
    case = cases[0]
    first = case.findings[0]
    return Red(
        script=case.script,
        place=first.place,
        event=first.event,
        check=first.check,
        checks=tuple(dict.fromkeys(finding.check for case in cases for finding in case.findings)),
        ratio=case.margin.fraction if case.margin and first.check is Check.PARITY else None,
        case=case.id,
        red=len(cases),
        played=played,
    )


def _sound(healthy: Healthy) -> Sound:
    cases: list[Case] = []
    with Run(Settings(threads=healthy.threads, goldens=healthy.goldens)) as running:
        for script in _scripts(healthy.scripts):
            if chosen := running.selected(script, healthy.target):
                cases += running.run_script(script, healthy.target, chosen).cases
    largest: dict[str, tuple[float, str]] = {}
    for case in cases:
        if case.margin and (case.dtype not in largest or case.margin.fraction > largest[case.dtype][0]):
            largest[case.dtype] = case.margin.fraction, case.id
    return Sound(
        target=healthy.target,
        cases=sum(case.outcome is not Outcome.UNSUPPORTED for case in cases),
        alarms=tuple(Alarm(case=case.id, finding=str(case.findings[0])) for case in cases if case.findings),
        largest=largest,
    )


def _scripts(names: Iterable[str]) -> list[Script]:
    wanted = set(names)
    return [script for script in _suite() if script.name in wanted]


@cache
def _suite() -> tuple[Script, ...]:
    return read_scripts([], suite=True)
