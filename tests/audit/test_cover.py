"""The cheapest set is found from who caught what."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from evseq.audit.cover import missed, smallest


def chosen(caught: Mapping[str, AbstractSet[str]], **cost: int) -> tuple[str, ...]:
    return smallest(caught, cost=dict.fromkeys(caught, 1) | cost)


def test_nothing_caught_needs_nothing() -> None:
    assert chosen({}) == ()
    assert chosen({"idle": set()}) == ()


def test_what_catches_most_is_taken_first() -> None:
    assert chosen({"one": {"a"}, "all": {"a", "b", "c"}, "two": {"b", "c"}}) == ("all",)


def test_among_equals_the_first_by_its_text_is_taken() -> None:
    assert chosen({"second": {"a", "b"}, "first": {"a", "b"}}) == ("first",)


def test_among_those_that_catch_as_much_the_cheapest_is_taken() -> None:
    assert chosen({"first": {"a", "b"}, "second": {"a", "b"}}, first=3, second=2) == ("second",)


def test_many_cheap_ones_are_better_than_a_dear_one() -> None:
    assert chosen({"all": {"a", "b"}, "one": {"a"}, "two": {"b"}}, all=9) == ("one", "two")


def test_one_is_better_than_many_that_cost_more() -> None:
    assert chosen({"all": {"a", "b"}, "one": {"a"}, "two": {"b"}}, all=9, one=5, two=5) == ("all",)


def test_of_what_is_needless_the_dearest_is_left_out() -> None:
    caught = {"dear": {"a", "b", "c", "d", "e", "f"}, "left": {"a", "b", "x"}, "right": {"c", "d", "e", "f", "y"}}

    assert chosen(caught, dear=4) == ("left", "right")


def test_a_fault_that_only_one_catches_brings_that_one() -> None:
    assert chosen({"broad": {"a", "b", "c"}, "other": {"b", "c"}, "rare": {"d"}}) == ("broad", "rare")


def test_what_later_ones_make_needless_is_left_out() -> None:
    caught = {"middle": {"b", "c", "d", "e"}, "left": {"a", "b", "c"}, "right": {"d", "e", "f"}}

    assert chosen(caught) == ("left", "right")


def test_what_is_kept_is_there_whatever_it_catches() -> None:
    caught = {"broad": {"a", "b", "c"}, "narrow": {"c"}, "rare": {"d"}}

    assert smallest(caught, cost=dict.fromkeys(caught, 1), kept=["narrow", "elsewhere"]) == (
        "broad",
        "elsewhere",
        "narrow",
        "rare",
    )


def test_what_is_kept_makes_others_needless() -> None:
    caught = {"broad": {"a", "b"}, "kept": {"a", "b"}, "rare": {"d"}}

    assert smallest(caught, cost=dict.fromkeys(caught, 1), kept=["kept"]) == ("kept", "rare")


def test_what_a_set_misses_is_told() -> None:
    assert missed({"one": {"a"}, "two": {"b"}}, besides={"a", "b", "c", "d"}) == {"c", "d"}
    assert missed({}, besides={"a"}) == {"a"}
