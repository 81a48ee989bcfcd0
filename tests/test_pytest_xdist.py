"""With pytest-xdist, what workers found out is told once, by the process that reports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evseq.pytest_session import Found
from fronts import TWICE, run_pytest

pytest_plugins = ["pytester"]

IDLE = TWICE.replace("next: 1", "next: 1, allow: {check: parity, because: A test., within: 2}")

PAGED = TWICE.replace("dtype: [float64, float32]", "cache: [growing, paged]")


def run_shared(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest in two workers, who share cases one by one."""
    return pytester.runpytest_subprocess(
        "-p", "evseq.pytest_plugin", "-p", "xdist.plugin", "-p", "no:cacheprovider", "-n", "2", *arguments
    )


@pytest.mark.usefixtures("folder")
class TestWorkers:
    def test_candidates_are_listed_once_and_fail_the_session(self, folder: Path, pytester: pytest.Pytester) -> None:
        result = run_shared(pytester, "--evseq-target=reference:full", "--evseq-update-goldens")

        result.assert_outcomes(passed=4)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        told = re.findall(r"^=+ evseq: candidates written =+\n(.*)\n(.*)$", result.stdout.str(), re.MULTILINE)
        (written,) = folder.rglob("*.candidate.safetensors")
        assert told == [(str(written), "help: evseq golden review")]

    def test_an_allowance_that_tolerates_nothing_is_told_once(self, folder: Path, pytester: pytest.Pytester) -> None:
        (folder / "green.evseq.yaml").write_text(IDLE)

        result = run_shared(pytester, "--evseq-target=reference:full")

        result.assert_outcomes(passed=4)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        assert result.stdout.str().count("tolerates nothing in any case: take it out") == 1

    def test_nothing_supported_exits_as_nothing_collected_does(self, folder: Path, pytester: pytest.Pytester) -> None:
        (folder / "green.evseq.yaml").write_text(PAGED)

        result = run_shared(pytester, "--evseq-target=reference:full", "--evseq-arm=cache=paged")

        result.assert_outcomes(skipped=2)
        assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        assert result.stdout.str().count("evseq: no case was judged on reference:full") == 1

    def test_a_filter_that_fits_nothing_is_wrong_usage_told_once(self, pytester: pytest.Pytester) -> None:
        result = run_shared(pytester, "--evseq-target=reference:full", "--evseq-arm=paddin=left")

        assert result.ret == pytest.ExitCode.USAGE_ERROR
        told = "\n--evseq-arm: no arm 'paddin' in these scripts\n  help: did you mean 'padding'?\n"
        assert result.stdout.str().count(told) == 1


def test_a_session_without_workers_says_the_same(folder: Path, pytester: pytest.Pytester) -> None:
    (folder / "green.evseq.yaml").write_text(IDLE)

    result = run_pytest(pytester, "--evseq-target=reference:full")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.stdout.str().count("tolerates nothing in any case: take it out") == 1


def test_what_two_workers_found_is_what_one_would_have(tmp_path: Path) -> None:
    left, right = ((tmp_path / "a", "t", frozenset({("padding", side)})) for side in ("left", "right"))
    one = Found(collected={left: None, right: None}, selected={left, right}, unsupported={left}, candidates=["x"])
    two = Found(collected={left: None, right: None}, selected={left, right}, unsupported={right}, candidates=["x", "y"])

    both = Found()
    both.hear(one.told())
    half = both.nothing(("t",))
    both.hear(two.told())

    assert (half, both.nothing(("t",)), both.unjudged(("t", "u"))) == (False, True, ["t", "u"])
    assert (both.candidates, list(both.collected)) == (["x", "y"], [left, right])
