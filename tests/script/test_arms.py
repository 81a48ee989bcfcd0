"""Arms become cases: the same ones everywhere, every pair of values among them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evseq.errors import UsageError
from evseq.script.arms import Selection, expand

ARMS = st.dictionaries(
    st.sampled_from(["padding", "chunk", "dtype", "cache", "n", "m"]),
    st.lists(st.integers(0, 9) | st.sampled_from(["left", "right", "whole"]), min_size=1, max_size=6, unique=True),
    max_size=5,
)


def pairs(case: dict[str, int | str]) -> set[tuple[tuple[str, int | str], ...]]:
    return set(itertools.combinations(case.items(), 2))


class TestPairwise:
    @given(ARMS)
    def test_every_pair_of_values_is_covered(self, arms: dict[str, list[int | str]]) -> None:
        covered = set().union(*(pairs(case) for case in expand(arms, mode=Selection.PAIRWISE)))
        assert covered == set().union(*(pairs(case) for case in expand(arms, mode=Selection.ALL)))

    @given(ARMS)
    def test_every_value_is_covered(self, arms: dict[str, list[int | str]]) -> None:
        cases = expand(arms, mode="pairwise")
        assert {item for case in cases for item in case.items()} == {
            (name, value) for name, values in arms.items() for value in values
        }

    @given(ARMS)
    def test_the_first_case_has_every_first_value(self, arms: dict[str, list[int | str]]) -> None:
        assert expand(arms, mode="pairwise")[0] == {name: values[0] for name, values in arms.items()}

    @given(ARMS)
    def test_no_case_is_there_twice_and_all_stand_in_the_order_of_the_product(
        self, arms: dict[str, list[int | str]]
    ) -> None:
        chosen = expand(arms, mode="pairwise")
        assert list(chosen) == [case for case in expand(arms, mode="all") if case in chosen]

    def test_two_arms_give_their_product(self) -> None:
        assert expand({"a": ["x", "y"], "b": [1, 2]}) == (
            {"a": "x", "b": 1},
            {"a": "x", "b": 2},
            {"a": "y", "b": 1},
            {"a": "y", "b": 2},
        )

    def test_three_arms_of_two_values_need_four_cases(self) -> None:
        assert expand({"a": [0, 1], "b": [0, 1], "c": [0, 1]}) == (
            {"a": 0, "b": 0, "c": 0},
            {"a": 0, "b": 1, "c": 1},
            {"a": 1, "b": 0, "c": 1},
            {"a": 1, "b": 1, "c": 0},
        )

    def test_ten_arms_of_three_values_need_nineteen_cases(self) -> None:
        arms = {f"arm{n}": ["x", "y", "z"] for n in range(10)}
        assert len(expand(arms)) == 19

    def test_no_arms_are_one_case(self) -> None:
        assert expand({}) == ({},)

    def test_an_arm_without_values_gives_no_case(self) -> None:
        assert expand({"a": [1], "b": []}) == ()
        assert expand({"a": [1], "b": []}, mode="all") == ()


class TestLimits:
    def test_too_many_combinations_are_a_wrong_call(self) -> None:
        arms = {f"arm{n}": range(10) for n in range(6)}
        with pytest.raises(UsageError) as error:
            expand(arms, mode="all")
        assert str(error.value) == (
            "the arms have 1000000 combinations of values, at most 100000\n  help: give them fewer values"
        )

    def test_pairwise_needs_far_fewer(self) -> None:
        assert len(expand({f"arm{n}": range(10) for n in range(6)})) < 200

    def test_too_many_pairs_are_a_wrong_call(self) -> None:
        with pytest.raises(UsageError) as error:
            expand({"a": range(1000), "b": range(1000)})
        assert str(error.value) == (
            "the arms have 1000000 pairs of values, at most 100000\n  help: give them fewer values"
        )

    def test_an_unknown_selection_is_a_wrong_call(self) -> None:
        with pytest.raises(UsageError) as error:
            expand({}, mode="pairs")
        assert str(error.value) == (
            "no selection of arms 'pairs'\n  help: did you mean 'pairwise'? known: pairwise, all"
        )
