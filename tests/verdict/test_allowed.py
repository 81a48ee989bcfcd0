from __future__ import annotations

import pytest

from evseq.check import Check
from evseq.report.weakened import allowed
from evseq.verdict.result import Allowed, Exit, Outcome, Result
from playing import lines, played, script

FAULT = "planted.faults:positions_after_crop"
COUNTS = "planted.probes:length_short"

SCRIPT = """\
rows:
  a: {random: {length: 9, seed: 41}}
  b: {random: {length: 7, seed: 42}}
arms: {dtype: [DTYPE]}
ALLOW
events:
  - prefill: {rows: {a: 6, b: 4}}
  - crop: {by: 2}
  - append: {next: 2HERE}
"""

SHARE = "{check: parity, because: One position too high, within: 1000000}"
COUNT = "{check: accounting, because: One position too high, within: NUMBER}"


def text(*, allow: str = "", here: str = "", dtype: str = "bfloat16") -> str:
    """Return the script with allowances at its top and at the append in line 12."""
    top = f"allow: {allow}" if allow else "# nothing allowed"
    return SCRIPT.replace("DTYPE", dtype).replace("ALLOW", top).replace("HERE", f", allow: {here}" if here else "")


def ran(target: str, *, allow: str = "", here: str = "", dtype: str = "bfloat16") -> Result:
    return played(text(allow=allow, here=here, dtype=dtype), target, only={})


def uses(result: Result) -> list[tuple[str, int]]:
    return [(one.place, one.findings) for case in result.cases for one in case.allowed]


class TestShares:
    def test_findings_within_the_allowances_are_tolerated_where_it_is_written(self) -> None:
        before, after = ran(FAULT), ran(FAULT, here=f"[{SHARE}, {COUNT.replace('NUMBER', '4')}]")
        assert [finding.check for finding in before.cases[0].findings].count(Check.PARITY) == 4
        assert (lines(after), after.exit) == ([], Exit.PASSED)
        assert uses(after) == [("case.evseq.yaml:12:31", 4), ("case.evseq.yaml:12:97", 4)]

    def test_each_finding_beyond_is_told(self) -> None:
        shares = sorted(
            finding.share or 0.0 for finding in ran(FAULT).cases[0].findings if finding.check is Check.PARITY
        )
        within = f"{(shares[1] + shares[2]) / 2:.3f}"
        result = ran(FAULT, here=SHARE.replace("1000000", within))
        assert [finding.check for finding in result.cases[0].findings].count(Check.PARITY) == 2
        assert uses(result) == [("case.evseq.yaml:12:23", 2)]
        assert result.exit is Exit.FAILED

    def test_a_fault_in_double_precision_is_beyond_what_can_be_allowed(self) -> None:
        result = ran(FAULT, here=SHARE, dtype="float64")
        assert lines(result)[0].startswith("case.evseq.yaml:12:5: append: row 'a' index 4: parity: ")

    def test_logits_that_are_no_numbers_are_never_tolerated(self) -> None:
        result = played(text(allow=SHARE), "planted.faults:not_finite", only={})
        assert result.cases[0].outcome is Outcome.FAILED


class TestCounts:
    def test_so_many_findings_are_tolerated(self) -> None:
        result = ran(FAULT, here=f"[{SHARE}, {COUNT.replace('NUMBER', '4')}]")
        assert result.cases[0].outcome is Outcome.PASSED

    def test_where_there_are_more_all_are_told(self) -> None:
        result = ran(FAULT, here=f"[{SHARE}, {COUNT.replace('NUMBER', '3')}]")
        assert [finding.check for finding in result.cases[0].findings] == [Check.ACCOUNTING] * 4
        assert uses(result)[1] == ("case.evseq.yaml:12:97", 0)


class TestPlaces:
    def test_an_allowance_of_the_script_holds_at_every_event(self) -> None:
        result = ran(FAULT, allow=f"[{SHARE}, {COUNT.replace('NUMBER', '9')}]")
        assert (lines(result), result.exit) == ([], Exit.PASSED)

    def test_one_of_another_event_tolerates_nothing_here(self) -> None:
        other = text().replace("{by: 2}", f"{{by: 2, allow: {SHARE}}}")
        result = played(other, FAULT, only={})
        assert [finding.check for finding in result.cases[0].findings].count(Check.PARITY) == 4

    def test_the_event_s_own_is_used_first_and_each_finding_once(self) -> None:
        result = ran(FAULT, allow=f"[{SHARE}, {COUNT.replace('NUMBER', '9')}]", here=SHARE)
        assert uses(result) == [("case.evseq.yaml:12:23", 4), ("case.evseq.yaml:8:9", 0), ("case.evseq.yaml:8:75", 4)]


class TestIdle:
    def test_an_allowance_nobody_needs_fails_the_run(self) -> None:
        result = ran("reference:full", here=SHARE)
        assert [case.outcome for case in result.cases] == [Outcome.PASSED]
        assert [str(finding) for finding in result.findings] == [
            "case.evseq.yaml:12:23: allow: parity: tolerates nothing in any case: take it out"
        ]
        assert result.exit is Exit.FAILED

    def test_one_case_that_needs_it_is_enough(self) -> None:
        both = played(text(allow=f"[{SHARE}, {COUNT.replace('NUMBER', '9')}]"), "reference:full", FAULT, only={})
        assert (both.findings, both.exit) == ((), Exit.PASSED)

    def test_a_run_of_some_cases_cannot_tell(self) -> None:
        result = played(text(allow=SHARE), "reference:full", only={"dtype": ("bfloat16",)})
        assert result.exit is Exit.PASSED

    def test_nothing_is_told_where_nothing_was_judged(self) -> None:
        unsupported = script(text(allow=SHARE).replace("arms:", "needs: [window]\narms:"))
        assert played(unsupported, "reference:full", only={}).exit is Exit.NOTHING


class TestReport:
    @pytest.fixture
    def result(self) -> Result:
        return ran(FAULT, here=f"[{SHARE}, {COUNT.replace('NUMBER', '4')}]")

    def test_every_use_is_counted_and_told_with_its_reason(self, result: Result) -> None:
        head, share, count = allowed(result)
        assert head == "allowed: 8 findings"
        assert share.startswith("  case.evseq.yaml:12:31: parity: 4 findings in 1 case, at most ")
        assert share.endswith(" of 1e+06 allowances: One position too high")
        assert count == (
            "  case.evseq.yaml:12:97: accounting: 4 findings in 1 case, at most 4 of 4: One position too high"
        )

    def test_a_case_names_all_of_them(self, result: Result) -> None:
        assert result.cases[0].allowed[1] == Allowed(
            check=Check.ACCOUNTING,
            place="case.evseq.yaml:12:97",
            because="One position too high",
            within=4,
            findings=4,
        )

    def test_without_any_nothing_is_told(self) -> None:
        assert allowed(ran("reference:full")) == []
