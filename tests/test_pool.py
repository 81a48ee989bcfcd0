"""The engine's pool: what ended is found again in whole blocks, and by no request it does not belong to."""

from __future__ import annotations

from pathlib import Path

import pytest

from evseq import pipeline
from evseq.replay.recording import Recording
from evseq.script.steps import Draw
from evseq.verdict.result import Case, Note
from playing import first, lines, played, recorded, without_numbers

HEAD = """\
rows:
  a: {random: {length: 12, seed: 1}}
  b: [17, 4, 59, 3, 8, 21, 40]
events:
"""

KEPT = f"""{HEAD}\
  - prefill: {{rows: {{a: 9, b: 5}}, salt: ours}}
  - drop: {{keep: pool}}
"""

AGAIN = f"""{KEPT}\
  - reuse: {{pool: true, as: again, rows: {{a: 9, b: 5}}, salt: ours}}
  - append: {{next: 2, on: again}}
"""

THEIRS = f"{KEPT}  - reuse: {{pool: true, as: other, rows: {{a: 9}}, salt: theirs}}\n"

CHANGED = f"""{KEPT}\
  - mutate-prefix-token: {{row: a, index: 6, token: 63}}
  - reuse: {{pool: true, as: changed, rows: {{a: 9}}, salt: ours}}
  - append: {{next: 2, on: changed}}
"""

WHOLE = f"{KEPT}  - reuse: {{pool: true, as: whole, rows: {{a: 8}}, salt: ours}}\n"

STALE = f"""{KEPT}\
  - mutate: {{field: FIELD}}
  - reuse: {{pool: true, as: stale, rows: {{a: 9}}, salt: ours, expect: {{refused: FIELD}}}}
  - restore: {{field: FIELD}}
  - reuse: {{pool: true, as: back, rows: {{a: 9}}, salt: ours, expect: {{reused: {{exactly: 8}}}}}}
"""

BOUND = f"{KEPT}  - reuse: {{pool: true, as: again, rows: {{a: 9}}, salt: ours, expect: {{reused: {{BOUND}}}}}}\n"


def drawn(recording: Recording) -> list[tuple[int, tuple[int, ...], int]]:
    """Return what the pool gave: columns, tokens by row, and what it forwarded meanwhile."""
    return [(one.columns, one.tokens, one.forwarded) for one in recording.drawn]


def notes(*cases: Case) -> list[Note]:
    return [note for case in cases for note in case.notes if note.kind in ("policy", "not forced")]


class TestHealthyPools:
    def test_whole_blocks_are_found_again_and_the_rest_is_fed(self) -> None:
        recording = recorded(AGAIN, "reference:full")

        fed = next(fed for fed in recording.fed if fed.session == "again")
        assert drawn(recording) == [(8, (8, 4), 0)]
        assert (fed.prefill, fed.columns, fed.forwarded, len(fed.nodes)) == (False, 2, 2, 2)
        assert played(AGAIN, "reference:window").passed

    def test_the_last_token_of_a_whole_prompt_is_fed_for_its_logits(self) -> None:
        recording = recorded(WHOLE, "reference:full")

        assert drawn(recording) == [(4, (4,), 0)]
        assert [fed.indices for fed in recording.fed if fed.session == "whole"] == [(4, 5, 6, 7)]

    def test_a_changed_token_is_fed_with_its_whole_block(self) -> None:
        assert drawn(recorded(CHANGED, "reference:full")) == [(4, (4,), 0)]
        assert played(CHANGED, "reference:window").passed

    def test_another_salt_gets_nothing_and_it_is_told_who_refused(self) -> None:
        result = played(THEIRS, "reference:full")

        assert result.passed
        assert drawn(recorded(THEIRS, "reference:full")) == [(0, (0,), 0)]
        assert notes(*result.cases) == [
            Note(
                kind="policy",
                message="salt: refused by the engine's pool; a salt separates caches of equal content on purpose, "
                "so no number can show it",
            )
        ]

    @pytest.mark.parametrize("field", ["weights.live", "model.adapters", "window.policy", "numeric.attention"])
    def test_another_model_gets_nothing_and_the_one_that_was_is_served_again(self, field: str) -> None:
        text = STALE.replace("FIELD", field)

        assert played(text, "reference:full").passed
        assert drawn(recorded(text, "reference:full")) == [(0, (0,), 0), (8, (8,), 0)]

    def test_it_is_told_that_no_number_shows_why_another_model_was_refused(self) -> None:
        assert notes(*played(STALE.replace("FIELD", "weights.live"), "reference:full").cases) == [
            Note(
                kind="not forced",
                message="weights.live: refused by the engine's pool, which cannot be made to give it: "
                "no number shows the damage here",
            )
        ]

    def test_each_case_begins_with_an_empty_pool(self) -> None:
        text = AGAIN.replace("rows:\n", "arms:\n  kept: [9, 5]\nrows:\n").replace(
            "prefill: {rows: {a: 9", "prefill: {rows: {a: kept"
        )

        assert played(text, "reference:full").passed
        assert first(played(text, "reference:full+pool-clears-nothing")) == (
            "case.evseq.yaml:12:5: reuse: row 'a' index 5: reuse: "
            "8 tokens came from the engine's pool, at most 5 may: nothing was fed before from index 5 on"
        )

    def test_how_much_may_come_of_a_row_is_known_before_a_model_loads(self) -> None:
        (draw,) = (step for step in recorded(CHANGED, "reference:full").plan.steps if isinstance(step, Draw))

        assert [(bound.tokens, bound.why) for bound in draw.bounds] == [(6, "prefix.tokens differs at index 6")]
        assert draw.least == 4


