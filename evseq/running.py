"""Running: one script on one target, with what a run has opened."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from evseq.errors import Problem, ScriptError
from evseq.replay.opening import UnusableError
from evseq.script import lower as lowering
from evseq.script.cases import CaseArms, cases
from evseq.script.document import Script
from evseq.verdict.label import Label, label
from evseq.verdict.result import Case, Forwards

if TYPE_CHECKING:
    from evseq.geometry import Description
    from evseq.replay.group import Group
    from evseq.replay.target import Target
    from evseq.replay.targets import Targets

__all__ = ["Run", "ScriptResult", "Settings", "Watcher", "observed_cases"]


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
    """One script on one target."""

    cases: tuple[Case, ...]
    forwards: Forwards


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
            keep(
                self.settings.record / _recording(script, text),
                script=script,
                target=target,
                chosen=chosen,
                group=group,
            )
        labels = [label(script, case, text, in_memory=target.in_memory) for case in chosen]
        return observed_cases(script, labels, target.description, chosen, group, watch=watch)

    def _observed(self, script: Script, target: Target, chosen: Sequence[CaseArms]) -> Group:
        from evseq.replay.group import observe, unreferenced

        lower = partial(lowering.lower, script, chosen, description=target.description, tokenize=target.tokenize)
        try:
            lowered = lower(greedy=target.greedy)
        except UnusableError as error:  # what the deciding dtype would choose cannot be known
            return unreferenced(lower(), str(error))
        with tempfile.TemporaryDirectory(prefix="evseq-") as folder:
            return observe(lowered, target=target, folder=Path(folder))


def observed_cases(
    script: Script,
    labels: Sequence[Label],
    description: Description,
    chosen: Sequence[CaseArms],
    group: Group,
    *,
    watch: Watcher | None = None,
) -> ScriptResult:
    """Judge what was observed of one script, case by case."""
    from evseq.verdict.cause import explained
    from evseq.verdict.evidence import Evidence
    from evseq.verdict.judge import judge
    from evseq.verdict.unjudged import unreferenced, unsupported

    ended: list[Case] = []
    for called, case, observed in zip(labels, chosen, group.recordings, strict=True):
        if observed is None:
            ended.append(unreferenced(script, case, called, str(group.broken)))
        elif isinstance(observed, str) or group.references is None:
            ended.append(unsupported(script, case, called, str(observed)))
        else:
            evidence = Evidence(recording=observed, references=group.references, script=script, description=description)
            ended.append(judge(evidence, called))
    told = explained(ended)
    if watch:
        for finished in told:
            watch.finished(finished)
    work = group.work
    forwards = Forwards(leaves=work.leaves, oracle=work.oracle, reference=work.reference)
    return ScriptResult(cases=told, forwards=forwards)


def _recording(script: Script, target: str) -> str:
    """Return a name that tells script and target; the digits keep apart what the rest would not."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{script.name}.{target}")
    digits = hashlib.sha256(f"{script.source.file}\n{target}".encode()).hexdigest()[:8]
    return f"{safe}.{digits}.recording.safetensors"
