"""Which arms of a script run on a target: selected, filtered, or collapsed where they mean nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evseq.errors import UsageError
from evseq.geometry import Capability, Description
from evseq.script.arms import Arm
from evseq.script.cases import CaseArms, cases, lacking
from evseq.script.document import Script
from planning import FULL, decoder, script


def ids(
    arms: str,
    *events: str,
    on: Description | None = FULL,
    engine: str = "reference",
    mode: str = "pairwise",
    only: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    what = script("prefill: [a]", *events, arms=arms)
    return [case.id for case in cases(what, on, engine=engine, mode=mode, only=only)]


class TestOnATarget:
    def test_a_script_without_arms_is_one_case(self) -> None:
        assert ids("") == [""]

    def test_the_first_case_has_every_arms_first_value(self) -> None:
        assert ids("padding: [right, left], dtype: [float32, float64]")[0] == "right-float32"

    def test_all_takes_the_product_and_pairwise_only_pairs(self) -> None:
        arms = "padding: [left, right], chunk: [1, 2], dtype: [float64, float32]"
        assert (len(ids(arms, mode="all")), len(ids(arms))) == (8, 4)

    def test_every_cache_is_every_kind_of_the_target(self) -> None:
        assert ids("cache: all") == ["growing", "ring"]

    def test_named_caches_are_taken_as_they_are(self) -> None:
        assert ids("cache: [ring, paged]") == ["ring", "paged"]

    def test_options_of_this_engine_stay(self) -> None:
        assert ids("reference.attention: [eager, flash]") == ["eager", "flash"]

    def test_options_of_other_engines_collapse(self) -> None:
        assert ids("dtype: [float64], transformers.attention: [eager, sdpa]") == ["float64"]

    def test_an_arm_whose_capability_is_missing_keeps_its_first_value(self) -> None:
        arms = "padding: {values: [left, holes], when: [holes]}, n: {values: [1, 2], when: [batch]}"
        on = decoder(without=[Capability.HOLES])
        assert ids(arms, "append: {next: n}", on=on) == ["left-1", "left-2"]

    @pytest.mark.parametrize(
        ("arm", "first"),
        [
            ("cache: {values: [ring, growing], when: [ragged]}", ["ring"]),
            ("cache: {values: all, when: [ragged]}", ["growing"]),
            ("reference.attention: {values: [sdpa, eager], when: [ragged]}", ["sdpa"]),
        ],
    )
    def test_every_kind_of_arm_may_have_a_condition(self, arm: str, first: list[str]) -> None:
        assert ids(arm, on=decoder(without=[Capability.RAGGED])) == first

    def test_each_line_of_a_file_is_a_case(self, tmp_path: Path) -> None:
        (tmp_path / "cases.txt").write_text("[1, 2]\n\n[3]\n", encoding="utf-8")
        what = script("prefill: [a]", rows="a: {each: cases.txt}", arms="dtype: [float64]", file=str(tmp_path / "x"))
        assert [dict(case.arms) for case in cases(what, FULL)] == [
            {"dtype": "float64", "a": 1},
            {"dtype": "float64", "a": 2},
        ]


class TestOnly:
    def test_named_values_of_an_arm_are_kept_in_its_order(self) -> None:
        assert ids("chunk: [whole, 1, 2]", only={"chunk": ("2", "whole")}) == ["whole", "2"]

    def test_an_arm_without_a_value_left_gives_no_cases(self) -> None:
        assert ids("chunk: [whole, 1]", only={"chunk": ("3",)}) == []

    def test_a_cache_of_all_is_narrowed(self) -> None:
        assert ids("cache: all", only={"cache": ("ring",)}) == ["ring"]

    def test_a_condition_stays_when_values_are_kept(self) -> None:
        arm = "padding: {values: [left, right, holes], when: [holes]}"
        on = decoder(without=[Capability.HOLES])
        assert ids(arm, on=on, only={"padding": ("right", "holes")}) == ["right"]

    def test_an_arm_of_evseq_that_the_script_does_not_have_is_added(self) -> None:
        what = script("prefill: [a]")
        only = {"chunk": ("2", "whole"), "dtype": ("float32",)}
        assert [dict(case.arms) for case in cases(what, FULL, only=only)] == [
            {"chunk": 2, "dtype": "float32"},
            {"chunk": "whole", "dtype": "float32"},
        ]

    def test_an_option_of_the_engine_is_added_and_of_another_is_not(self) -> None:
        only = {"reference.attention": ("eager",), "other.attention": ("x",)}
        assert ids("", only=only) == ["eager"]

    def test_an_arm_that_only_other_scripts_have_is_left_out(self) -> None:
        assert ids("dtype: [float64]", only={"step": ("1",)}) == ["float64"]

    def test_an_added_value_that_is_none_is_a_wrong_call(self) -> None:
        with pytest.raises(UsageError) as error:
            ids("", only={"padding": ("letf", "right")})
        assert str(error.value) == (
            "arm 'padding': 'letf' is none of its values\n  help: did you mean 'left'? known: left, right, holes"
        )


class TestWithoutATarget:
    def test_what_no_script_can_be_wrong_about_collapses(self) -> None:
        arms = "dtype: [float64, float32], cache: [x, y], positions: [given, engine], reference.attention: [a, b]"
        assert ids(arms, on=None) == [""]

    def test_where_slots_are_not_limited_their_shape_collapses(self) -> None:
        assert ids("padding: [left, holes], chunk: [whole, 2]", on=None) == [""]

    def test_a_capacity_makes_every_shape_matter(self) -> None:
        shapes = ids("padding: [left, holes], chunk: [whole, 2], capacity: [9]", on=None, mode="all")
        assert shapes == ["left-whole-9", "left-2-9", "holes-whole-9", "holes-2-9"]

    @pytest.mark.parametrize("use", ["append: {next: 2*chunk-1}", "append: {next: n}", "crop: {by: {a: chunk}}"])
    def test_a_chunk_that_is_a_number_somewhere_matters(self, use: str) -> None:
        assert ids("chunk: [1, 2], n: [chunk]", use, "append: {next: n}", on=None, mode="all") == ["1-chunk", "2-chunk"]

    def test_an_arm_of_the_authors_own_matters(self) -> None:
        assert ids("dtype: [float64, float32], n: [1, 2]", "append: {next: n}", on=None) == ["1", "2"]

    def test_a_script_that_was_made_keeps_its_shapes(self) -> None:
        made = Script(name="x", about="x", rows={}, arms={"padding": Arm(values=("left", "right"))}, events=())
        assert [case.id for case in cases(made, None)] == ["left", "right"]

    @given(
        st.fixed_dictionaries(
            {},
            optional={
                "padding": st.lists(st.sampled_from(["left", "right", "holes"]), min_size=1, unique=True),
                "chunk": st.lists(st.sampled_from([1, 2, "whole", "window"]), min_size=1, unique=True),
                "dtype": st.lists(st.sampled_from(["float64", "float32"]), min_size=1, unique=True),
                "n": st.lists(st.integers(1, 4), min_size=1, unique=True),
            },
        )
    )
    def test_no_case_is_lost_but_by_collapsing(self, arms: dict[str, list[int | str]]) -> None:
        what = script("prefill: [a]")
        every = Script(
            name="x",
            about="x",
            rows=what.rows,
            arms={name: Arm(values=tuple(values)) for name, values in arms.items()},
            events=what.events,
            source=what.source,
        )
        left = [dict(case.arms) for case in cases(every, None, mode="all")]
        full = [dict(case.arms) for case in cases(every, FULL, mode="all")]
        kept = [name for name in arms if name == "n"]
        assert left == list({tuple(c[n] for n in kept): {n: c[n] for n in kept} for c in full}.values())


class TestLacking:
    @pytest.mark.parametrize(
        ("needs", "on", "reason"),
        [
            ("window", decoder(None, None), "needs a windowed layer"),
            ("window", decoder(None, 1), "needs a window of at least 2"),
            ("window", decoder(None, 2), None),
            ("full", decoder(None, 5), "needs a decoder without windows"),
            ("ragged", decoder(without=[Capability.RAGGED]), "needs ragged"),
            ("window, ragged", decoder(5), None),
            ("full, crop", decoder(None), None),
        ],
    )
    def test_what_a_script_needs_is_looked_for(self, needs: str, on: Description, reason: str | None) -> None:
        assert lacking(script("prefill: [a]", needs=needs), on) == reason


def test_a_case_is_shown_by_its_values() -> None:
    assert CaseArms(arms={"padding": "left", "n": 2}).id == "left-2"