SALT = "10:5: reuse: row 'a' index 0: reuse: 8 tokens came from the engine's pool, at most 0 may: salt differs"

EARLY = (
    "11:5: reuse: row 'a' index 7: reuse: "
    "8 tokens came from the engine's pool, at most 7 may: prefix.tokens differs at index 7"
)

ALL = (
    "10:5: reuse: row 'a' index 7: reuse: "
    "8 tokens came from the engine's pool, at most 7 may: the last token must be fed for its logits"
)

TWICE = (
    "10:5: reuse: row 'a' index 0: reuse: "
    "the engine's pool says that 12 tokens are reused, and 9 token columns more than the rest were forwarded"
)

NOTHING = "10:5: reuse: row 'a' index 0: reuse: 0 of 14 tokens came from the engine's pool, expected least 12"

OUTLIVED = (
    "11:5: reuse: row 'a' index 0: refusal: "
    "the engine's pool reused 8 token columns, expected weights.live to be refused"
)


class TestFindings:
    @pytest.mark.parametrize(
        ("text", "fault", "told"),
        [
            (THEIRS, "pool-forgets-salt", SALT),
            (CHANGED.replace("index: 6", "index: 7"), "pool-closes-block-early", EARLY),
            (WHOLE, "pool-answers-whole", ALL),
            (AGAIN, "pool-forwards-again", TWICE),
            (AGAIN, "pool-finds-nothing", NOTHING),
            (STALE.replace("FIELD", "weights.live"), "pool-outlives-weights", OUTLIVED),
        ],
    )
    def test_a_broken_pool_is_told_by_field_and_place(self, text: str, fault: str, told: str) -> None:
        assert first(played(text, f"reference:full+{fault}")) == f"case.evseq.yaml:{told}"

    @pytest.mark.parametrize(
        ("bound", "told"),
        [("most: 7", "expected most 7"), ("least: 1", ""), ("exactly: 4", "expected exactly 4"), ("exactly: 8", "")],
    )
    def test_a_bound_of_the_script_counts_in_place_of_whole_blocks(self, bound: str, told: str) -> None:
        expected = (
            f"case.evseq.yaml:10:5: reuse: row 'a' index 0: reuse: 8 of 9 tokens came from the engine's pool, {told}"
        )

        assert lines(played(BOUND.replace("BOUND", bound), "reference:full")) == ([expected] if told else [])

    def test_a_token_fed_behind_itself_is_off(self) -> None:
        result = played(WHOLE, "reference:full+pool-runs-last-token-twice")

        assert without_numbers(first(result)) == (
            "case.evseq.yaml:10:5: reuse: row 'a' index 7: parity: "
            "logit # is #, expected #: off by #, allowed # in float64"
        )


class TestRecordings:
    def test_what_a_pool_gave_is_kept_and_judged_again(self, tmp_path: Path) -> None:
        result = played(
            CHANGED.replace("index: 6", "index: 7"), "reference:full+pool-closes-block-early", record=tmp_path
        )

        (file,) = tmp_path.iterdir()
        again = pipeline.judge(file)
        assert lines(again) == lines(result)
        assert len(lines(again)) > 1
