"""The quick set is found from what every fault was caught by, and held to the one that ships."""

from __future__ import annotations

import pytest

from evseq.audit.healthy import Sound
from evseq.audit.picking import BESIDES, Picking
from evseq.audit.trial import Red, Tried
from evseq.script.picks import read_pick
from evseq.verdict.result import Check


def red(pick: str, *, meant: int = 1) -> Red:
    script = pick.partition(" ")[0]
    return Red(
        script=script,
        place=f"{script}.evseq.yaml:12:5",
        event="append",
        check=Check.PARITY,
        checks=(Check.PARITY,),
        ratio=3e5,
        case=f"{script}[left]",
        red=1,
        played=1,
        pick=pick,
        meant=meant,
    )


def tried(fault: str, *reds: Red) -> Tried:
    return Tried(fault=fault, target="reference:full", arms={}, dtype="float64", reds=reds, beside={}, cases=4)


def sound(**forwards: int) -> Sound:
    return Sound(target="reference:full", cases=9, alarms=(), largest={}, forwards=forwards)


FROM = Picking(
    tried=(
        tried("one", red("short"), red("long")),
        tried("two", red("long"), red("short cache=all", meant=3)),
        tried("three", red("long cache=all", meant=3), red("sweep by=2")),
        tried("four"),
    ),
    sound=(sound(short=5, long=90, sweep=20), sound(short=7, long=80)),
)


def ships(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr("evseq.audit.picking.quick", lambda: tuple(map(read_pick, lines)))


def test_a_pick_catches_what_those_catch_that_it_holds() -> None:
    assert FROM.caught == {
        "long": {"one", "two"},
        "long cache=all": {"one", "two", "three"},
        "short": {"one"},
        "short cache=all": {"one", "two"},
        "sweep by=2": {"three"},
    }


def test_each_of_its_cases_costs_forwards_on_the_target_that_takes_most() -> None:
    assert FROM.costs == {
        "long": BESIDES + 90,
        "long cache=all": 3 * (BESIDES + 90),
        "short": BESIDES + 7,
        "short cache=all": 3 * (BESIDES + 7),
        "sweep by=2": BESIDES + 20,
    }


def test_the_cheapest_that_catch_all_are_chosen() -> None:
    assert FROM.cheapest() == ("short cache=all", "sweep by=2")


def test_what_is_kept_stays_and_only_what_it_misses_is_added() -> None:
    assert FROM.cheapest(["elsewhere", "long"]) == ("elsewhere", "long", "sweep by=2")


class TestStale:
    def test_the_cheapest_is_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ships(monkeypatch, "short cache=all", "sweep by=2")

        assert FROM.stale is None

    def test_one_that_misses_a_fault_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ships(monkeypatch, "long")

        assert FROM.stale == "it misses three"

    def test_one_that_costs_far_more_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ships(monkeypatch, "long cache=all")

        assert FROM.stale == "it costs 300 forwards, 81 do"

    def test_one_that_has_a_little_more_for_another_engine_is_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ships(monkeypatch, "elsewhere", "short cache=all", "sweep by=2")

        assert FROM.stale is None
