"""The pipeline: read, select, lower, ask the oracle, play, judge. One function a stage, in this order."""

from __future__ import annotations

import re
import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, cast

from evseq.engines.registry import find, targets
from evseq.errors import Problem, ScriptError
from evseq.geometry import Capability
from evseq.script import lower as lowering
from evseq.script.cases import CaseArms, cases
from evseq.script.document import Script
from evseq.script.library import SUITE, read_all
from evseq.verdict.result import Case, Check, Finding, Forwards, Outcome, Result

if TYPE_CHECKING:
    from evseq.engines.protocol import Loader
    from evseq.geometry import Description
    from evseq.replay.fresh import Fresh
    from evseq.replay.group import Group
    from evseq.replay.target import Target
    from evseq.verdict.judge import Label

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
    description = find(target).describe()
    return cases(script, description, engine=_engine(target), mode=settings.mode, only=settings.only)


def check(scripts: Sequence[Script], target: str | None, settings: Settings) -> None:
    """Check every case of every script without a forward; symbolically without a target.

    Raises ScriptError with the problems of all scripts.
    """
    problems: list[Problem] = []
    for loader, engine in [(find(text), _engine(text)) for text in targets(target)] if target else [(None, "")]:
        description = loader.describe() if loader else None
        worded = loader and description and Capability.TEXT in description.capabilities
        tokenize = loader.tokenize if loader and worded else None
        for script in scripts:
            try:
                lowering.check(script, description, engine=engine, mode=settings.mode, tokenize=tokenize)
            except ScriptError as error:
                problems += error.problems
    if problems:
        raise ScriptError(problems)


# -- running -----------------------------------------------------------------------------------------------------------


def qualify(
    target: str | object = "reference",
    scripts: str | Sequence[str | Path] = "suite",
    *,
    settings: Settings | None = None,
    watch: Watcher | None = None,
) -> Result:
    """Qualify a target, or a model in memory, with the shipped suite or with scripts of your own.

    `target` is text (`reference`, `reference:window`, `transformers:FOLDER`, `MODULE:ATTRIBUTE`), a loader, or a
    transformers model. Raises ScriptError, TargetError; what the model does wrong is in the result.
    """
    suite = scripts == "suite"
    read = read_scripts([] if suite else [scripts] if isinstance(scripts, str) else scripts, suite=suite)
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

    started = time.perf_counter()
    with Run(settings) as running:
        work = [
            (script, text, chosen)
            for text, script in _pairs(scripts, running, targets)
            if (chosen := running.selected(script, text))
        ]
        running.check(work)
        if watch:
            watch.planned(sum(len(chosen) for _, _, chosen in work))
        done: list[ScriptResult] = []
        interrupted = False
        try:
            for script, text, chosen in work:
                if watch:
                    watch.started(script.name, text)
                done.append(running.run_script(script, text, chosen, watch=watch))
        except KeyboardInterrupt:
            interrupted = True
        return Result(
            cases=tuple(case for result in done for case in result.cases),
            targets=tuple(dict.fromkeys(text for _, text, _ in work)),
            forwards=sum((result.forwards for result in done), Forwards()),
            seconds=time.perf_counter() - started,
            findings=(*one_head(), *(finding for result in done for finding in result.findings)),
            interrupted=interrupted,
            threads=settings.threads,
        )


