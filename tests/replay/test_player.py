from __future__ import annotations

import pytest
import torch

from evseq.cache.guard import Admitted
from evseq.verdict.result import Exit
from playing import first, lines, played, recorded

TWO = """\
rows:
  a: {random: {length: 10, seed: 1}}
  b: [17, 4, 59, 3, 8, 21]
events:
  - prefill: {rows: {a: 5}, as: one}
  - prefill: {rows: {a: 7, b: 3}, as: two}
  - append: {next: 1, on: one}
  - append: {next: 1, on: two}
  - append: {next: 1, on: one}
"""

FORK = """\
rows:
  a: {random: {length: 10, seed: 1}}
events:
  - prefill: {rows: {a: 5}}
  - fork: {as: twin}
  - append: {next: 1}
  - append: {next: 1, on: twin}
  - append: {next: 1}
"""

CHANGED = """\
rows:
  a: {random: {length: 10, seed: 1}}
events:
  - prefill: {rows: {a: 5}}
  - serialize: {to: mid}
  - mutate-prefix-token: {row: a, index: 2, token: 24}
  - reload: {from: mid, as: changed, expect: {refused: prefix.tokens}}
  - append: {next: 2}
"""


class TestRecording:
    def test_every_fed_token_is_observed_once_with_its_row_and_index(self) -> None:
        recording = recorded(TWO, "reference:full")

        told = [list(zip(fed.rows, fed.indices, strict=True)) for fed in recording.fed]
        assert told == [
            [("a", 0), ("a", 1), ("a", 2), ("a", 3), ("a", 4)],
            [*(("a", index) for index in range(7)), *(("b", index) for index in range(3))],
            [("a", 5)],
            [("a", 7), ("b", 3)],
            [("a", 6)],
        ]

    def test_columns_forwarded_are_counted_by_the_engine(self) -> None:
        recording = recorded(TWO, "reference:full")

        assert [(fed.columns, fed.forwarded) for fed in recording.fed] == [(5, 5), (14, 14), (1, 1), (2, 2), (1, 1)]

    def test_the_peak_is_what_all_live_sessions_hold_at_once(self) -> None:
        recording = recorded(TWO, "reference:full")

        last = {probed.session: probed.probe.cache_bytes for probed in recording.probed}
        assert recording.peak_cache_bytes == last["one"] + last["two"]

    def test_what_shows_the_damage_is_not_counted_into_the_peak(self) -> None:
        recording = recorded(CHANGED, "reference:full")

        assert recording.peak_cache_bytes == max(
            probed.probe.cache_bytes for probed in recording.probed if probed.session == "main"
        )

    def test_an_engine_that_writes_all_logits_into_one_buffer_is_read_in_time(self) -> None:
        assert played(TWO, "planted.faults:one_buffer").passed

    def test_seconds_are_those_of_the_engine(self) -> None:
        recording = recorded(TWO, "reference:full")

        assert 0 < sum(fed.seconds for fed in recording.fed) < recording.seconds


class TestRefusal:
    def test_nothing_is_forwarded_and_nothing_opened(self) -> None:
        recording = recorded(CHANGED, "reference:full")

        asked = recording.asked[0]
        assert [(difference.field, difference.row, difference.index) for difference in asked.differences] == [
            ("prefix.tokens", "a", 2)
        ]
        assert asked.forwarded == 0
        assert {probed.session for probed in recording.probed} == {"main", "changed, changed"}

    def test_the_changed_request_is_played_afresh_and_the_stale_cache_answers_its_last_column(self) -> None:
        recording = recorded(CHANGED, "reference:full")

        right = [fed for fed in recording.fed if fed.session == "changed, changed"]
        assert [fed.width for fed in right] == [5, 1]
        (forced,) = recording.forced
        assert forced.logits is not None
        assert forced.logits.shape == torch.Size([1, 64])
        assert float((forced.logits - right[-1].logits).abs().max()) > 0.1

    def test_what_was_admitted_though_it_should_not_is_not_opened(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("evseq.replay.asking.admit", lambda *_: Admitted())

        recording = recorded(CHANGED, "reference:full")

        assert recording.asked[0].differences == ()
        assert {probed.session for probed in recording.probed} == {"main", "changed, changed"}


class TestFailure:
    def test_the_session_is_gone_and_the_others_go_on(self) -> None:
        recording = recorded(FORK, "planted.faults:fork_goes_blind")

        assert [(failure.step, failure.session) for failure in recording.failures] == [(3, "twin")]
        assert [fed.session for fed in recording.fed] == ["main", "main", "main"]

    def test_a_session_that_cannot_be_looked_at_is_told_by_its_own_name(self) -> None:
        assert lines(played(FORK, "planted.faults:fork_goes_blind")) == [
            "case.evseq.yaml:9:5: append: completed: session 'twin': RuntimeError: freed"
        ]

    def test_logits_of_another_shape_are_an_error(self) -> None:
        assert first(played(TWO, "planted.faults:logits_of_last_token")) == (
            "case.evseq.yaml:8:5: prefill: completed: session 'one': "
            "EngineError: a forward returned [1, 64], expected logits of shape [1, 5, 64]"
        )

    def test_an_engine_that_ends_the_process_has_not_ended_the_run(self) -> None:
        result = played(TWO, "planted.faults:exits")

        assert result.exit is Exit.FAILED
        assert first(result) == "case.evseq.yaml:10:5: append: completed: session 'one': SystemExit: 0"

    def test_an_interrupt_reaches_the_caller(self) -> None:
        with pytest.raises(KeyboardInterrupt):
            recorded(TWO, "planted.faults:interrupted")


class TestSaving:
    @pytest.mark.parametrize(
        ("fault", "told"),
        [
            ("faults:exports_other_names", "export: layer.0.keys is missing"),
            ("faults:exports_flat", "export: layer.0.keys has shape [1, 10, 8]"),
        ],
    )
    def test_keys_are_exported_by_layer_with_four_axes(self, fault: str, told: str) -> None:
        assert first(played(CHANGED, f"planted.{fault}")) == (
            f"case.evseq.yaml:8:5: serialize: completed: session 'main': EngineError: {told}\n"
            "  help: name every layer's keys so, with axes row kv_head slot head_dim"
        )

    def test_every_row_is_probed(self) -> None:
        two = CHANGED.replace("rows:\n", "rows:\n  b: [1, 2, 3, 4]\n").replace("a: 5}}", "a: 5, b: 2}}")

        assert (
            "case.evseq.yaml:9:5: serialize: completed: session 'main': EngineError: probe: 1 rows, the request has 2\n"
            "  help: count every row in every layer"
        ) in lines(played(two, "planted.probes:one_row_told"))
