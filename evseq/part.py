"""Part: one script on one target, which is played as a whole, what came of it, and who is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from evseq.script.cases import CaseArms
from evseq.script.document import Script
from evseq.verdict.label import name
from evseq.verdict.result import Case, Forwards

__all__ = ["Part", "ScriptResult", "Watcher"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The cases of one script on one target. They share references, so they are never apart."""

    script: Script
    target: str
    chosen: tuple[CaseArms, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its cases."""
        return tuple(name(self.script, case, self.target) for case in self.chosen)

    def __str__(self) -> str:
        return f"{self.script.name} on {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResult:
    """One script on one target, the candidates for goldens it wrote, and why something was not written.

    `stamp` is the same for all that would come out the same, times aside.
    """

    cases: tuple[Case, ...]
    forwards: Forwards
    candidates: tuple[str, ...] = ()
    stamp: str = ""
    unwritten: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files that hold what it came to: candidates, and witnesses it was written down in."""
        witnesses = [case.witnessed.file for case in self.cases if case.witnessed and case.witnessed.written]
        return tuple(dict.fromkeys([*self.candidates, *witnesses]))


class Watcher(Protocol):
    """What a front end is told while cases run, in the order of the run whoever plays them."""

    def kept(self, results: Sequence[ScriptResult]) -> None:
        """Tell what an earlier run has done; first of all, and only where there is one that this one resumes."""

    def planned(self, cases: int) -> None:
        """Tell how many cases will run; once, before any does."""

    def started(self, script: str, target: str) -> None:
        """Tell that a script begins on a target."""

    def finished(self, case: Case) -> None:
        """Tell how a case ended."""

    def ended(self, result: ScriptResult) -> None:
        """Tell what a script came to on a target, all of whose cases are told."""
