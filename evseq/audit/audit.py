"""Audit: what the suite is worth. Every fault against every script, and the healthy engines beside them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from evseq.audit.bench import bench
from evseq.audit.drawing import REPEATED
from evseq.audit.healthy import Alarm, Healthy, Sound
from evseq.audit.picking import Picking
from evseq.audit.trial import Trial, Tried, planted
from evseq.crew import done_with
from evseq.engines.registry import targets
from evseq.faults.catalogue import FAULTS
from evseq.golden.terms import Terms
from evseq.verdict.checks import CHECKS
from evseq.verdict.result import Check, Exit

__all__ = ["BESIDE", "WHOLE", "Audit", "Margins", "Settings", "Watcher", "audit"]

BESIDE = ("float32", "bfloat16")
"""Dtypes that ship, and that nobody should decide by."""

WHOLE = ("reference",)
"""The targets on which every script and every check must have caught a fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to audit: see `Trial`. `workers` are processes; `faults` and `scripts` what a filter left, all if empty.

    With `seeds`, healthy targets play the scripts again with rows drawn from so many other seeds, and repeated tokens.
    With `quick`, only the cases of the quick set are played, for a fault until one is red.
    """

    faults: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    beside: tuple[str, ...] = BESIDE
    full: bool = False
    seeds: int = 0
    quick: bool = False
    workers: int = 1
    threads: int = 1
    goldens: Terms = field(default_factory=Terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Margins:
    """How far apart health and faults are in a dtype, as shares of the allowance.

    `healthy` is the largest of a healthy case, `fault` the smallest that a fault came to, each with whose it is;
    `unseen` are faults that were tried in this dtype and not caught.
    """

    healthy: float | None
    healthy_case: str | None
    fault: float | None
    fault_name: str | None
    tried: int
    unseen: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What came out. `apart` says of each fault that was not tried why it could not show on these targets.

    `whole` says whether nothing was left out by a filter and the targets are those of `WHOLE`. Where only the `shipped`
    quick set was played, until a fault was caught, nothing is known of what else would have caught it.
    """

    targets: tuple[str, ...]
    scripts: tuple[str, ...]
    tried: tuple[Tried, ...]
    sound: tuple[Sound, ...]
    apart: Mapping[str, str]
    whole: bool
    seconds: float
    shipped: bool = False
    interrupted: bool = False

    @property
    def killed(self) -> int:
        """How many faults some script caught."""
        return sum(one.killed for one in self.tried)

    @property
    def survivors(self) -> tuple[str, ...]:
        """Faults that no script caught."""
        return tuple(one.fault for one in self.tried if not one.killed)

    @property
    def astray(self) -> tuple[str, ...]:
        """Faults that were caught, but in the script they name, if it was played, by something else or not at all."""
        there = [one for one in self.tried if FAULTS[one.fault].catches.script in self.scripts and not self.shipped]
        return tuple(one.fault for one in there if one.killed and not one.as_named)

    @property
    def idle_scripts(self) -> tuple[str, ...]:
        """Scripts that caught no fault; none are told where cases were left out."""
        caught = {red.script for one in self.tried for red in one.reds}
        return () if self._parted else tuple(script for script in self.scripts if script not in caught)

    @property
    def idle_checks(self) -> tuple[Check, ...]:
        """Checks that found nothing in any red case; none are told where cases were left out."""
        active = {check for one in self.tried for red in one.reds for check in red.checks}
        return () if self._parted else tuple(check for check in CHECKS if check not in active)

    @property
    def _parted(self) -> bool:
        """Whether not all was played that could have caught something."""
        return self.interrupted or self.shipped

    @property
    def healthy_cases(self) -> int:
        """Cases judged on healthy targets."""
        return sum(one.cases for one in self.sound)

    @property
    def false_alarms(self) -> tuple[Alarm, ...]:
        """Healthy cases that failed."""
        return tuple(alarm for one in self.sound for alarm in one.alarms)

    @property
    def picking(self) -> Picking:
        """What the quick set is chosen from."""
        return Picking(tried=self.tried, sound=self.sound)

    @property
    def quick(self) -> tuple[str, ...]:
        """The cheapest picks that catch all that was caught; none where nobody knows what else would have caught it."""
        return () if self.shipped else self.picking.cheapest()

    @property
    def stale(self) -> str | None:
        """Why the quick set that ships is not to be trusted any more, or None."""
        return self.picking.stale if self.whole and not self.interrupted else None

    def margins(self) -> Mapping[str, Margins]:
        """Return the margins of every dtype in which anything was played."""
        healthy: dict[str, tuple[float, str]] = {}
        for one in self.sound:
            for dtype, largest in one.largest.items():
                healthy[dtype] = max(healthy.get(dtype, largest), largest)
        words = dict.fromkeys([*(d for one in self.tried for d in (one.dtype, *one.beside)), *healthy])
        return {word: self._margins(word, healthy.get(word, (None, None))) for word in words}

    def _margins(self, dtype: str, healthy: tuple[float | None, str | None]) -> Margins:
        there = [one for one in self.tried if dtype in (one.dtype, *one.beside)]
        ratios = [(ratio, one.fault) for one in there if (ratio := one.ratio(dtype)) is not None]
        fault, name = min(ratios, default=(None, None))
        unseen = [one.fault for one in there if not (one.reds if one.dtype == dtype else one.beside[dtype])]
        return Margins(
            healthy=healthy[0],
            healthy_case=healthy[1],
            fault=fault,
            fault_name=name,
            tried=len(there),
            unseen=tuple(unseen),
        )

    @property
    def exit(self) -> Exit:
        """The exit code: failed are survivors and false alarms, in a whole audit also what is idle or out of date."""
        if self.interrupted:
            return Exit.INTERRUPTED
        wanting = self.whole and (self.idle_scripts or self.idle_checks or self.stale)
        if self.survivors or self.false_alarms or wanting:
            return Exit.FAILED
        return Exit.PASSED if self.tried else Exit.NOTHING


