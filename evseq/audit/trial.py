"""Trial: one fault against every script; where it is tried and what turned red."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from evseq.audit.reach import one_sided, reached
from evseq.audit.scripts import scripts
from evseq.engines.registry import find
from evseq.errors import TargetError
from evseq.faults.catalogue import FAULTS
from evseq.faults.fault import Fault
from evseq.pipeline import Run
from evseq.replay.oracle import Known
from evseq.script.cases import CaseArms, pick
from evseq.script.document import Arm, Script
from evseq.verdict.result import Case, Check, Outcome

__all__ = ["Red", "Trial", "Tried", "planted", "tried"]


LOOKS = 5
"""Scripts that are played again in a dtype beside. What the deciding dtype does not see no other does, and where it is
furthest off a coarse dtype sees most; a fault that slips through all five would cost thirty scripts to no end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A fault to be tried on `target`, which shows in `arms`, with every script of the suite that is named.

    Each script that comes upon what is broken plays one case, in those of its arms that show the fault. The script that
    the catalogue names, and all of them where nothing else catches it, go on until every value of every arm was met:
    `thorough` lets all do so at once. `full` plays every case. `beside` are dtypes in which the likeliest of the
    scripts that caught it are played again, likewise; `full` plays all of those.

    With `quick` it is the cases of the quick set that are played, as they are, script by script until one is red.
    """

    fault: str
    target: str
    arms: Mapping[str, str]
    scripts: tuple[str, ...]
    beside: tuple[str, ...] = ()
    thorough: bool = False
    full: bool = False
    quick: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Red:
    """A script that caught a fault: what led in its first red case, of how many that were played.

    `ratio` is the largest share of its allowance that a logit of that case used; None where no parity led. `pick` is
    what a quick set would say of that case, and `meant` how many cases it would mean on this target.
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
    pick: str
    meant: int


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


def planted(fault: Fault, named: Sequence[str]) -> tuple[str, Mapping[str, str]] | str:
    """Return the first of the targets `named` that `fault` can be planted in, with the arms it needs; or why none.

    Those on which the catalogue says that it shows are first. An engine's name alone stands for the configuration in
    which the fault is quickest seen.
    """
    reasons = []
    for text in sorted(named, key=lambda text: text not in fault.shows):
        engine, colon, _ = text.partition(":")
        known = [target for target in fault.shows if target.partition(":")[0] == engine]
        if not known and engine in _engines():
            reasons.append(f"it shows in no configuration of {engine}")
            continue
        if not colon:
            return known[0], dict(fault.shows[known[0]])
        try:
            fault.plant(find(text), target=text)
        except TargetError as error:
            reasons.append(str(error).partition(" cannot be planted: ")[2].partition("\n")[0] or str(error))
        else:
            like = text if text in fault.shows else next(iter(known), None)
            return text, dict(fault.shows[like]) if like else {}
    return "; ".join(dict.fromkeys(reasons))


def _engines() -> frozenset[str]:
    """Return the engines of which the catalogue says where faults show."""
    return frozenset(target.partition(":")[0] for fault in FAULTS.values() for target in fault.shows)


def tried(trial: Trial, running: Run, *, known: Known) -> Tried:
    """Try it; what the target's healthy uncached side says may be `known`, and is added to.

    Raises TargetError where the target cannot be opened, ScriptError.
    """
    fault = FAULTS[trial.fault]
    target = running.target(f"{trial.target}+{trial.fault}")
    target.known = known if one_sided(fault) else None
    dtype = str(trial.arms.get("dtype", target.description.deciding.dtype))
    usual = Arm(values=(target.description.deciding.dtype,))
    plays = {
        script.name: _Play(script, trial, running, dtype)
        for script in scripts(trial.scripts, quick=trial.quick)
        if reached(fault, script) and (trial.quick or dtype in script.arms.get("dtype", usual).values)
    }
    if trial.quick:
        _until_red(plays.values())
    else:
        _on(plays, fault, thorough=trial.thorough)
    reds = [play.red for play in plays.values() if play.red]
    again = _likeliest(fault, reds)[: None if trial.full else LOOKS]
    beside = {
        other: next((red for script in again if (red := _seen(script, trial, running, other))), None)
        for other in trial.beside
        if other != dtype
    }
    target.renew()
    return Tried(
        fault=trial.fault,
        target=trial.target,
        arms=trial.arms,
        dtype=dtype,
        reds=tuple(reds),
        beside=beside,
        cases=sum(play.played for play in plays.values()),
    )


