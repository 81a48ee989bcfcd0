from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from evseq.errors import UsageError
from evseq.part import ScriptResult
from evseq.report.jsonl import JsonLines
from evseq.report.terminal import Terminal, Verbosity
from evseq.report.watchers import Watchers
from evseq.verdict.result import Case, Forwards, Result


class Heard:
    """A view that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def kept(self, results: Sequence[ScriptResult]) -> None:
        self.told.append(f"kept {len(results)}")

    def planned(self, cases: int) -> None:
        self.told.append(f"planned {cases}")

    def started(self, script: str, target: str) -> None:
        self.told.append(f"started {script} {target}")

    def finished(self, case: Case) -> None:
        self.told.append(f"finished {case.id}")

    def ended(self, result: ScriptResult) -> None:
        self.told.append(f"ended {len(result.cases)}")

    def report(self, result: Result) -> None:
        self.told.append(f"report {result.exit.name}")

    def close(self) -> None:
        self.told.append("close")


class TestWatchers:
    def test_every_view_is_told_everything(self, passed: Case, result: Result) -> None:
        one, two = Heard(), Heard()
        with Watchers(one, two) as watch:
            watch.kept(())
            watch.planned(1)
            watch.started("crop-twice", "reference:full")
            watch.finished(passed)
            watch.ended(ScriptResult(cases=(passed,), forwards=Forwards()))
            watch.report(result)
        assert one.told == two.told
        assert one.told == [
            "kept 0",
            "planned 1",
            "started crop-twice reference:full",
            "finished crop-twice[left-float64][reference:full]",
            "ended 1",
            "report PASSED",
            "close",
        ]

    def test_views_are_closed_whatever_happened(self) -> None:
        heard = Heard()
        with pytest.raises(KeyboardInterrupt), Watchers(heard):
            raise KeyboardInterrupt
        assert heard.told == ["close"]

    def test_the_terminal_and_a_file_are_views(self, tmp_path: Path, result: Result) -> None:
        file = JsonLines(tmp_path / "run.jsonl", targets=(), scripts=(), settings={})
        with Watchers(Terminal(verbosity=Verbosity.QUIET), file) as watch:
            watch.report(result)
        assert len((tmp_path / "run.jsonl").read_text().splitlines()) == 2

    def test_a_view_that_fails_is_told_no_more_and_keeps_nothing_from_the_others(
        self, passed: Case, result: Result
    ) -> None:
        heard, failing = Heard(), Failing()

        with Watchers(failing, heard) as watch:
            watch.planned(1)
            watch.finished(passed)
            watch.finished(passed)
            with pytest.raises(UsageError, match=r"run\.jsonl: cannot be written"):
                watch.report(result)

        assert failing.told == ["planned 1", "close"]
        assert heard.told[-2:] == ["report PASSED", "close"]


class Failing(Heard):
    """A file on a disk that is full."""

    def finished(self, case: Case) -> None:
        raise UsageError("run.jsonl: cannot be written: No space left on device")
