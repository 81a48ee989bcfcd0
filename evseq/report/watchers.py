"""Watchers: several views of one run."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from evseq.part import ScriptResult
from evseq.verdict.result import Case, Result

__all__ = ["View", "Watchers"]


class View(Protocol):
    """What shows or keeps a run."""

    def kept(self, results: Sequence[ScriptResult]) -> None:
        """Take note of what an earlier run has done, which this one resumes."""

    def planned(self, cases: int) -> None:
        """Begin; so many cases will run."""

    def started(self, script: str, target: str) -> None:
        """Take note that a script begins on a target."""

    def finished(self, case: Case) -> None:
        """Take note how a case ended."""

    def ended(self, result: ScriptResult) -> None:
        """Take note what a script came to on a target."""

    def report(self, result: Result) -> None:
        """Take note that the run is over."""

    def close(self) -> None:
        """Let go of a file or a terminal, whatever happened."""


class Watchers:
    """Tells every view what it is told, in their order; closes them when left."""

    def __init__(self, *views: View) -> None:
        self._views = views

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for view in self._views:
            view.close()

    def kept(self, results: Sequence[ScriptResult]) -> None:
        """Tell what an earlier run has done."""
        for view in self._views:
            view.kept(results)

    def planned(self, cases: int) -> None:
        """Tell how many cases will run."""
        for view in self._views:
            view.planned(cases)

    def started(self, script: str, target: str) -> None:
        """Tell which script runs."""
        for view in self._views:
            view.started(script, target)

    def finished(self, case: Case) -> None:
        """Tell how a case ended."""
        for view in self._views:
            view.finished(case)

    def ended(self, result: ScriptResult) -> None:
        """Tell what a script came to."""
        for view in self._views:
            view.ended(result)

    def report(self, result: Result) -> None:
        """Tell how all of it ended."""
        for view in self._views:
            view.report(result)
