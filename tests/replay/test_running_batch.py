"""Rows that draft, leave and join while a batch runs: played here and in a fresh process, kept and judged again."""

from __future__ import annotations

from pathlib import Path

from evseq import pipeline
from evseq.verdict.result import Outcome
from playing import first, played, recorded

ROWS = """\
rows:
  a: {random: {length: 12, seed: 1}}
  b: {random: {length: 9, seed: 2}}
  c: {random: {length: 8, seed: 3}}
"""

BATCH = f"""\
{ROWS}events:
  - prefill: {{rows: {{a: 5, b: 2}}}}
  - repeat:
      times: 2
      events:
        - speculate: {{next: 2, accept: {{a: 1, b: 0}}}}
        - append: {{next: 1, expect: loud}}
  - join: {{rows: {{c: 3}}}}
  - append: {{next: 1}}
  - retire: {{rows: [a]}}
  - append: {{next: 1}}
"""

ELSEWHERE = f"""\
{ROWS}events:
  - prefill: {{rows: {{a: 5, b: 2}}}}
  - serialize: {{to: mid}}
  - reload: {{from: mid, as: there, process: fresh}}
  - retire: {{rows: [b], on: there}}
  - join: {{rows: {{c: 7}}, on: there}}
  - append: {{next: 1, on: there}}
"""

GROWN = f"""\
{ROWS}events:
  - prefill: {{rows: {{a: 5, b: 2}}}}
  - beam-select: {{x: a, y: b, z: a}}
  - append: {{ids: {{x: [1], y: [2], z: [3]}}}}
  - mutate-prefix-token: {{row: x, index: 2, token: 17}}
  - reuse: {{from: main, as: again, expect: {{reused: {{most: 11}}}}}}
  - append: {{ids: {{x: [4], y: [5], z: [6]}}, on: again}}
  - retire: {{rows: [x, y]}}
  - mutate-prefix-token: {{row: z, index: 2, token: 17}}
  - reuse: {{from: main, as: alone, expect: {{reused: {{most: 2}}}}}}
  - append: {{ids: {{z: [7]}}, on: alone}}
""".replace("  c: {random: {length: 8, seed: 3}}\n", "")


def test_what_is_not_reused_of_a_batch_is_fed_to_as_many_rows_as_it_has_by_then() -> None:
    assert first(played(GROWN, "transformers:new/llama")) == ""


def test_a_healthy_engine_is_green_and_every_drafted_token_is_observed() -> None:
    recording = recorded(BATCH, "reference:window")
    assert first(played(BATCH, "reference:window")) == ""
    assert [(fed.session, len(fed.nodes)) for fed in recording.fed] == [
        ("main", 7),
        *[("main", 4), ("main", 2)] * 2,
        ("main, joining", 3),
        ("main", 3),
        ("main", 2),
    ]


def test_rows_join_where_their_session_lives() -> None:
    assert first(played(ELSEWHERE, "reference:full")) == ""


def test_what_is_tolerated_in_a_round_is_told_with_its_round() -> None:
    (case,) = played(BATCH, "reference:full").cases
    assert [note.message for note in case.notes if note.kind == "loud"] == [
        "append of event 2 of event 2, round 1: right",
        "append of event 2 of event 2, round 2: right",
    ]


def test_kept_and_judged_again_it_is_the_same(tmp_path: Path) -> None:
    for target, outcome in (
        ("reference:window", Outcome.PASSED),
        ("planted.serving:rejected_still_seen", Outcome.FAILED),
    ):
        folder = tmp_path / outcome
        result = played(BATCH, target, record=folder)
        (file,) = folder.rglob("*.safetensors")
        assert {case.outcome for case in result.cases} == {outcome}
        assert repr(pipeline.judge(file).cases) == repr(result.cases)


def test_rows_that_cannot_be_prefilled_take_the_batch_with_them() -> None:
    recording = recorded(BATCH, "planted.serving:cannot_prefill_one")
    (failure,) = recording.failures
    assert (failure.session, failure.error) == ("main, joining", "RuntimeError: out of memory")
    assert recording.skipped == 4  # the join, two appends and a retirement


def test_an_engine_whose_join_raises_is_red_there_and_nothing_else_is_blamed() -> None:
    result = played(BATCH, "planted.serving:cannot_join")
    ((finding,),) = [case.findings for case in result.cases]
    assert finding.event == "join"
