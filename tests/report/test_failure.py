from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from evseq.report.failure import alike, case_text, finding_text
from evseq.verdict.result import Case, Check, Finding


class TestFinding:
    def test_it_leads_with_the_address_and_shows_the_line(self, finding: Finding, script: Path) -> None:
        assert finding_text(finding) == (
            f"{script}:9:5: append: row 'a' index 2: parity: "
            "logit 17 is 1.5, expected 2.5: off by 1, allowed 4.1e-13 in float64\n"
            "  8 |   - crop: {by: 2}\n"
            "> 9 |   - append: {next: 2}"
        )

    def test_a_script_that_is_gone_is_not_shown(self, finding: Finding, tmp_path: Path) -> None:
        gone = replace(finding, place=f"{tmp_path}/gone.evseq.yaml:9:5")
        assert finding_text(gone) == str(gone)

    def test_a_place_outside_any_script_is_not_shown(self, finding: Finding) -> None:
        nowhere = replace(finding, place="one head", event="arithmetic", row=None, index=None, check=Check.ARITHMETIC)
        assert finding_text(nowhere) == str(nowhere)

    def test_a_message_of_many_lines_is_indented(self, finding: Finding) -> None:
        raised = replace(finding, place="gone", message="session 'main': EngineError: no room\n  help: ask for less")
        assert finding_text(raised).splitlines() == [
            "gone: append: row 'a' index 2: parity: session 'main': EngineError: no room",
            "      help: ask for less",
        ]


class TestCase:
    def test_the_first_divergence_leads_and_the_command_closes(self, failed: Case, finding: Finding) -> None:
        assert case_text(failed) == (
            f"{finding_text(finding)}\n"
            "  1 finding in 6 observations: 1 parity\n"
            "  case: crop-twice[right-float64][reference:full]\n"
            "  replay: evseq run crop.evseq.yaml --target reference:full --arm padding=left --arm dtype=float64"
        )

    def test_the_worst_follows_if_it_is_not_the_first(self, failed: Case, finding: Finding) -> None:
        worst = replace(finding, index=3, actual="-7.5", message="logit 2 is -7.5, expected 2.5")
        told = case_text(replace(failed, findings=(finding, worst)))
        assert told.split("\n")[3] == f"  worst: {worst}"

    def test_counts_are_told_by_check(self, failed: Case, finding: Finding) -> None:
        counts = replace(finding, check=Check.ACCOUNTING, message="tokens held: 3, expected 2", actual="3")
        told = case_text(replace(failed, findings=(counts, finding, replace(finding, index=3))))
        assert "  3 findings in 6 observations: 1 accounting, 2 parity\n" in told

    def test_a_count_that_is_off_is_never_the_worst(self, failed: Case, finding: Finding) -> None:
        counts = replace(finding, check=Check.ACCOUNTING, message="bytes", actual="9000", expected="1")
        assert "worst" not in case_text(replace(failed, findings=(finding, counts)))

    def test_the_likely_cause_stands_before_the_command(self, failed: Case, finding: Finding) -> None:
        told = case_text(replace(failed, findings=(replace(finding, cause="positions off by one after a crop"),)))
        assert told.split("\n")[4] == "  likely cause: positions off by one after a crop"

    def test_cases_that_diverge_alike_are_named(self, failed: Case) -> None:
        others = [replace(failed, id=f"other-{number}") for number in range(8)]
        told = case_text(failed, also=others)
        assert "  the same in 8 other cases: other-0, other-1, other-2, other-3, other-4, other-5, ...\n" in told


class TestAlike:
    def test_passed_cases_are_left_out(self, passed: Case, unsupported: Case) -> None:
        assert alike([passed, unsupported]) == ()

    def test_the_same_place_and_check_are_one_group(self, failed: Case) -> None:
        other = replace(failed, id="other", arms={})
        assert alike([failed, other]) == ((failed, other),)

    def test_another_check_is_another_group(self, failed: Case, finding: Finding) -> None:
        other = replace(failed, findings=(replace(finding, check=Check.CONTINUITY),))
        assert alike([failed, other]) == ((failed,), (other,))

    def test_another_target_is_another_group(self, failed: Case) -> None:
        other = replace(failed, target="reference:window")
        assert alike([failed, other]) == ((failed,), (other,))
