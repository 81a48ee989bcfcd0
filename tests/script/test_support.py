"""Why a target cannot play a plan that is possible in itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evseq.geometry import CacheKind, Capability, Keep
from planning import FULL, decoder, planned, reason, script

CHANGED = (
    "prefill: {rows: {a: 4}}",
    "serialize: {to: saved}",
    "mutate-prefix-token: {row: a, index: 1, token: 63}",
    "reload: {from: saved, as: changed, expect: {refused: prefix.tokens}}",
)


@pytest.mark.parametrize(
    ("needed", "events"),
    [
        (Capability.BATCH, ["prefill: [a, b]"]),
        (Capability.BATCH, ["prefill: [a]", "beam-select: {x: a, y: a}", "probe"]),
        (Capability.PADDING, ["prefill: [a, b]"]),
        (Capability.RAGGED, ["prefill: {rows: {a: 2, b: 2}}", "append: {next: 1, rows: [a]}"]),
        (Capability.RAGGED, ["prefill: {rows: {a: 2, b: 2}}", "append: {ids: {a: [1], b: [1, 2]}}"]),
        (Capability.RAGGED, ["prefill: {rows: {a: 3, b: 3}}", "crop: {row: a, by: 1}", "probe"]),
        (Capability.BEAM, ["prefill: [a]", "beam-select: {x: a}", "probe"]),
        (Capability.CROP, ["prefill: [a]", "crop: {by: 1}", "probe"]),
        (Capability.FORK, ["prefill: [a]", "fork: {as: twin}", "probe: {on: twin}"]),
        (
            Capability.SERIALIZE,
            ["prefill: [a]", "serialize: {to: s}", "reload: {from: s, as: t}", "probe: {on: t}"],
        ),
        (Capability.RESET, ["prefill: [a]", "drop: {keep: buffers}", "prefill: [b]"]),
        (Capability.TOGETHER, ["prefill: {rows: {a: 2}}", "append: {next: 2, together: true}"]),
        (
            Capability.FRESH,
            ["prefill: [a]", "serialize: {to: s}", "reload: {from: s, as: t, process: fresh}", "probe: {on: t}"],
        ),
    ],
)
def test_an_engine_without_the_capability_is_unsupported(needed: Capability, events: list[str]) -> None:
    what = script(*events)
    assert reason(what, on=decoder(without=[needed])) == f"needs {needed}"
    assert needed in planned(what).needs


@pytest.mark.parametrize(
    ("padding", "needs"),
    [("left", {Capability.PADDING}), ("right", {Capability.TRAILING}), ("holes", {Capability.HOLES})],
)
def test_masked_slots_before_behind_and_between_tokens_are_three_things(padding: str, needs: set[Capability]) -> None:
    plan = planned(script("prefill: [a, b]"), arms={"padding": padding})
    assert plan.needs & {Capability.PADDING, Capability.TRAILING, Capability.HOLES} == needs


@pytest.mark.parametrize(("chunk", "needed"), [(1, True), (2, False)])
def test_a_masked_column_fed_alone_is_fed_to_some_rows_alone(chunk: int, *, needed: bool) -> None:
    plan = planned(script("prefill: [a, b]"), arms={"padding": "left", "chunk": chunk})
    assert (Capability.RAGGED in plan.needs) is needed


def test_a_rollback_that_may_be_refused_is_played_without_the_capability() -> None:
    plan = planned(script("prefill: [a]", "crop: {by: 1, expect: loud}", "probe"))
    assert Capability.CROP not in plan.needs


def test_holes_behind_a_single_token_are_padding() -> None:
    plan = planned(script("prefill: {rows: {a: 1}}"), arms={"padding": "holes"})
    assert plan.needs & {Capability.PADDING, Capability.TRAILING, Capability.HOLES} == {Capability.TRAILING}


@pytest.mark.parametrize(("chunk", "needed"), [(1, False), (2, True), (3, False), (4, False)])
def test_a_later_chunk_of_several_columns_is_fed_together(chunk: int, *, needed: bool) -> None:
    plan = planned(script("prefill: {rows: {a: 4}}"), arms={"chunk": chunk})
    assert (Capability.TOGETHER in plan.needs) is needed


def test_positions_that_are_given_must_be_taken() -> None:
    on = decoder(without=[Capability.POSITIONS])
    what = script("prefill: [a]")
    assert reason(what, arms={"positions": "given"}, on=on) == "needs positions"
    assert planned(what, on=on).layouts[0].positions == "engine"


def test_gaps_that_events_left_are_holes_where_the_changed_request_is_prefilled() -> None:
    ragged = ("prefill: {rows: {a: 2, b: 2}}", "append: {next: 1, rows: [a]}", "append: {next: 1}", *CHANGED[1:])
    assert reason(script(*ragged), on=decoder(without=[Capability.HOLES])) == "needs holes"


def test_all_that_is_missing_is_told() -> None:
    on = decoder(without=[Capability.BATCH, Capability.PADDING])
    assert reason(script("prefill: [a, b]"), on=on) == "needs batch, padding"


def test_a_dtype_the_engine_does_not_have() -> None:
    assert reason(script("prefill: [a]"), arms={"dtype": "bfloat16"}) == "no bfloat16"


def test_a_cache_kind_the_engine_does_not_have() -> None:
    assert reason(script("prefill: [a]"), arms={"cache": "paged"}) == "no cache kind 'paged'"


@pytest.mark.parametrize(
    ("arm", "told"),
    [
        ({"engine.attention": "flash"}, "no attention 'flash'"),
        ({"engine.atention": "eager"}, "no option 'atention'"),
    ],
)
def test_an_option_the_engine_does_not_have(arm: dict[str, int | str], told: str) -> None:
    assert reason(script("prefill: [a]"), arms=arm) == told


def test_an_option_the_engine_has_is_played() -> None:
    assert planned(script("prefill: [a]"), arms={"engine.attention": "eager"}).arms["engine.attention"] == "eager"


class TestVocabulary:
    @pytest.mark.parametrize(
        "events",
        [["prefill: [a]"], ["prefill: [b]", "append: {ids: {b: [17]}}"], CHANGED],
        ids=["row", "ids", "mutation"],
    )
    def test_a_token_beyond_it(self, events: list[str]) -> None:
        told = reason(script(*events), on=decoder(vocab=17))
        assert told.endswith("is not in a vocabulary of 17")

    def test_its_last_token_is_played(self) -> None:
        assert planned(script("prefill: [a]"), on=decoder(vocab=18)).steps

    def test_a_choice_not_made_yet_is_no_token_beyond_it(self) -> None:
        assert planned(script("prefill: [b]", "append: {greedy: 3}"), on=decoder(vocab=25)).steps


class TestPositions:
    def test_a_row_beyond_the_last_learned_position(self) -> None:
        what = script("prefill: {rows: {a: 5}}", "append: {next: 2}")
        assert reason(what, on=decoder(max_positions=6)) == "needs 7 positions, has 6"
        assert planned(what, on=decoder(max_positions=7)).steps

    def test_the_token_that_shows_damage_needs_one_too(self) -> None:
        assert reason(script(*CHANGED), on=decoder(max_positions=4)) == "needs 5 positions, has 4"


class TestCropPastTheWindow:
    STIFF = replace(
        decoder(None, 4),
        caches=(CacheKind(name="stiff", full=Keep.EVERY, sliding=Keep.WINDOW, crops_past_window=False),),
    )

    def test_a_crop_once_more_was_fed_than_the_window(self) -> None:
        what = script("prefill: {rows: {a: 5}}", "crop: {by: 1}", "probe")
        assert reason(what, on=self.STIFF) == "cache 'stiff' cannot crop once fed more than its window"

    def test_also_when_that_was_before_another_crop_or_a_copy(self) -> None:
        twin = ("fork: {as: twin}", "append: {next: 1, on: twin}", "crop: {by: 3, on: twin}", "probe: {on: twin}")
        what = script("prefill: {rows: {a: 5}}", *twin)
        assert reason(what, on=self.STIFF) == "cache 'stiff' cannot crop once fed more than its window"

    def test_not_as_long_as_the_window_holds_all(self) -> None:
        assert planned(script("prefill: {rows: {a: 4}}", "crop: {by: 1}", "probe"), on=self.STIFF).steps

    def test_not_where_there_is_no_window(self) -> None:
        assert planned(
            script("prefill: [a]", "crop: {by: 1}", "probe"), on=replace(self.STIFF, geometry=FULL.geometry)
        ).steps


class TestTokenizer:
    ON = decoder(without=[Capability.TEXT])

    @pytest.mark.parametrize("rows", ["a: {text: hello}", "a: {file: prompt.txt}", "a: {each: texts.txt}"])
    def test_text_needs_one(self, rows: str, tmp_path: Path) -> None:
        (tmp_path / "prompt.txt").write_text("hello", encoding="utf-8")
        (tmp_path / "texts.txt").write_text("hello\n[1]\n", encoding="utf-8")
        what = script("prefill: [a]", rows=rows, file=str(tmp_path / "x.evseq.yaml"))
        assert reason(what, arms={"a": 1} if "each" in rows else {}, on=self.ON) == "needs a tokenizer"

    def test_a_line_of_ids_needs_none(self, tmp_path: Path) -> None:
        (tmp_path / "texts.txt").write_text("hello\n[1, 2]\n", encoding="utf-8")
        what = script("prefill: [a]", rows="a: {each: texts.txt}", file=str(tmp_path / "x.evseq.yaml"))
        assert planned(what, arms={"a": 2}, on=self.ON).steps
