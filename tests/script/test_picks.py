"""Picks: cases of a script, told so that they mean something on every target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from evseq.geometry import Capability, Deciding, Description
from evseq.script.cases import CaseArms, cases, pick
from evseq.script.picks import Pick, read_pick
from planning import FULL, decoder, script

ARMS = "padding: [left, right], cache: all, dtype: [float64, float32]"


def ids(*lines: str, on: Description | None = FULL, only: Mapping[str, Sequence[str]] | None = None) -> list[str]:
    what = replace(script("prefill: [a]", arms=ARMS), picks=tuple(map(read_pick, lines)))
    return [case.id for case in cases(what, on, only=only)]


def picked(arms: dict[str, int | str], *, all_arms: str = ARMS) -> str:
    what = script("prefill: [a]", arms=all_arms)
    return str(pick(what, CaseArms(arms=arms), FULL, engine="reference"))


class TestText:
    @pytest.mark.parametrize("text", ["fork-chain", "fork-chain cache=all", "pool-blocks kept=2*block asked=block+1"])
    def test_it_is_read_as_it_is_written(self, text: str) -> None:
        assert str(read_pick(text)) == text

    def test_arms_are_told_by_name(self) -> None:
        assert read_pick("pads-swept padding=right cache=all") == Pick(
            script="pads-swept", arms={"padding": "right", "cache": "all"}
        )


class TestCases:
    def test_every_arm_is_at_its_first_value(self) -> None:
        assert ids("case") == ["left-growing-float64"]

    def test_an_arm_that_is_told_is_at_that_value(self) -> None:
        assert ids("case padding=right dtype=float32") == ["right-growing-float32"]

    def test_all_is_every_value(self) -> None:
        assert ids("case cache=all") == ["left-growing-float64", "left-ring-float64"]

    def test_several_picks_of_a_script_are_played_once(self) -> None:
        assert ids("case", "case cache=all", "case padding=right") == [
            "left-growing-float64",
            "left-ring-float64",
            "right-growing-float64",
        ]

    def test_the_dtype_is_the_one_that_decides(self) -> None:
        assert ids("case", on=replace(FULL, deciding=Deciding.SINGLE)) == ["left-growing-float32"]

    def test_what_the_target_does_not_take_is_the_first_that_it_does(self) -> None:
        assert ids("case cache=blocks") == ["left-growing-float64"]

    def test_an_option_of_another_engine_means_nothing(self) -> None:
        assert ids("case transformers.attention=eager") == ["left-growing-float64"]

    def test_an_arm_that_a_filter_names_has_all_of_its_values(self) -> None:
        assert ids("case padding=right", only={"dtype": ("float64", "float32")}) == [
            "right-growing-float64",
            "right-growing-float32",
        ]

    def test_without_a_target_they_are_those_that_a_script_can_be_wrong_about(self) -> None:
        assert ids("case", on=None) == [""]

    def test_the_mode_says_nothing_about_them(self) -> None:
        what = replace(script("prefill: [a]", arms=ARMS), picks=(read_pick("case"),))

        assert [case.id for case in cases(what, FULL, mode="all")] == ["left-growing-float64"]


class TestPick:
    def test_first_values_and_the_dtype_that_decides_are_left_out(self) -> None:
        assert picked({"padding": "left", "cache": "growing", "dtype": "float64"}) == "x"

    def test_what_is_otherwise_is_told(self) -> None:
        assert picked({"padding": "right", "cache": "growing", "dtype": "float32"}) == ("x padding=right dtype=float32")

    def test_a_kind_that_the_script_leaves_to_the_target_is_one_of_all(self) -> None:
        assert picked({"padding": "left", "cache": "ring", "dtype": "float64"}) == "x cache=all"

    def test_a_kind_that_the_script_names_is_told(self) -> None:
        assert picked({"cache": "blocks"}, all_arms="cache: [quantised, blocks]") == "x cache=blocks"

    def test_what_every_case_has_besides_is_no_matter(self) -> None:
        assert picked({"padding": "left", "cache": "growing", "dtype": "float64", "positions": "given"}) == "x"

    def test_an_arm_that_collapses_on_the_target_is_at_its_first_value(self) -> None:
        what = script("prefill: [a]", arms="padding: {values: [left, holes], when: [holes]}")
        on = decoder(without=[Capability.HOLES])

        assert str(pick(what, CaseArms(arms={"padding": "left"}), on, engine="reference")) == "x"


class TestHolds:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("a", "a"),
            ("a cache=all", "a"),
            ("a cache=all", "a cache=ring"),
            ("a cache=all by=2", "a by=2"),
        ],
    )
    def test_every_case_of_the_other_is_one_of_it(self, one: str, other: str) -> None:
        assert read_pick(one).holds(read_pick(other))

    @pytest.mark.parametrize(
        ("one", "other"),
        [("a", "b"), ("a", "a cache=all"), ("a cache=all", "a cache=all by=2"), ("a by=2", "a by=3")],
    )
    def test_some_are_not(self, one: str, other: str) -> None:
        assert not read_pick(one).holds(read_pick(other))
