"""What something can come of is not complained of; the folder `static` holds what nothing can come of."""

from __future__ import annotations

import pytest

from planning import script, told

SAVED = ("serialize: {to: saved}", "reload: {from: saved, as: again}", "probe: {on: again}")

LAST = ("serialize: {to: saved, on: twin}", "reload: {from: saved}", "probe")


@pytest.mark.parametrize(
    "events",
    [
        ["crop: {by: 1}", "append: {next: 1}"],
        ["crop: {by: 1}", "beam-select: {x: a}", "probe"],
        ["crop: {by: 1}", "fork: {as: twin}", "append: {next: 1, on: twin}", "drop"],
        ["crop: {by: 1}", *SAVED],
        ["crop: {by: 1}", "reuse: {from: main, as: twin}", "append: {next: 1, on: twin}"],
        ["crop: {by: 1}", "drop: {keep: buffers}", "prefill: [b]"],
        ["serialize: {to: saved}", "reload: {from: saved, expect: invalid}"],
        [*SAVED, "drop: {keep: buffers}", "append: {ids: {a: [1]}, on: again}", "prefill: [b]"],
        ["probe", "append: {next: 1}", "probe"],
        ["probe", "prefill: {rows: {b: 2}, as: other}", "probe", "probe: {on: other}"],
    ],
)
def test_what_shows_something_is_possible(events: list[str]) -> None:
    assert told(script("prefill: {rows: {a: 3}}", *events)) == []


@pytest.mark.parametrize(
    "events",
    [SAVED, ["fork: {as: twin}", "probe: {on: twin}", "drop", *LAST]],
    ids=["session", "fork"],
)
def test_a_salt_is_compared_where_a_file_is_asked_for(events: list[str]) -> None:
    assert told(script("prefill: {rows: {a: 3}, salt: pepper}", *events)) == []


def test_a_file_of_a_later_session_of_that_name_compares_another_salt() -> None:
    what = script("prefill: {rows: {a: 3}, salt: pepper}", "drop", "prefill: {rows: {a: 3}}", *SAVED)
    assert told(what) == [
        "8:35 prefill: nothing compares the salt 'pepper' | serialize and reload the session, or leave the salt out"
    ]


def test_a_row_that_another_arm_names_is_fed() -> None:
    what = script("prefill: [row]", rows="a: [1, 2], b: [3]", arms="row: [a, b]")
    assert told(what, arms={"row": "a"}) == []
