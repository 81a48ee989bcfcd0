"""Reuse of live sessions: whole, in part, by the engine's own rule, and never beyond the first difference."""

from __future__ import annotations

import pytest

from evseq.script.steps import Load
from playing import first, lines, played, recorded, without_numbers

HEAD = """\
rows:
  a: {random: {length: 12, seed: 1}}
  b: [17, 4, 59, 3, 8, 21, 40]
events:
  - prefill: {rows: {a: 7, b: 4}}
"""

SAME = f"{HEAD}  - reuse: {{from: main, as: same}}\n  - append: {{next: 2, on: same}}\n"

CHANGED = f"""{HEAD}\
  - mutate-prefix-token: {{row: a, index: 5, token: 63}}
  - reuse: {{from: main, as: changed, expect: {{reused: {{BOUND}}}}}}
  - append: {{next: 2, on: changed}}
  - append: {{next: 1}}
"""

MOST = CHANGED.replace("BOUND", "most: 9")
LEAST = CHANGED.replace("BOUND", "least: 1")

LONGER = f"""{HEAD}\
  - reuse: {{from: main, as: longer, rows: {{a: 9, b: 6}}, expect: {{reused: {{BOUND}}}}}}
  - append: {{next: 1, on: longer}}
"""

ASKED = f"""{HEAD}\
  - mutate: {{FIELD}}
  - reuse: {{from: main, as: stale, expect: {{refused: NAME}}}}
"""

RESTORED = "  - restore: {field: NAME}\n"


class TestReuse:
    def test_a_live_session_serves_its_own_request_without_a_forward(self) -> None:
        assert played(SAME, "reference:full").passed

        (asked,) = recorded(SAME, "reference:full").asked
        assert (asked.forwarded, asked.by) == (0, "evseq's guard")

    def test_a_copy_goes_on_bit_for_bit_beside_its_source(self) -> None:
        assert played(f"{SAME}  - append: {{next: 2}}\n", "reference:window", only={}).passed

    def test_what_the_guard_refuses_is_fed_whole(self) -> None:
        recording = recorded(MOST, "reference:full")

        asked = next(fed for fed in recording.fed if fed.session == "changed")
        assert (asked.prefill, asked.columns) == (True, 14)
        assert played(MOST, "reference:full").passed

    def test_a_bound_from_below_is_missed_by_a_guard_that_refuses_whole(self) -> None:
        assert first(played(LEAST, "reference:full")) == (
            "case.evseq.yaml:10:5: reuse: row 'a' index 0: reuse: 0 of 11 tokens came from the cache, expected least 1"
        )

    def test_the_first_difference_is_known_before_a_model_loads(self) -> None:
        (load,) = (step for step in recorded(MOST, "reference:full").plan.steps if isinstance(step, Load))
        assert load.legal == (5, 4)

    @pytest.mark.parametrize("bound", ["least: 1", "exactly: 5", "most: 9"])
    def test_an_engine_that_stops_before_the_difference_passes(self, bound: str) -> None:
        assert played(CHANGED.replace("BOUND", bound), "planted.rules:blocks").passed

    def test_it_is_told_who_decided_and_what_was_fed(self) -> None:
        recording = recorded(LEAST, "planted.rules:blocks")

        (asked,), fed = recording.asked, next(fed for fed in recording.fed if fed.session == "changed")
        assert (asked.by, asked.differences) == ("the engine's own rule", ())
        assert (fed.prefill, fed.columns, len(fed.nodes)) == (False, 6, 6)

    @pytest.mark.parametrize(
        ("bound", "target"), [("least: 8", "planted.rules:blocks"), ("most: 11", "reference:full")]
    )
    def test_a_longer_request_gets_what_is_held(self, bound: str, target: str) -> None:
        assert played(LONGER.replace("BOUND", bound), target).passed

    def test_an_engine_that_reuses_less_than_it_could_fails_without_a_bound(self) -> None:
        assert first(played(SAME, "planted.rules:short_blocks")) == (
            "case.evseq.yaml:9:5: reuse: row 'a' index 0: reuse: "
            "2 token columns of the prefix were forwarded again, expected 0"
        )

    def test_an_engine_that_reuses_the_changed_token_fails(self) -> None:
        told = [without_numbers(line) for line in lines(played(MOST, "planted.rules:one_too_many"))]
        reused = "6 tokens came from the cache, the first difference is at index 5"
        wrong = "logit # is #, expected #: off by #, allowed # in float64"
        assert told[:2] == [
            f"case.evseq.yaml:10:5: reuse: row 'a' index 5: reuse: {reused}",
            f"case.evseq.yaml:10:5: reuse: row 'a' index 6: parity: {wrong}",
        ]


class TestBlindRules:
    """The engine's own rule is on the stand too."""

    @pytest.mark.parametrize(
        ("rule", "field", "name", "told"),
        [
            ("blind_to_weights", "field: weights.live", "weights.live", "weights.live"),
            ("blind_to_salt", "field: salt, to: word", "salt", "salt"),
            ("blind_to_tokenizer", "field: tokenizer.merges", "tokenizer.merges", "tokenizer.merges"),
            (
                "blind_to_mask",
                "field: prefix.mask, row: b, index: 1",
                "prefix.mask",
                "prefix.mask",
            ),
        ],
    )
    def test_a_rule_that_leaves_a_field_out_fails(self, rule: str, field: str, name: str, told: str) -> None:
        text = ASKED.replace("FIELD", field).replace("NAME", name)
        text += RESTORED.replace("NAME", name) if name in ("weights.live", "tokenizer.merges") else ""
        where = "row 'b' index 4: " if name == "prefix.mask" else ""
        assert first(played(f"{text}  - append: {{next: 1}}\n", f"planted.rules:{rule}")) == (
            f"case.evseq.yaml:10:5: reuse: {where}refusal: reuse was admitted, expected {told} to be refused"
        )
