"""All cases of a script become plans that share one tree, or its problems are told once."""

from __future__ import annotations

import pytest

from evseq.errors import ScriptError
from evseq.geometry import Capability, Description, Positions
from evseq.script.cases import CaseArms
from evseq.script.document import Script
from evseq.script.lower import check, lower
from evseq.script.steps import Plan
from planning import FULL, decoder, feeds, script


def fault(what: Script, on: Description | None = None) -> list[str]:
    with pytest.raises(ScriptError) as error:
        check(what, on)
    return [f"{problem.place.line}:{problem.place.column} {problem.message}" for problem in error.value.problems]


class TestLower:
    def test_equal_histories_of_all_cases_are_one_node(self) -> None:
        what = script("prefill: {rows: {a: 3, b: 1}}")
        chosen = [CaseArms(arms={"padding": padding}) for padding in ("left", "right")]
        left, right = lower(what, chosen, description=FULL).plans
        assert isinstance(left, Plan)
        assert isinstance(right, Plan)
        assert set(feeds(left)[0].nodes[1]) == set(feeds(right)[0].nodes[1])

    def test_a_case_the_target_cannot_play_is_a_reason_among_the_others(self) -> None:
        what = script("prefill: {rows: {a: 3, b: 1}}")
        chosen = [CaseArms(arms={"padding": padding}) for padding in ("holes", "left")]
        reason, plan = lower(what, chosen, description=decoder(without=[Capability.HOLES])).plans
        assert reason == "needs holes"
        assert isinstance(plan, Plan)

    def test_a_script_that_lacks_what_it_needs_is_a_reason_in_every_case(self) -> None:
        what = script("prefill: {rows: {a: window}}", needs="window")
        assert lower(what, [CaseArms(arms={}), CaseArms(arms={})], description=FULL).plans == (
            "needs a windowed layer",
            "needs a windowed layer",
        )

    def test_arms_left_out_have_the_targets_own_values(self) -> None:
        (plan,) = lower(script("prefill: [a]"), [CaseArms(arms={})], description=FULL).plans
        assert isinstance(plan, Plan)
        assert plan.arms == {"dtype": "float64", "cache": "growing", "positions": "given"}
        assert plan.layouts[0].positions is Positions.GIVEN


class TestCheck:
    def test_a_possible_script_is_silent(self) -> None:
        check(script("prefill: {rows: {a: n}}", arms="n: [1, 8]"), FULL)

    def test_what_only_a_later_case_is_wrong_about_is_told(self) -> None:
        what = script("prefill: {rows: {a: n}}", arms="n: [1, 9]")
        assert fault(what) == ["8:25 prefill: row 'a' has 8 tokens, cannot feed 9"]

    def test_of_one_place_the_first_case_says_enough(self) -> None:
        what = script("prefill: {rows: {a: n}}", arms="n: [9, 10, 11]")
        assert fault(what) == ["8:25 prefill: row 'a' has 8 tokens, cannot feed 9"]

    def test_cases_that_are_wrong_in_other_places_are_all_told(self) -> None:
        what = script("prefill: {rows: {a: n, b: m}}", arms="n: [9, 1], m: [1, 9]")
        assert fault(what) == [
            "8:25 prefill: row 'a' has 8 tokens, cannot feed 9",
            "8:31 prefill: row 'b' has 5 tokens, cannot feed 9",
        ]

    def test_an_expectation_that_is_not_for_an_event_hides_nothing(self) -> None:
        what = script("prefill: {rows: {a: 2}, expect: {refused: salt}}", "probe: {on: x}")
        assert fault(what) == [
            "8:47 prefill: only a reload can expect `refused`",
            "9:17 probe: no live session 'x'",
        ]

    def test_an_impossible_row_is_told_once_and_nothing_after_it(self) -> None:
        what = script("prefill: {rows: {a: 99}}", rows="a: {random: {length: window, seed: 1}}")
        assert fault(what, FULL) == ["4:29 row 'a': 'window' has no value here"]

    def test_an_impossible_size_is_told_at_its_value(self) -> None:
        what = script("prefill: [a]", arms="chunk: [1, window-4]")
        assert fault(what, decoder(4)) == ["5:19 arm 'chunk': 'window-4' is 0 here"]