class Run:
    """Opened targets, kept until closed: engines by dtype and options, and one process for fresh reloads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._targets: dict[str, Target] = {}
        self._fresh: Fresh | None = None
        self._threads: int | None = None

    def __enter__(self) -> Self:
        import torch

        from evseq.replay.fresh import Fresh

        # One thread: two on busy cores were twenty times slower, and results depend on the number.
        self._threads = torch.get_num_threads()
        torch.set_num_threads(self.settings.threads)
        self._fresh = Fresh(threads=self.settings.threads)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import torch

        assert self._fresh is not None
        self._fresh.close()
        self._targets.clear()
        torch.set_num_threads(self._threads or 1)

    def target(self, named: str | object) -> Target:
        """Open a target by its text, a loader, or a transformers model; once."""
        from evseq.replay.target import Target

        assert self._fresh is not None
        text, loader = (named, None) if isinstance(named, str) else _in_memory(named)
        if text not in self._targets:
            self._targets[text] = Target(text=text, loader=loader or find(text), fresh=self._fresh)
        return self._targets[text]

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
        from evseq.replay.group import observe
        from evseq.replay.keep import keep

        target = self.target(text)
        lowered = lowering.lower(
            script, chosen, description=target.description, tokenize=target.tokenize, greedy=target.greedy
        )
        with tempfile.TemporaryDirectory(prefix="evseq-") as folder:
            group = observe(lowered, target=target, folder=Path(folder))
        if self.settings.record is not None:
            keep(self.settings.record / _file(script, text), script=script, target=target, chosen=chosen, group=group)
        return _judged(script, text, target.description, chosen, group, watch=watch)


def judge(path: Path) -> Result:
    """Judge a kept recording again, without the model. Raises CacheError for a damaged file."""
    from evseq.replay.keep import kept

    started = time.perf_counter()
    held = kept(path)
    result = _judged(held.script, held.target, held.description, held.chosen, held.group)
    return Result(
        cases=result.cases, targets=(held.target,), forwards=result.forwards, seconds=time.perf_counter() - started
    )


def _judged(
    script: Script,
    text: str,
    description: Description,
    chosen: Sequence[CaseArms],
    group: Group,
    *,
    watch: Watcher | None = None,
) -> ScriptResult:
    from evseq.verdict.cause import explained
    from evseq.verdict.evidence import Evidence
    from evseq.verdict.judge import Label, judge

    judged: list[Case] = []
    for case, observed in zip(chosen, group.recordings, strict=True):
        label = Label(id=_id(script, case, text), target=text, replay=_replay(script, case, text))
        if observed == "":
            judged.append(_unreferenced(script, case, label, str(group.broken)))
        elif isinstance(observed, str) or group.references is None:
            judged.append(_unsupported(script, case, label, str(observed)))
        else:
            evidence = Evidence(recording=observed, references=group.references, script=script, description=description)
            judged.append(judge(evidence, label))
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


def _in_memory(model: object) -> tuple[str, Loader]:
    name = type(model).__name__
    if all(callable(getattr(model, method, None)) for method in ("describe", "tokenize", "load")):
        return f"memory:{name}", cast("Loader", model)
    from evseq.engines.transformers import in_memory

    return f"transformers:memory/{name}", in_memory(model)


def _engine(target: str | None) -> str:
    return (target or "").partition(":")[0]


def _file(script: Script, target: str) -> str:
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{script.name}.{target}")
    return f"{safe}.recording.safetensors"


def _id(script: Script, case: CaseArms, target: str) -> str:
    return f"{script.name}[{case.id}][{target}]"


def _replay(script: Script, case: CaseArms, target: str) -> str:
    words = ["evseq", "run", script.source.file, "--target", target]
    for name, value in case.arms.items():
        words += ["--arm", f"{name}={value}"]
    return shlex.join(words)


def _unreferenced(script: Script, case: CaseArms, label: Label, error: str) -> Case:
    """Fail a case that has nothing to be compared with."""
    event = script.events[0].word
    finding = Finding(
        check=Check.REFERENCE,
        place=str(script.place(("events", 0, event), key=True)),
        event=event,
        step=0,
        row=None,
        index=None,
        message=f"the uncached forward raised {error}",
    )
    return replace(_unsupported(script, case, label, ""), outcome=Outcome.FAILED, reason=None, findings=(finding,))


def _unsupported(script: Script, case: CaseArms, label: Label, reason: str) -> Case:
    return Case(
        id=label.id,
        script=script.name,
        file=script.source.file,
        target=label.target,
        arms=case.arms,
        outcome=Outcome.UNSUPPORTED,
        reason=reason,
        replay=label.replay,
    )
