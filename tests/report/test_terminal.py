from __future__ import annotations

import errno
import os
import sys
from dataclasses import replace
from io import StringIO

import pytest

from evseq.errors import Untold
from evseq.report.failure import case_text
from evseq.report.terminal import Terminal, Verbosity, text
from evseq.verdict.result import Case, Finding, Latency, Result

HEADING = "outcome      promise  dtype        first     later   peak bytes     used  case\n"
PASSED = """\
passed       exact    float64    1.23 ms    400 us       12,800    0.075  crop-twice[left-float64][reference:full]
"""
END = """
verdict
  reference:full: 1 passed; promise exact; float64 judged; float32, bfloat16 not judged
  float64: at most 0.075 of an allowance used, in crop-twice[left-float64][reference:full]
    deviation 3e-14, err 1e-14, allowed 4e-13
  leaves 2; forwards: oracle 4, reference 5, replay 3

PASSED: 1 case, 1.2 s on 1 thread
"""


class Screen(StringIO):
    """Where a person looks on."""

    def isatty(self) -> bool:
        return True


class Full(StringIO):
    """A file on a disk that is full."""

    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class TestReport:
    def test_a_whole_report(self, result: Result) -> None:
        assert text(result, verbosity=Verbosity.NORMAL) == HEADING + PASSED + END

    def test_quiet_leaves_the_table_out(self, result: Result) -> None:
        assert text(result) == END

    def test_failures_stand_before_the_verdict(self, result: Result, failed: Case) -> None:
        told = text(replace(result, cases=(failed,)))
        assert told.startswith(f"\n{case_text(failed)}\n\nverdict\n")

    def test_what_belongs_to_no_case_comes_first(self, result: Result, finding: Finding) -> None:
        assert text(replace(result, findings=(finding,))).startswith(f"\n{finding}\n")

    def test_failures_alike_are_told_once(self, result: Result, failed: Case) -> None:
        told = text(replace(result, cases=(failed, replace(failed, id="other"))))
        assert (told.count("parity:"), told.count("the same in 1 other case: other")) == (1, 1)

    def test_verbose_tells_every_failure(self, result: Result, failed: Case) -> None:
        told = text(replace(result, cases=(failed, replace(failed, id="other"))), verbosity=Verbosity.VERBOSE)
        assert (told.count("parity:"), told.count("the same in")) == (2, 0)

    def test_an_unsupported_case_has_no_numbers(self, result: Result, unsupported: Case) -> None:
        told = text(replace(result, cases=(unsupported,)), verbosity=Verbosity.NORMAL)
        assert told.splitlines()[1] == (
            "unsupported  -        -                -         -            -        -  "
            "crop-twice[left-float16][reference:full]"
        )

    def test_a_case_without_later_tokens_has_no_figure_for_them(self, result: Result, passed: Case) -> None:
        short = replace(passed, latency=Latency(first=0.001, later=None))
        assert "     1 ms         -  " in text(replace(result, cases=(short,)), verbosity=Verbosity.NORMAL)

    def test_long_names_are_never_cut(self, result: Result, passed: Case) -> None:
        long = replace(passed, id="x" * 400)
        told = text(replace(result, cases=(long,)), verbosity=Verbosity.NORMAL).splitlines()
        assert told[1].endswith("  " + "x" * 400)

    def test_brackets_and_colons_are_no_markup(self, result: Result, passed: Case) -> None:
        odd = replace(passed, id="[bold]a[/bold] :smile:")
        assert text(replace(result, cases=(odd,)), verbosity=Verbosity.NORMAL).splitlines()[1].endswith(odd.id)

    def test_a_text_has_no_colours_even_where_they_are_forced(
        self, result: Result, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert text(result) == END


class TestWatching:
    def test_cases_are_told_as_they_end_and_once(self, result: Result, passed: Case) -> None:
        out = StringIO()
        terminal = Terminal(out)
        terminal.planned(1)
        terminal.started("crop-twice", "reference:full")
        terminal.finished(passed)
        assert out.getvalue() == HEADING + PASSED
        terminal.report(result)
        assert out.getvalue() == HEADING + PASSED + END

    def test_a_live_line_counts_for_who_looks_on(self, passed: Case, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "xterm")
        screen = Screen()
        terminal = Terminal(screen)
        terminal.planned(2)
        terminal.started("crop-twice", "reference:full")
        terminal.finished(passed)
        terminal.close()
        assert "1/2" in screen.getvalue()
        assert "crop-twice on reference:full" in screen.getvalue()

    def test_a_pipe_sees_no_live_line(
        self, passed: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        terminal = Terminal()
        terminal.planned(2)
        terminal.finished(passed)
        terminal.close()
        told = capsys.readouterr().out
        assert ("passed" in told, "1/2" in told) == (True, False)

    def test_nothing_planned_leaves_nothing_behind(self) -> None:
        out = StringIO()
        Terminal(out).close()
        assert out.getvalue() == ""

    def test_nothing_is_told_that_a_terminal_obeys(self, result: Result, failed: Case) -> None:
        finding = replace(failed.findings[0], message="\x1b]0;\x07\udcff")
        forged = replace(failed, id="\x1b[8mhidden", findings=(finding,))

        told = text(replace(result, cases=(forged,)), verbosity=Verbosity.NORMAL)

        assert "\\x1b[8mhidden\n" in told
        assert ": \\x1b]0;\\x07\\udcff\n" in told
        assert "\x1b" not in told

    def test_a_disk_that_is_full_is_told(self, result: Result) -> None:
        with pytest.raises(Untold) as untold:
            Terminal(Full()).report(result)

        assert str(untold.value) == (
            "standard output: cannot be written: No space left on device\n"
            "  help: make room on its disk, or send it elsewhere"
        )

    def test_left_out_it_is_standard_output(self, result: Result, capsys: pytest.CaptureFixture[str]) -> None:
        Terminal(verbosity=Verbosity.QUIET).report(result)
        assert capsys.readouterr().out == END
        assert not sys.stdout.closed
