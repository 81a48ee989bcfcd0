"""The pipeline: read, select, lower, ask the oracle, play, judge. One function a stage, in this order."""

from __future__ import annotations

import hashlib
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from evseq.engines.registry import find, targets
from evseq.errors import Problem, ScriptError
from evseq.geometry import Capability
from evseq.replay.opening import UnusableError, described, tokenized
from evseq.script import lower as lowering
from evseq.script.cases import CaseArms, cases
from evseq.script.document import Script
from evseq.script.filters import check_filters
from evseq.script.library import SUITE, read_all
from evseq.verdict.label import Label, label
from evseq.verdict.result import Case, Finding, Forwards, Result

if TYPE_CHECKING:
    from evseq.geometry import Description
    from evseq.replay.group import Group
    from evseq.replay.target import Target
    from evseq.replay.targets import Targets
    from evseq.script.texts import Tokenize

__all__ = ["Run", "ScriptResult", "Settings", "Watcher", "check", "judge", "qualify", "read_scripts", "run", "selected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to run. `only` filters arms; `record` is a folder that keeps recordings."""

    mode: str = "pairwise"
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    threads: int = 1
    record: Path | None = None


class Watcher(Protocol):
    """What a front end is told while cases run."""

    def planned(self, cases: int) -> None:
        """Tell how many cases will run; once, before any does."""

    def started(self, script: str, target: str) -> None:
        """Tell that a script begins on a target."""

    def finished(self, case: Case) -> None:
        """Tell how a case ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResult:
    """One script on one target. `findings` belong to no case."""

    cases: tuple[Case, ...]
    findings: tuple[Finding, ...]
    forwards: Forwards


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
            findings=(*arithmetic, *(finding for result in done for finding in result.findings)),
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


class Run:
    """Opened targets, kept until closed: engines by dtype and options, and one process for fresh reloads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._targets: Targets | None = None
        self._threads: int | None = None

    def __enter__(self) -> Self:
        import torch

        from evseq.replay.targets import Targets

        # One thread: two on busy cores were twenty times slower, and results depend on the number.
        self._threads = torch.get_num_threads()
        torch.set_num_threads(self.settings.threads)
        self._targets = Targets(threads=self.settings.threads)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import torch

        assert self._targets is not None
        self._targets.close()
        torch.set_num_threads(self._threads or 1)

    def target(self, named: str | object) -> Target:
        """Open a target by its text, a loader, or a transformers model; once."""
        assert self._targets is not None
        return self._targets.target(named)

    def selected(self, script: Script, text: str) -> tuple[CaseArms, ...]:
        """Return the cases of `script` on an opened target."""
        target = self.target(text)
        return cases(script, target.description, engine=target.name, mode=self.settings.mode, only=self.settings.only)

    def check(self, work: Sequence[tuple[Script, str, Sequence[CaseArms]]]) -> None:
        """Refuse impossible scripts before any weight is loaded. Raises ScriptError with all problems."""
        problems: list[Problem] = []
        for script, text, chosen in work:
            target = self.target(text)
            try:
                lowering.lower(script, chosen, description=target.description, tokenize=target.tokenize)
            except ScriptError as error:
                problems += error.problems
        if problems:
            raise ScriptError(problems)

    def run_script(
        self, script: Script, text: str, chosen: Sequence[CaseArms], *, watch: Watcher | None = None
    ) -> ScriptResult:
        """Lower, ask the oracle, play and judge the chosen cases of one script on one target."""
        from evseq.replay.keep import keep

        target = self.target(text)
        group = self._observed(script, target, chosen)
        if self.settings.record is not None:
            keep(self.settings.record / _file(script, text), script=script, target=target, chosen=chosen, group=group)
        labels = [label(script, case, text, in_memory=target.in_memory) for case in chosen]
        return _judged(script, labels, target.description, chosen, group, watch=watch)

    def _observed(self, script: Script, target: Target, chosen: Sequence[CaseArms]) -> Group:
        from evseq.replay.group import observe, unreferenced

        lower = partial(lowering.lower, script, chosen, description=target.description, tokenize=target.tokenize)
        try:
            lowered = lower(greedy=target.greedy)
        except UnusableError as error:  # what the deciding dtype would choose cannot be known
            return unreferenced(lower(), str(error))
        with tempfile.TemporaryDirectory(prefix="evseq-") as folder:
            return observe(lowered, target=target, folder=Path(folder))


def judge(path: Path) -> Result:
    """Judge a kept recording again, without the model. Raises CacheError for a damaged file."""
    from evseq.replay.keep import kept
    from evseq.verdict.judged import judged

    started = time.perf_counter()
    held = kept(path)
    labels = [label(held.script, case, held.target, in_memory=held.in_memory) for case in held.chosen]
    result = _judged(held.script, labels, held.description, held.chosen, held.group)
    return Result(
        cases=result.cases,
        targets=(held.target,),
        judged=(judged(held.target, held.description, result.cases),),
        forwards=result.forwards,
        seconds=time.perf_counter() - started,
        threads=held.threads,
    )


def _judged(
    script: Script,
    labels: Sequence[Label],
    description: Description,
    chosen: Sequence[CaseArms],
    group: Group,
    *,
    watch: Watcher | None = None,
) -> ScriptResult:
    from evseq.verdict.cause import explained
    from evseq.verdict.evidence import Evidence
    from evseq.verdict.judge import judge
    from evseq.verdict.unjudged import unreferenced, unsupported

    judged: list[Case] = []
    for called, case, observed in zip(labels, chosen, group.recordings, strict=True):
        if observed is None:
            judged.append(unreferenced(script, case, called, str(group.broken)))
        elif isinstance(observed, str) or group.references is None:
            judged.append(unsupported(script, case, called, str(observed)))
        else:
            evidence = Evidence(recording=observed, references=group.references, script=script, description=description)
            judged.append(judge(evidence, called))
    told = explained(judged)
    if watch:
        for finished in told:
            watch.finished(finished)
    work = group.work
    forwards = Forwards(leaves=work.leaves, oracle=work.oracle, reference=work.reference)
    return ScriptResult(cases=told, findings=(), forwards=forwards)


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


def _file(script: Script, target: str) -> str:
    """Return a name that tells script and target; the digits keep apart what the rest would not."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{script.name}.{target}")
    digits = hashlib.sha256(f"{script.source.file}\n{target}".encode()).hexdigest()[:8]
    return f"{safe}.{digits}.recording.safetensors"
