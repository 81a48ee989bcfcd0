"""Watchers: several views of one run."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from evseq.verdict.result import Case, Result

__all__ = ["View", "Watchers"]


class View(Protocol):
    """What shows or keeps a run."""

    def planned(self, cases: int) -> None:
        """Begin; so many cases will run."""

    def started(self, script: str, target: str) -> None:
        """Take note that a script begins on a target."""

    def finished(self, case: Case) -> None:
        """Take note how a case ended."""

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

    def report(self, result: Result) -> None:
        """Tell how all of it ended."""
        for view in self._views:
            view.report(result)
