"""The smallest set of scripts is found from who caught what."""

from __future__ import annotations

from evseq.audit.cover import missed, smallest


def test_nothing_caught_needs_no_script() -> None:
    assert smallest({}) == ()
    assert smallest({"idle": set()}) == ()


def test_the_script_that_catches_most_is_taken_first() -> None:
    assert smallest({"one": {"a"}, "all": {"a", "b", "c"}, "two": {"b", "c"}}) == ("all",)


def test_among_equals_the_first_by_name_is_taken() -> None:
    assert smallest({"second": {"a", "b"}, "first": {"a", "b"}}) == ("first",)


def test_among_equals_the_cheapest_is_taken() -> None:
    caught = {"first": {"a", "b"}, "second": {"a", "b"}}

    assert smallest(caught, cost={"first": 3, "second": 2}) == ("second",)


def test_fewer_scripts_are_better_than_cheaper_ones() -> None:
    caught = {"all": {"a", "b"}, "one": {"a"}, "two": {"b"}}

    assert smallest(caught, cost={"all": 9, "one": 1, "two": 1}) == ("all",)


def test_of_what_is_needless_the_dearest_is_left_out() -> None:
    caught = {"dear": {"a", "b", "c"}, "left": {"a", "b", "d"}, "right": {"c", "e"}}

    assert smallest(caught, cost={"dear": 9}) == ("left", "right")


def test_a_fault_that_only_one_script_catches_brings_that_script() -> None:
    assert smallest({"broad": {"a", "b", "c"}, "other": {"b", "c"}, "rare": {"d"}}) == ("broad", "rare")


def test_what_later_ones_make_needless_is_left_out() -> None:
    caught = {"middle": {"b", "c", "d", "e"}, "left": {"a", "b", "c"}, "right": {"d", "e", "f"}}

    assert smallest(caught) == ("left", "right")


def test_what_a_set_misses_is_told() -> None:
    assert missed({"one": {"a"}, "two": {"b"}}, besides={"a", "b", "c", "d"}) == {"c", "d"}
    assert missed({}, besides={"a"}) == {"a"}