def _until_red(plays: Iterable[_Play]) -> None:
    for play in plays:
        play.on(thorough=False)
        if play.red:
            return


def _on(plays: Mapping[str, _Play], fault: Fault, *, thorough: bool) -> None:
    """Play a case of each script, and more of what has to go on."""
    for play in plays.values():
        play.on(thorough=thorough)
    named = plays.get(fault.catches.script)
    if named and not _leads(fault, named.red):
        named.on(thorough=True)
    if not any(play.red for play in plays.values()):
        for play in plays.values():
            play.on(thorough=True)


def _leads(fault: Fault, red: Red | None) -> bool:
    """Return whether what the catalogue names led, in the script it names."""
    return red is not None and (red.event, red.check) == (fault.catches.event, fault.catches.check)


def _likeliest(fault: Fault, reds: Sequence[Red]) -> list[Script]:
    """Order the scripts that caught a fault: the named one, those that need no allowance, then by how far it is off."""
    order = {red.script: (red.script != fault.catches.script, red.ratio is not None, -(red.ratio or 0)) for red in reds}
    return sorted(scripts(order), key=lambda script: order[script.name])


def _seen(script: Script, trial: Trial, running: Run, dtype: str) -> Red | None:
    """Return what of a script catches a fault in another dtype, its own or not."""
    play = _Play(script, trial, running, dtype)
    play.on(thorough=script.name == FAULTS[trial.fault].catches.script)
    return play.red


class _Play:
    """One script against one fault in one dtype: the cases played so far, until one is red; or its picks, at once."""

    def __init__(self, script: Script, trial: Trial, running: Run, dtype: str) -> None:
        self._text = f"{trial.target}+{trial.fault}"
        self._running = running
        self._shipped = script
        self._script = script if script.picks else replace(script, arms={**script.arms, "dtype": Arm(values=(dtype,))})
        chosen = sorted(running.selected(self._script, self._text), key=partial(_apart, trial.arms))
        few = chosen if trial.full or script.picks else _few(chosen)
        self._parts = (few,) if few is chosen else (few[:1], few[1:])
        self._rest = [case for case in chosen if case not in few]
        self._cases: list[Case] = []

    @property
    def red(self) -> Red | None:
        """What caught the fault, if anything did."""
        red = [case for case in self._cases if case.findings]
        return self._red(red) if red else None

    def _red(self, cases: Sequence[Case]) -> Red:
        case = cases[0]
        first = case.findings[0]
        target = self._running.target(self._text)
        picked = pick(self._shipped, CaseArms(arms=case.arms), target.description, engine=target.name)
        meant = self._running.selected(replace(self._shipped, picks=(picked,)), self._text)
        return Red(
            script=case.script,
            place=first.place,
            event=first.event,
            check=first.check,
            checks=tuple(dict.fromkeys(finding.check for case in cases for finding in case.findings)),
            ratio=case.margin.fraction if case.margin and first.check is Check.PARITY else None,
            case=case.id,
            red=len(cases),
            played=self.played,
            pick=str(picked),
            meant=len(meant),
        )

    @property
    def played(self) -> int:
        """Cases that were played so far."""
        return sum(case.outcome is not Outcome.UNSUPPORTED for case in self._cases)

    def on(self, *, thorough: bool) -> None:
        """Play a case, or more if `thorough`, until one is red; nothing if one was. The later ones share references."""
        if self.red:
            return
        self._running.target(self._text).renew()  # some faults are of what ran before, which here is chance
        self._cases = []
        for part in self._parts:
            if part and not self.red and (thorough or not self.played):
                self._cases += self._running.run_script(self._script, self._text, part).cases
        if self._rest and not self.played:  # values of two arms may be impossible together, whichever each is
            self._cases += self._running.run_script(self._script, self._text, self._rest).cases


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
