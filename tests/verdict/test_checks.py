"""Every check, red on a planted fault and silent on a healthy engine."""

from __future__ import annotations

import pytest

from evseq.verdict.checks import CHECKS
from evseq.verdict.result import Check, Note, Outcome
from planted.scripts import APPEND, CROP, EVERYTHING, RELOAD
from playing import first, lines, played, without_numbers


@pytest.fixture(scope="module")
def healthy() -> list[Check]:
    """Return the checks that complain of a healthy engine in a script that gives each of them something to look at."""
    result = played(EVERYTHING, "reference:window", only={})
    assert result.counts[Outcome.PASSED] == 4
    return [finding.check for case in result.cases for finding in case.findings]


@pytest.mark.parametrize("check", CHECKS)
def test_a_healthy_engine_is_left_in_peace(check: Check, healthy: list[Check]) -> None:
    assert healthy.count(check) == 0


class TestCompleted:
    def test_an_operation_that_raises_is_named_with_its_event(self) -> None:
        result = played(CROP, "planted.faults:crop_raises")

        assert lines(result) == [
            "case.evseq.yaml:12:5: crop: completed: session 'main': NotImplementedError: no crop for this cache"
        ]

    def test_a_loud_event_may_raise_and_the_case_says_so(self) -> None:
        result = played(CROP.replace("by: 1", "by: 1, expect: loud"), "planted.faults:crop_raises")

        assert result.passed
        assert result.cases[0].notes == (
            Note(kind="loud", message="crop of event 3: raised, as allowed"),
            Note(kind="not judged", message="1 later steps on sessions that were gone"),
        )

    def test_a_loud_event_that_is_right_says_so_too(self) -> None:
        result = played(CROP.replace("by: 1", "by: 1, expect: loud"), "reference:full")

        assert result.passed
        assert result.cases[0].notes == (Note(kind="loud", message="crop of event 3: right"),)

    def test_a_loud_event_that_is_silently_wrong_is_no_less_wrong(self) -> None:
        loud = APPEND.replace("next: 2", "next: 2, expect: loud")

        result = played(loud, "planted.faults:append_moves_cache")

        assert result.cases[0].notes == ()
        assert without_numbers(first(result)) == (
            "case.evseq.yaml:11:5: append: row 'a' index 7: parity: "
            "logit # is #, expected #: off by #, allowed # in float64"
        )


class TestOrder:
    def test_the_first_divergence_in_the_order_of_events_leads(self) -> None:
        found = played(RELOAD, "planted.probes:length_short").cases[0].findings

        assert [finding.step for finding in found] == sorted(finding.step for finding in found)
        assert (found[0].check, found[0].event) == (Check.ACCOUNTING, "prefill")
        assert Check.REFUSAL in {finding.check for finding in found}

    def test_within_an_event_a_cause_comes_before_its_effects(self) -> None:
        found = played(CROP, "planted.faults:positions_after_crop").cases[0].findings

        assert [finding.check for finding in found if finding.event == "append"][:4] == [
            *[Check.PARITY] * 2,
            *[Check.ACCOUNTING] * 2,
        ]