class Watcher(Protocol):
    """What a front end is told while trials run."""

    def planned(self, trials: int) -> None:
        """Tell how many trials there will be, before any, and again once it is known whether there will be more."""

    def finished(self, ended: Tried | Sound) -> None:
        """Tell how one ended, in whatever order they do."""


def audit(named: Sequence[str], settings: Settings, *, suite: Sequence[str], watch: Watcher) -> Audit:
    """Try faults and healthy targets with scripts of the `suite`. Raises TargetError where a target is none.

    Results stand in the order of the catalogue however many workers there are. An interrupt ends it early; what is done
    is kept.
    """
    started = time.perf_counter()
    scripts = tuple(name for name in suite if name in (settings.scripts or suite))
    work, apart = _work(named, settings, scripts)
    shop = partial(bench, threads=settings.threads, goldens=settings.goldens)
    ended: dict[int, Tried | Sound] = {}
    interrupted = False
    watch.planned(len(work))
    try:
        for number, result in done_with(shop, work, workers=settings.workers):
            ended[number] = result
            watch.finished(result)
        again = {} if settings.faults or settings.full or settings.quick else _again(work, ended, scripts)
        watch.planned(len(work) + len(again))
        for number, result in done_with(shop, list(again.values()), workers=settings.workers):
            place = list(again)[number]
            ended[place] = _both(ended[place], result)
            watch.finished(result)
    except KeyboardInterrupt:
        interrupted = True
    results = [ended[number] for number in sorted(ended)]
    return Audit(
        targets=tuple(named),
        scripts=scripts,
        tried=tuple(one for one in results if isinstance(one, Tried)),
        sound=tuple(one for one in results if isinstance(one, Sound)),
        apart=apart,
        whole=tuple(named) == WHOLE and not (settings.faults or settings.scripts or settings.quick),
        shipped=settings.quick,
        seconds=time.perf_counter() - started,
        interrupted=interrupted,
    )


def _again(
    work: Sequence[Trial | Healthy], ended: Mapping[int, Tried | Sound], scripts: Sequence[str]
) -> dict[int, Trial]:
    """Return every trial once more, by its number, for scripts that caught nothing with the cases they played."""
    caught = {red.script for one in ended.values() if isinstance(one, Tried) for red in one.reds}
    idle = tuple(script for script in scripts if script not in caught)
    trials = {number: one for number, one in enumerate(work) if isinstance(one, Trial)} if idle else {}
    return {number: replace(one, scripts=idle, beside=(), thorough=True) for number, one in trials.items()}


def _both(first: Tried | Sound, second: Tried | Sound) -> Tried:
    """Return what came of a fault's first trial and of its second, with other scripts."""
    assert isinstance(first, Tried)
    assert isinstance(second, Tried)
    return replace(first, reds=(*first.reds, *second.reds), cases=first.cases + second.cases)


def _work(
    named: Sequence[str], settings: Settings, scripts: tuple[str, ...]
) -> tuple[list[Trial | Healthy], Mapping[str, str]]:
    """Return the trials, healthy targets first for they take longest, and why other faults are left out."""
    singles = dict.fromkeys(single for text in named for single in targets(text))
    seeds = (None, *((REPEATED, *range(1, settings.seeds + 1)) if settings.seeds else ()))
    work: list[Trial | Healthy] = [
        Healthy(target=single, scripts=scripts, seed=seed, quick=settings.quick) for seed in seeds for single in singles
    ]
    apart: dict[str, str] = {}
    for name in settings.faults or FAULTS:
        where = planted(FAULTS[name], named)
        if isinstance(where, str):
            apart[name] = where
            continue
        work.append(
            Trial(
                fault=name,
                target=where[0],
                arms=where[1],
                scripts=scripts,
                beside=() if settings.quick else settings.beside,
                full=settings.full,
                quick=settings.quick,
            )
        )
    return work, apart
