"""The report a person reads: a line per case while they run, then failures, what was not judged, and the verdict."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from io import StringIO
from typing import TYPE_CHECKING, Literal, TextIO

from rich.console import Console
from rich.text import Text

from evseq.errors import Untold, printable
from evseq.part import ScriptResult
from evseq.report.failure import alike, case_text, finding_text
from evseq.report.figures import counted, duration, figure
from evseq.report.summary import cancelled, last_line, lost, notes, unsupported, unwritten, verdict
from evseq.report.weakened import allowed, known
from evseq.verdict.result import Case, Exit, Outcome, Result

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Terminal", "Verbosity", "text"]

_STYLES = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "bold red",
    Outcome.KNOWN: "magenta",
    Outcome.UNSUPPORTED: "yellow",
}


class Verbosity(StrEnum):
    """How much is told: failures and the verdict, also a line per case, also every note and every failure whole."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"


class Terminal:
    """Watches a run and reports its result.

    `out` is written without colours; left out, it is standard output. The case's name ends its line, so that the
    columns before it need no measuring and nothing is ever cut off. A live line below the cases is drawn only where a
    person looks on. What it is told then raises Untold where nothing more can be written.
    """

    def __init__(self, out: TextIO | None = None, *, verbosity: Verbosity = Verbosity.NORMAL) -> None:
        colours: Literal["auto"] | None = "auto" if out is None else None
        self._console = Console(
            file=out or sys.stdout, color_system=colours, highlight=False, markup=False, emoji=False
        )
        self._verbosity = verbosity
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._tabled = False

    def kept(self, results: Sequence[ScriptResult]) -> None:
        """Say how much was done before; its cases were told then."""
        cases, done = sum(len(result.cases) for result in results), len(results)
        if self._verbosity is not Verbosity.QUIET:
            self._print(f"kept from before: {counted(cases, 'case')} of {counted(done, 'script')} on their targets")

    def planned(self, cases: int) -> None:
        """Begin the table, and the live line if a person looks on."""
        if self._console.is_interactive and self._console.file.isatty():
            self._progress = _progress(self._console)
            self._task = self._progress.add_task("", total=cases)
            self._progress.start()
        self._heading()

    def started(self, script: str, target: str) -> None:
        """Show which script runs."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=f"{script} on {target}")

    def finished(self, case: Case) -> None:
        """Print the line of a case."""
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task)
        self._line(case)

    def ended(self, result: ScriptResult) -> None:
        """Print nothing: the cases are told."""

    def report(self, result: Result) -> None:
        """Print everything behind the table; the table too if nothing was watched."""
        self.close()
        if not self._tabled:
            self._heading()
            for case in result.cases:
                self._line(case)
        verbose = self._verbosity is Verbosity.VERBOSE
        for finding in result.findings:
            self._block(finding_text(finding), style="bold red")
        for group in _groups(result.cases, verbose=verbose):
            self._block(case_text(group[0], also=group[1:]), style="bold red")
        blocks = (
            cancelled(result, verbose=verbose),
            lost(result),
            unsupported(result, verbose=verbose),
            known(result, verbose=verbose),
            allowed(result),
            notes(result, verbose=verbose),
            unwritten(result),
            verdict(result),
        )
        for lines in blocks:
            if lines:
                self._block("\n".join(lines), style="bold")
        self._print("")
        self._print(last_line(result), style="bold green" if result.exit is Exit.PASSED else "bold red")

    def close(self) -> None:
        """Take the live line away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _heading(self) -> None:
        self._tabled = True
        if self._verbosity is not Verbosity.QUIET:
            self._print(
                _row("outcome", "promise", "dtype", "first", "later", "peak bytes", "used", "case"), style="bold"
            )

    def _line(self, case: Case) -> None:
        if self._verbosity is Verbosity.QUIET:
            return
        row = _row(
            case.outcome,
            *((case.promise, case.dtype) if case.outcome is not Outcome.UNSUPPORTED else ("-", "-")),
            duration(case.latency.first),
            duration(case.latency.later),
            f"{case.peak_cache_bytes:,}" if case.peak_cache_bytes else "-",
            figure(case.margin.fraction if case.margin else None),
            case.id,
        )
        shown = Text(printable(row))
        shown.stylize(_STYLES[case.outcome], 0, len(case.outcome))
        self._show(shown)

    def _block(self, block: str, *, style: str) -> None:
        """Print lines behind an empty one, the first of them styled."""
        first, _, rest = block.partition("\n")
        self._print("")
        self._print(first, style=style)
        if rest:
            self._print(rest)

    def _print(self, line: str, *, style: str = "") -> None:
        self._show(Text(printable(line), style=style))

    def _show(self, shown: Text) -> None:
        try:
            self._console.print(shown, soft_wrap=True)
        except OSError as error:
            raise Untold(error) from None


def text(result: Result, *, verbosity: Verbosity = Verbosity.QUIET) -> str:
    """Return the report without colours."""
    out = StringIO()
    Terminal(out, verbosity=verbosity).report(result)
    return out.getvalue()


def _groups(cases: Iterable[Case], *, verbose: bool) -> Iterable[tuple[Case, ...]]:
    groups = alike(cases)
    return ((case,) for group in groups for case in group) if verbose else groups


def _row(outcome: str, promise: str, dtype: str, first: str, later: str, peak: str, used: str, case: str) -> str:
    return f"{outcome:<11}  {promise:<7}  {dtype:<8}  {first:>8}  {later:>8}  {peak:>11}  {used:>7}  {case}"


def _progress(console: Console) -> Progress:
    from rich.progress import (  # costs as much as all the rest
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    return Progress(
        MofNCompleteColumn(),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
    )
