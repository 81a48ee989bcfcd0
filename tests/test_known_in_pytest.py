"""Known failures and allowances as pytest tells them: strict, and never silently idle."""

from __future__ import annotations

from pathlib import Path

import pytest

from fronts import TWICE, run_pytest

pytest_plugins = ["pytester"]

BROKEN = "--evseq-target=engines:Broken"
HEALTHY = "--evseq-target=reference:full"

KNOWN = """\
- script: green
  target: "*"
  check: parity
  link: https://example.org/issues/12
  reason: Everything is one too high.
"""

ALLOWED = TWICE.replace("events:", "allow: {check: parity, because: A test., within: 2}\nevents:")


@pytest.fixture
def known(folder: Path) -> Path:
    file = folder / "known.yaml"
    file.write_text(KNOWN)
    return file


@pytest.mark.usefixtures("known")
class TestKnown:
    def test_a_known_failure_is_expected_with_its_reason_and_link(self, pytester: pytest.Pytester) -> None:
        result = run_pytest(pytester, BROKEN, "-rx")
        result.assert_outcomes(xfailed=4)
        assert result.ret == pytest.ExitCode.OK
        assert (
            "XFAIL green.evseq.yaml::green[left-float64][engines:Broken] - "
            "Everything is one too high. (https://example.org/issues/12)"
        ) in result.outlines

    def test_a_case_that_passes_fails_strictly(self, pytester: pytest.Pytester) -> None:
        result = run_pytest(pytester, HEALTHY)
        result.assert_outcomes(failed=4)
        assert "known.yaml:1:3: known: parity: known to fail (https://example.org/issues/12)" in result.stdout.str()

    def test_with_runxfail_a_known_failure_is_told_as_any_other(self, pytester: pytest.Pytester) -> None:
        result = run_pytest(pytester, BROKEN, "--runxfail")
        result.assert_outcomes(failed=4)
        assert "green.evseq.yaml:12:5: append: row 'a' index 3: parity: " in result.stdout.str()

    def test_another_file_may_be_named(self, known: Path, pytester: pytest.Pytester) -> None:
        known.rename(known.with_name("mine.yaml"))
        run_pytest(pytester, BROKEN, "--evseq-known=mine.yaml").assert_outcomes(xfailed=4)

    def test_a_file_that_is_wrong_is_an_error_before_anything_runs(
        self, known: Path, pytester: pytest.Pytester
    ) -> None:
        known.write_text(KNOWN.replace("parity", "pairty"))
        result = run_pytest(pytester, BROKEN)
        result.assert_outcomes(errors=1)
        assert "known.yaml:3:10: known: no check 'pairty'" in result.stdout.str()


class TestAllowed:
    @pytest.fixture(autouse=True)
    def _allowing(self, folder: Path) -> None:
        (folder / "green.evseq.yaml").write_text(ALLOWED)

    def test_an_allowance_that_tolerates_nothing_fails_the_session(self, pytester: pytest.Pytester) -> None:
        result = run_pytest(pytester, HEALTHY)
        result.assert_outcomes(passed=4)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        assert "green.evseq.yaml:10:1: allow: parity: tolerates nothing in any case: take it out" in result.stdout.str()

    @pytest.mark.parametrize("some", [("-k", "left"), ("--evseq-arm=dtype=float32",)])
    def test_a_session_of_some_cases_cannot_tell(self, some: tuple[str, ...], pytester: pytest.Pytester) -> None:
        assert run_pytest(pytester, HEALTHY, *some).ret == pytest.ExitCode.OK
