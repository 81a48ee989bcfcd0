"""What a pool is left, and how much of a request may come from it: known before a model loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evseq.geometry import Capability, Description, PoolShape
from evseq.script.steps import Draw, Plan, Stow
from planning import FULL, decoder, planned, reason, script, the, told

POOLED = replace(FULL, pool=PoolShape(block=3, blocks=4))

KEPT = ("prefill: {rows: {a: 7, b: 4}}", "drop: {keep: pool}")


def drawing(*events: str, on: Description = POOLED, arms: Mapping[str, int | str] | None = None) -> Plan:
    return planned(script(*KEPT, *events), on=on, arms=arms)


def bounds(plan: Plan) -> list[tuple[int, str]]:
    return [(bound.tokens, bound.why) for bound in the(Draw, plan).bounds]


class TestStow:
    def test_the_pool_is_told_what_the_session_was_fed(self) -> None:
        plan = drawing("reuse: {pool: true, as: again, rows: {a: 7}}")

        assert [row.positions for row in the(Stow, plan).request.rows] == [(0, 1, 2, 3, 4, 5, 6), (0, 1, 2, 3)]
        assert [layout.pooled for layout in plan.layouts] == [True, False]
        assert Capability.POOL in plan.needs

    def test_a_session_that_is_only_dropped_needs_no_pool(self) -> None:
        plan = planned(script("prefill: [a]", "drop"), on=POOLED)

        assert (Capability.POOL in plan.needs, plan.layouts[0].pooled) == (False, False)

    def test_a_target_without_a_pool_cannot_play_it(self) -> None:
        what = script(*KEPT, "reuse: {pool: true, as: again, rows: {a: 7}}")

        assert reason(what, on=decoder(without=[Capability.POOL])) == "needs pool"


class TestBounds:
    def test_all_but_the_last_token_of_a_whole_prompt(self) -> None:
        plan = drawing("reuse: {pool: true, as: again, rows: {a: 7}}")

        assert bounds(plan) == [(6, "the last token must be fed for its logits")]
        assert the(Draw, plan).least == 6

    def test_what_was_fed_of_a_longer_one(self) -> None:
        plan = drawing("reuse: {pool: true, as: again, rows: {a: 8}}")

        assert bounds(plan) == [(7, "nothing was fed before from index 7 on")]

    def test_nothing_beyond_a_changed_token(self) -> None:
        plan = drawing(
            "mutate-prefix-token: {row: a, index: 4, token: 60}", "reuse: {pool: true, as: again, rows: {a: 7, b: 4}}"
        )

        last = "the last token must be fed for its logits"
        assert bounds(plan) == [(4, "prefix.tokens differs at index 4"), (3, last)]
        assert the(Draw, plan).changed == ("prefix.tokens",)

    def test_nothing_beyond_a_moved_token(self) -> None:
        plan = drawing(
            "mutate: {field: position.ids, row: a, index: 2, by: 1}", "reuse: {pool: true, as: again, rows: {a: 7}}"
        )

        assert bounds(plan) == [(2, "position.ids differs at index 2")]
        assert the(Draw, plan).whole.positions == ((0, 1, 3, 4, 5, 6, 7),)

    def test_nothing_under_another_salt(self) -> None:
        plan = drawing("reuse: {pool: true, as: again, rows: {a: 7}, salt: other}")

        assert bounds(plan) == [(0, "salt differs")]

    def test_what_another_session_feeds_later_may_be_served_by_an_engine_that_pools_by_itself(self) -> None:
        plan = drawing(
            "prefill: {rows: {a: 8}, as: live}", "reuse: {pool: true, as: again, rows: {a: 8}}", "probe: {on: live}"
        )

        assert bounds(plan) == [(7, "the last token must be fed for its logits")]

    def test_rows_are_found_whichever_session_fed_them(self) -> None:
        plan = drawing("reuse: {pool: true, as: again, rows: {b: 4, a: 5}}")

        assert [bound.tokens for bound in the(Draw, plan).bounds] == [3, 4]

    def test_a_changed_engine_gets_nothing(self) -> None:
        plan = drawing(
            "mutate: {field: weights.live}",
            "reuse: {pool: true, as: stale, rows: {a: 7}, expect: {refused: weights.live}}",
            "restore: {field: weights.live}",
            on=replace(POOLED, alterable=("weights.live",)),
        )

        assert bounds(plan) == [(0, "weights.live differs")]
        assert (the(Draw, plan).refused, the(Draw, plan).least) == ("weights.live", 0)


class TestLeast:
    """What an engine that keeps whole blocks must serve, where nothing says otherwise."""

    def test_whole_blocks_of_every_row_up_to_the_first_column_another_row_needs(self) -> None:
        left = drawing("reuse: {pool: true, as: again, rows: {a: 7, b: 4}}", arms={"padding": "left"})
        right = drawing("reuse: {pool: true, as: again, rows: {a: 7, b: 4}}", arms={"padding": "right"})

        assert (the(Draw, left).least, the(Draw, right).least) == (9, 6)

    def test_nothing_where_the_pool_has_no_room_for_all_that_was_left_to_it(self) -> None:
        plan = drawing(
            "reuse: {pool: true, as: again, rows: {a: 7}}", on=replace(POOLED, pool=PoolShape(block=3, blocks=2))
        )

        assert the(Draw, plan).least == 0

    def test_nothing_where_a_cache_forgets_its_first_slots(self) -> None:
        sliding = replace(decoder(4), pool=PoolShape(block=3, blocks=4))

        plan = drawing("reuse: {pool: true, as: again, rows: {a: 7}}", on=sliding, arms={"cache": "ring"})

        assert the(Draw, plan).least == 0

    def test_nothing_once_the_engine_was_changed_for_then_a_pool_may_be_flushed(self) -> None:
        plan = drawing(
            "mutate: {field: weights.live}",
            "reuse: {pool: true, as: stale, rows: {a: 7}, expect: {refused: weights.live}}",
            "restore: {field: weights.live}",
            "reuse: {pool: true, as: again, rows: {a: 7}}",
            on=replace(POOLED, alterable=("weights.live",)),
        )

        assert [step.least for step in plan.steps if isinstance(step, Draw)] == [0, 0]


class TestNumberWord:
    def test_a_block_is_a_number_word(self) -> None:
        plan = drawing("reuse: {pool: true, as: again, rows: {a: 2*block}}")

        assert the(Draw, plan).request.tokens == 6

    def test_it_has_no_value_without_a_pool(self) -> None:
        assert told(script("prefill: {rows: {a: block}}"), on=FULL) == [
            "8:25 prefill: 'block' has no value here | add `needs: [pool]`: this target keeps no blocks of what ended"
        ]


def test_moved_positions_cannot_be_asked_for_where_the_engine_numbers_tokens() -> None:
    what = script(
        *KEPT,
        "mutate: {field: position.ids, row: a, index: 2, by: 1}",
        "reuse: {pool: true, as: again, rows: {a: 7}}",
    )

    assert reason(what, on=POOLED, arms={"positions": "engine"}) == "positions left to the engine cannot be asked for"
