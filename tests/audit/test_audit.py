"""A small audit, from the faults to the report: three faults, three scripts."""

from __future__ import annotations

import os
import signal

import pytest

from evseq.audit.audit import Audit, Settings, audit
from evseq.audit.healthy import Sound
from evseq.audit.report import as_data
from evseq.audit.trial import Tried
from evseq.faults.catalogue import FAULTS
from evseq.verdict.result import Check, Exit

FULL = "reference:full"

THREE = ("guard-names-next-place", "tile-edge-unseen", "later-layers-not-selected")

SCRIPTS = ("greedy-continuation", "half-precision", "refused-prefix-token")

SMALL = Settings(faults=THREE, scripts=SCRIPTS, beside=())


class Watch:
    def __init__(self, *, stop_after: int = 99) -> None:
        self.planned_trials = 0
        self.ended: list[str] = []
        self.stop_after = stop_after

    def planned(self, trials: int) -> None:
        self.planned_trials = trials

    def finished(self, ended: Tried | Sound) -> None:
        self.ended.append(ended.fault if isinstance(ended, Tried) else ended.target)
        if len(self.ended) == self.stop_after:
            os.kill(os.getpid(), signal.SIGINT)


def audited(settings: Settings = SMALL, *, named: tuple[str, ...] = (FULL,), watch: Watch | None = None) -> Audit:
    return audit(named, settings, suite=("absent", *SCRIPTS), watch=watch or Watch())


@pytest.fixture(scope="module")
def small() -> Audit:
    return audited()


def test_faults_are_killed_or_survive(small: Audit) -> None:
    assert small.survivors == ("tile-edge-unseen",)
    assert small.killed == 2
    assert small.exit is Exit.FAILED


def test_who_turned_red_is_told(small: Audit) -> None:
    guard, unseen, unselected = small.tried

    assert [(red.script, red.event, red.check) for red in guard.reds] == [
        ("refused-prefix-token", "reload", Check.REFUSAL)
    ]
    assert unseen.reds == ()
    assert [red.script for red in unselected.reds] == ["half-precision"]


def test_a_script_that_catches_nothing_is_idle(small: Audit) -> None:
    assert small.idle_scripts == ("greedy-continuation",)
    assert Check.REFUSAL not in small.idle_checks
    assert Check.CONTINUITY in small.idle_checks


def test_the_healthy_engine_is_silent(small: Audit) -> None:
    assert small.false_alarms == ()
    assert small.healthy_cases > 20
    assert [one.target for one in small.sound] == [FULL]


def test_the_cheapest_cases_are_found(small: Audit) -> None:
    assert small.picking.cheapest() == ("half-precision", "refused-prefix-token")


def test_with_quick_the_cases_of_the_quick_set_are_played_until_one_is_red() -> None:
    settings = Settings(faults=("later-layers-not-selected", "guard-without-salt"), quick=True)
    scripts = ("beams-after-reload", "forged-records", "refused-prefix-token")

    ended = audit((FULL,), settings, suite=scripts, watch=Watch())

    assert [[red.script for red in one.reds] for one in ended.tried] == [["beams-after-reload"], ["forged-records"]]
    assert [one.cases for one in ended.tried] == [1, 2]
    assert ended.healthy_cases == 3
    assert (ended.shipped, ended.whole, ended.exit) == (True, False, Exit.PASSED)


def test_what_a_filter_left_is_not_the_whole(small: Audit) -> None:
    assert not small.whole
    assert small.stale is None


def test_healthy_targets_meet_other_rows_too() -> None:
    ended = audited(Settings(faults=("guard-names-next-place",), scripts=("half-precision",), beside=(), seeds=1))

    assert [one.target for one in ended.sound] == [FULL, FULL, FULL]
    assert ended.healthy_cases == 3 * ended.sound[0].cases
    assert ended.false_alarms == ()


def test_workers_give_the_same_in_the_same_order(small: Audit) -> None:
    shared = audited(Settings(faults=THREE, scripts=SCRIPTS, beside=(), workers=2))

    expected, actual = as_data(small), as_data(shared)
    assert {**actual, "seconds": 0} == {**expected, "seconds": 0}


def test_an_interrupt_keeps_what_is_done() -> None:
    watch = Watch(stop_after=2)

    ended = audited(Settings(faults=THREE, scripts=("greedy-continuation",), beside=()), watch=watch)

    assert watch.planned_trials == 4
    assert ended.interrupted
    assert ended.exit is Exit.INTERRUPTED
    assert [one.target for one in ended.sound] == [FULL]
    assert [one.fault for one in ended.tried] == ["guard-names-next-place"]


def test_faults_that_cannot_show_are_set_apart() -> None:
    ended = audited(Settings(faults=("rolled-too-early",), scripts=("half-precision",), beside=()))

    assert ended.apart == {"rolled-too-early": "no layer of this target has a window"}
    assert ended.exit is Exit.NOTHING


def test_without_filters_on_the_reference_engine_it_is_whole() -> None:
    ended = audited(Settings(), named=("reference",), watch=Watch(stop_after=1))

    assert ended.whole
    assert ended.scripts == ("absent", *SCRIPTS)


def test_every_fault_that_shows_there_is_tried_if_none_is_named() -> None:
    shown = [fault for fault in FAULTS.values() if any(target.startswith("reference:") for target in fault.shows)]
    watch = Watch(stop_after=1)

    audited(Settings(scripts=("half-precision",)), named=("reference",), watch=watch)

    assert watch.planned_trials == 5 + len(shown)
