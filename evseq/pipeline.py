"""The pipeline: read, select, lower, ask the oracle, play, judge. One function a stage, in this order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from evseq.engines.registry import find, targets
from evseq.errors import Problem, ScriptError
from evseq.geometry import Capability
from evseq.replay.opening import described, tokenized
from evseq.running import Run, ScriptResult, Settings, Watcher, observed_cases
from evseq.script import lower as lowering
from evseq.script.cases import CaseArms, cases
from evseq.script.document import Script
from evseq.script.filters import check_filters
from evseq.script.library import SUITE, read_all
from evseq.verdict.label import label
from evseq.verdict.result import Case, Forwards, Result

if TYPE_CHECKING:
    from evseq.geometry import Description
    from evseq.script.texts import Tokenize

__all__ = ["Run", "ScriptResult", "Settings", "Watcher", "check", "judge", "qualify", "read_scripts", "run", "selected"]


# -- reading, selecting, checking: no torch ----------------------------------------------------------------------------


def read_scripts(names: Sequence[str | Path], *, suite: bool = False) -> tuple[Script, ...]:
    """Read script files and folders of them (`**/*.evseq.yaml`), the shipped suite too if asked.

    Raises ScriptError with the problems of every file at once; UsageError for a name that is neither.
    """
    return read_all([*([SUITE] if suite else []), *(Path(name) for name in names)])


def selected(script: Script, target: str, settings: Settings) -> tuple[CaseArms, ...]:
    """Return the cases of `script` on one target."""
    description = described(target, find(target))
    return cases(script, description, engine=_engine(target), mode=settings.mode, only=settings.only)


def check(scripts: Sequence[Script], target: str | None, settings: Settings) -> None:
    """Check every case of every script without a forward; symbolically without a target.

    Raises ScriptError with the problems of all scripts.
    """
    problems: list[Problem] = []
    for text in targets(target) if target else (None,):
        description, tokenize = (None, None) if text is None else _read(text)
        for script in scripts:
            try:
                lowering.check(script, description, engine=_engine(text), mode=settings.mode, tokenize=tokenize)
            except ScriptError as error:
                problems += error.problems
    if problems:
        raise ScriptError(problems)


def _read(text: str) -> tuple[Description, Tokenize | None]:
    """Return a target's description, and its tokenizer if it declares one."""
    loader = find(text)
    description = described(text, loader)
    worded = Capability.TEXT in description.capabilities
    return description, partial(tokenized, text, loader) if worded else None


# -- running -----------------------------------------------------------------------------------------------------------


def qualify(
    target: str | object = "reference",
    scripts: str | Path | Sequence[str | Path] = "suite",
    *,
    settings: Settings | None = None,
    watch: Watcher | None = None,
) -> Result:
    """Qualify a target, or a model in memory, with the shipped suite or with scripts of your own.

    `target` is text (`reference`, `reference:window`, `transformers:FOLDER`, `MODULE:ATTRIBUTE`), a loader, or a
    transformers model. Raises ScriptError, TargetError; what the model does wrong is in the result.
    """
    suite = scripts == "suite"
    read = read_scripts([] if suite else [scripts] if isinstance(scripts, str | Path) else scripts, suite=suite)
    return run(read, [target], settings=settings or Settings(), watch=watch)


def run(
    scripts: Sequence[Script],
    targets: Sequence[str | object],
    *,
    settings: Settings,
    watch: Watcher | None = None,
) -> Result:
    """Run `scripts` on `targets`: theirs where a script names its own. One-head arithmetic comes first."""
    from evseq.verdict.arithmetic import one_head
    from evseq.verdict.judged import judged

    started = time.perf_counter()
    check_filters(scripts, settings.only, targets=targets)
    arithmetic = one_head()
    told = _Told(watch)
    with Run(settings) as running:
        work = [
            (script, text, chosen)
            for text, script in _pairs(scripts, running, targets)
            if (chosen := running.selected(script, text))
        ]
        running.check(work)
        told.planned(sum(len(chosen) for _, _, chosen in work))
        done: list[ScriptResult] = []
        interrupted = False
        try:
            for script, text, chosen in work:
                told.started(script.name, text)
                done.append(running.run_script(script, text, chosen, watch=told))
        except KeyboardInterrupt:
            interrupted = True
        run_on = tuple(dict.fromkeys(text for _, text, _ in work))
        return Result(
            cases=tuple(told.cases),
            targets=run_on,
            judged=tuple(judged(text, running.target(text).description, told.cases) for text in run_on),
            forwards=sum((result.forwards for result in done), Forwards()),
            seconds=time.perf_counter() - started,
            findings=arithmetic,
            interrupted=interrupted,
            threads=settings.threads,
        )


class _Told:
    """Keeps every case that finished, also those of a script that was then interrupted, and passes it on."""

    def __init__(self, watch: Watcher | None) -> None:
        self.cases: list[Case] = []
        self._watch = watch

    def planned(self, cases: int) -> None:
        if self._watch:
            self._watch.planned(cases)

    def started(self, script: str, target: str) -> None:
        if self._watch:
            self._watch.started(script, target)

    def finished(self, case: Case) -> None:
        self.cases.append(case)
        if self._watch:
            self._watch.finished(case)


def judge(path: Path) -> Result:
    """Judge a kept recording again, without the model. Raises CacheError for a damaged file."""
    from evseq.replay.keep import kept
    from evseq.verdict.judged import judged

    started = time.perf_counter()
    held = kept(path)
    labels = [label(held.script, case, held.target, in_memory=held.in_memory) for case in held.chosen]
    result = observed_cases(held.script, labels, held.description, held.chosen, held.group)
    return Result(
        cases=result.cases,
        targets=(held.target,),
        judged=(judged(held.target, held.description, result.cases),),
        forwards=result.forwards,
        seconds=time.perf_counter() - started,
        threads=held.threads,
    )


# -- small questions ---------------------------------------------------------------------------------------------------


def _pairs(scripts: Sequence[Script], running: Run, named: Sequence[str | object]) -> list[tuple[str, Script]]:
    """Pair targets with scripts, target by target. A script that names its own targets is about those."""
    given = [
        running.target(single).text
        for target in named
        for single in (targets(target) if isinstance(target, str) else (target,))
    ]
    own = [single for script in scripts for target in script.targets for single in targets(target)]
    asked_by_text = all(isinstance(target, str) for target in named)
    return [
        (text, script)
        for text in dict.fromkeys([*given, *(own if asked_by_text else [])])
        for script in scripts
        if (text in _own(script) if script.targets and asked_by_text else text in given)
    ]


def _own(script: Script) -> list[str]:
    return [single for target in script.targets for single in targets(target)]


def _engine(target: str | None) -> str:
    return (target or "").partition(":")[0]
