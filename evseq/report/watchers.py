"""Watchers: several views of one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self

from evseq.errors import EvseqError
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
    """Tells every view what it is told, in their order; closes them when left.

    A view that fails, as a file on a full disk does, is told no more; its error is raised once all others reported.
    """

    def __init__(self, *views: View) -> None:
        self._views = list(views)
        self._errors: list[EvseqError] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for view in self._views:
            view.close()

    def kept(self, results: Sequence[ScriptResult]) -> None:
        """Tell what an earlier run has done."""
        self._tell(lambda view: view.kept(results))

    def planned(self, cases: int) -> None:
        """Tell how many cases will run."""
        self._tell(lambda view: view.planned(cases))

    def started(self, script: str, target: str) -> None:
        """Tell which script runs."""
        self._tell(lambda view: view.started(script, target))

    def finished(self, case: Case) -> None:
        """Tell how a case ended."""
        self._tell(lambda view: view.finished(case))

    def ended(self, result: ScriptResult) -> None:
        """Tell what a script came to."""
        self._tell(lambda view: view.ended(result))

    def report(self, result: Result) -> None:
        """Tell how all of it ended. Raises what a view raised, then or earlier."""
        self._tell(lambda view: view.report(result))
        for error in self._errors:
            raise error

    def _tell(self, what: Callable[[View], None]) -> None:
        for view in list(self._views):
            try:
                what(view)
            except EvseqError as error:
                self._views.remove(view)
                self._errors.append(error)
                view.close()
