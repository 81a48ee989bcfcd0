"""Repeats: events written once and done over and over."""

from __future__ import annotations

from textwrap import dedent

import pytest

from evseq.errors import ScriptError
from evseq.script.document import Script, parse, unparse
from evseq.script.events import Append, Probe, Repeat
from evseq.script.lower import check
from evseq.script.source import parse_yaml
from evseq.script.turns import MAX_TURNS
from planning import feeds, planned, script, told

HEAD = """\
evseq: 1
name: x
about: X.
rows:
  a: [1, 2, 3, 4, 5, 6, 7, 8]
"""


def read(events: str) -> Script:
    return parse(parse_yaml(HEAD + dedent(events), file="x.evseq.yaml"))


class TestPlan:
    def test_every_round_goes_on_where_the_one_before_ended(self) -> None:
        what = script("prefill: {rows: {a: 2}}", "repeat: {times: 3, events: [append: {next: 1}, probe]}")
        assert [feed.tokens for feed in feeds(planned(what))[1:]] == [((12,),), ((13,),), ((14,),)]

    def test_a_step_knows_its_event_and_its_round(self) -> None:
        inner = "repeat: {times: 2, events: [append: {next: 1}]}"
        plan = planned(script("prefill: {rows: {a: 2}}", f"repeat: {{times: 2, events: [probe, {inner}]}}"))
        turns = [plan.turns[feed.event] for feed in feeds(plan)]
        assert [turn.round for turn in turns] == [None, "1.1", "1.2", "2.1", "2.2"]
        assert {turn.path for turn in turns[1:]} == {("events", 1, "repeat", "events", 1, "repeat", "events", 0)}

    def test_rounds_may_be_an_arm_or_a_number_word(self) -> None:
        what = script(
            "prefill: {rows: {a: 1}}",
            "repeat: {times: n, events: [append: {next: 1}]}",
            "repeat: {times: chunk+1, events: [append: {next: 1}]}",
            arms="n: [1, 3], chunk: [2]",
        )
        assert [len(feeds(planned(what, arms={"n": n, "chunk": 2}))) for n in (1, 3)] == [1 + 1 + 3, 1 + 3 + 3]

    def test_rounds_that_only_a_target_knows_leave_nothing_certain_behind(self) -> None:
        what = script(
            "prefill: {rows: {a: 1}}",
            "repeat: {times: window, events: [append: {next: 1}]}",
            "crop: {to: 3}",
            "append: {next: 1}",
            needs="window",
        )
        assert told(what) == []

    def test_a_file_is_saved_anew_in_every_round(self) -> None:
        rounds = "[serialize: {to: f}, drop, reload: {from: f}, append: {next: 1}]"
        what = script("prefill: {rows: {a: 2}}", f"repeat: {{times: 2, events: {rounds}}}")
        assert [feed.indices for feed in feeds(planned(what))[1:]] == [((2,),), ((3,),)]

    def test_what_is_right_in_every_round_is_right(self) -> None:
        rounds = "[fork: {as: twin}, append: {ids: {a: [1]}, on: twin}, drop: {on: twin}]"
        assert told(script("prefill: {rows: {a: 2}}", f"repeat: {{times: 9, events: {rounds}}}")) == []

    def test_a_fault_of_every_round_is_told_once(self) -> None:
        what = script("prefill: {rows: {a: 2}}", "repeat: {times: 9, events: [append: {next: 1, rows: [d]}]}")
        assert told(what) == ["9:58 append: no row 'd' in session 'main' | rows here: a"]

    def test_there_is_an_end_to_it(self) -> None:
        rounds = "repeat: {times: 100, events: [append: {ids: {a: [1]}}]}"
        what = script("prefill: {rows: {a: 1}}", f"repeat: {{times: {MAX_TURNS}, events: [{rounds}]}}")
        (line,) = told(what)
        assert f"repeat: makes more than {MAX_TURNS} events of this script" in line


class TestNormalForm:
    def test_a_repeat_is_a_block_and_keeps_its_comments(self) -> None:
        written = """\
        events:
          - prefill: [a]
          # rounds
          - repeat: {times: 2, events: [probe, append: {ids: {a: [1]}}]}
          - repeat:
              times: 2
              events:
                # first
                - append: {ids: {a: [2]}}  # one
                - repeat: {times: 3, events: [append: {ids: {a: [3]}}]}
          # last
          - probe
        """
        normal = """\
        events:
          - prefill: [a]
          # rounds
          - repeat:
              times: 2
              events:
                - probe
                - append: {ids: {a: [1]}}
          - repeat:
              times: 2
              events:
                # first
                - append: {ids: {a: [2]}}  # one
                - repeat:
                    times: 3
                    events:
                      - append: {ids: {a: [3]}}
          # last
          - probe
        """
        assert unparse(read(written)) == HEAD + dedent(normal)
        assert unparse(read(normal)) == HEAD + dedent(normal)

    def test_its_events_are_those_of_the_language(self) -> None:
        (_, repeat) = read("events: [prefill: [a], repeat: {times: 2, events: [probe, append: {next: 1}]}]\n").events
        assert repeat == Repeat(times=2, events=[Probe(), Append(next=1)])


def test_an_arm_that_only_a_round_uses_is_used() -> None:
    check(
        read("arms: {n: [1, 2]}\nevents: [prefill: {rows: {a: 1}}, repeat: {times: n, events: [append: {next: n}]}]\n")
    )


def test_a_row_that_only_a_round_feeds_is_fed() -> None:
    rounds = "repeat: {times: 2, events: [prefill: {rows: {a: 2}, as: one}, drop: {on: one}]}"
    check(read(f"events: [{rounds}]\n"))


def test_all_faults_inside_are_told_with_those_outside() -> None:
    with pytest.raises(ScriptError) as error:
        read("events: [prefil: [a], repeat: {times: 2, events: [prob, apend: {next: 1}]}]\n")
    assert [problem.message for problem in error.value.problems] == [
        "unknown event 'prefil'",
        "unknown event 'prob'",
        "unknown event 'apend'",
    ]
