"""Feeding: which token stands in which slot, and what a probe must read afterwards."""

from __future__ import annotations

import pytest

from evseq.geometry import Capability, PositionRule, Positions, WindowCounts
from evseq.script.request import State
from evseq.script.steps import Crop, Feed, Fork, Load, Open, Save, Select
from planning import decoder, feeds, planned, script, the

SLOT = decoder(rule=PositionRule.SLOT)
ENGINE = {"positions": "engine"}


class TestPrefill:
    def test_a_session_is_opened_and_fed_in_one_forward(self) -> None:
        plan = planned(script("prefill: {rows: {a: 3}}"))
        assert plan.steps == (
            Open(event=0, session="main", group=0),
            Feed(
                event=0,
                session="main",
                prefill=True,
                rows=("a",),
                tokens=((10, 11, 12),),
                positions=((0, 1, 2),),
                nodes=((1, 2, 3),),
                indices=((0, 1, 2),),
                lineage=1,
                after=State(lengths=(3,), next_positions=(3,), visible=((3,),), columns=3, furthest=3),
            ),
        )

    def test_a_list_feeds_whole_rows_in_its_order(self) -> None:
        (feed,) = feeds(planned(script("prefill: [b, a]"), arms={"padding": "right"}))
        assert feed.rows == ("b", "a")
        assert feed.tokens == ((20, 21, 22, 23, 24, 0, 0, 0), (10, 11, 12, 13, 14, 15, 16, 17))

    @pytest.mark.parametrize(
        ("padding", "indices"),
        [
            ("left", ((0, 1, 2, 3, 4), (-1, -1, 0, 1, 2))),
            ("right", ((0, 1, 2, 3, 4), (0, 1, 2, -1, -1))),
            ("holes", ((0, -1, 1, 2, -1, 3, 4), (0, -1, -1, 1, -1, -1, 2))),
        ],
    )
    def test_masked_slots_lie_where_the_arm_says(self, padding: str, indices: tuple[tuple[int, ...], ...]) -> None:
        (feed,) = feeds(planned(script("prefill: {rows: {a: 5, b: 3}}"), arms={"padding": padding}))
        assert feed.indices == indices

    def test_masked_slots_have_no_token_no_position_and_no_history(self) -> None:
        (feed,) = feeds(planned(script("prefill: {rows: {a: 3, b: 1}}")))
        assert (feed.tokens[1], feed.positions[1], feed.nodes[1]) == ((0, 0, 20), (0, 0, 0), (-1, -1, 4))

    @pytest.mark.parametrize(
        ("chunk", "widths"), [("whole", [5]), (1, [1, 1, 1, 1, 1]), (2, [2, 2, 1]), (5, [5]), (9, [5])]
    )
    def test_a_prefill_is_cut_in_chunks(self, chunk: int | str, widths: list[int]) -> None:
        plan = planned(script("prefill: {rows: {a: 5}}"), arms={"chunk": chunk})
        assert [len(feed.tokens[0]) for feed in feeds(plan)] == widths
        assert all(feed.prefill for feed in feeds(plan))

    def test_a_chunk_may_be_a_number_word(self) -> None:
        plan = planned(script("prefill: {rows: {a: 5}}"), arms={"chunk": "window-1"}, on=decoder(4))
        assert [len(feed.tokens[0]) for feed in feeds(plan)] == [3, 2]

    @pytest.mark.parametrize(("written", "salt"), [("pepper", "pepper"), ("spice", "cumin")])
    def test_salt_is_part_of_the_request(self, written: str, salt: str) -> None:
        events = ("serialize: {to: saved}", "reload: {from: saved, as: again}", "probe: {on: again}")
        what = script(f"prefill: {{rows: {{a: 1}}, salt: {written}}}", *events)
        assert the(Save, planned(what, arms={"spice": "cumin"})).request.salt == salt


class TestAppend:
    def test_next_goes_on_where_the_row_was_left_one_forward_each(self) -> None:
        plan = planned(script("prefill: {rows: {a: 2, b: 2}}", "append: {next: 2}"))
        assert [feed.tokens for feed in feeds(plan)[1:]] == [((12,), (22,)), ((13,), (23,))]
        assert [feed.after.lengths for feed in feeds(plan)] == [(2, 2), (3, 3), (4, 4)]

    def test_together_is_one_forward(self) -> None:
        plan = planned(script("prefill: {rows: {a: 2}}", "append: {next: 2, together: true}"))
        assert feeds(plan)[1].tokens == ((12, 13),)

    def test_ids_are_fed_and_move_no_place_in_the_text(self) -> None:
        plan = planned(script("prefill: {rows: {a: 2}}", "append: {ids: {a: [60, 61]}}", "append: {next: 1}"))
        assert [feed.tokens for feed in feeds(plan)[1:]] == [((60,),), ((61,),), ((12,),)]

    def test_a_row_that_is_not_fed_gets_a_masked_slot_for_each_column(self) -> None:
        plan = planned(script("prefill: {rows: {a: 2, b: 2}}", "append: {next: 2, rows: [b]}", "append: {next: 1}"))
        assert [feed.indices for feed in feeds(plan)[1:]] == [((-1,), (2,)), ((-1,), (3,)), ((2,), (4,))]
        assert feeds(plan)[-1].after == State(
            lengths=(3, 5), next_positions=(3, 5), visible=((3, 5),), columns=5, furthest=5
        )

    def test_rows_of_unequal_ids_are_ragged_at_the_end(self) -> None:
        what = script("prefill: {rows: {a: 1, b: 1}}", "append: {ids: {a: [60], b: [61, 62]}, together: true}")
        assert feeds(planned(what))[1].indices == ((1, -1), (1, 2))

    def test_a_row_may_be_named_by_an_arm(self) -> None:
        what = script(
            "prefill: {rows: {a: 2, b: 2}}",
            "append: {next: 1, rows: [which]}",
            "append: {ids: {which: [60]}}",
            "crop: {by: {which: 1}}",
            "crop: {row: which, to: 1}",
            "beam-select: {x: which}",
            "probe",
            arms="which: [b]",
        )
        plan = planned(what, arms={"which": "b"})
        assert [feed.tokens for feed in feeds(plan)[1:]] == [((0,), (22,)), ((0,), (60,))]
        assert [step.lengths for step in plan.steps if isinstance(step, Crop)] == [(2, 3), (2, 1)]
        assert the(Select, plan).parents == (1,)

    def test_a_session_may_be_named_by_an_arm(self) -> None:
        what = script(
            "prefill: {rows: {a: 2}, as: which}",
            "append: {next: 1, on: which}",
            "serialize: {to: file, on: which}",
            "reload: {from: file, as: again}",
            "fork: {as: twin, on: which}",
            "probe: {on: twin}",
            "probe: {on: again}",
            "drop: {on: which}",
            arms="which: [first], file: [mid]",
        )
        plan = planned(what, arms={"which": "first", "file": "mid"})
        assert [step.session for step in plan.steps] == ["first"] * 4 + ["again", "twin", "twin", "again", "first"]
        assert (the(Save, plan).to, the(Load, plan).source, the(Fork, plan).source) == ("mid", "mid", "first")


class TestGreedy:
    EVENTS = ("prefill: {rows: {a: 2, b: 2}}", "append: {greedy: 2}", "append: {next: 1}")

    def test_a_model_chooses_from_all_that_a_row_holds(self) -> None:
        asked: list[tuple[int, ...]] = []

        def greedy(held: tuple[int, ...]) -> int:
            asked.append(held)
            return 40 + len(asked)

        plan = planned(script(*self.EVENTS), greedy=greedy)
        assert asked == [(10, 11), (10, 11, 41), (20, 21), (20, 21, 43)]
        assert [feed.tokens for feed in feeds(plan)[1:]] == [((41,), (43,)), ((42,), (44,)), ((12,), (22,))]

    def test_choices_not_made_yet_are_symbols_equal_where_what_stands_before_is(self) -> None:
        what = script(
            "prefill: {rows: {a: 1, b: 1, c: 2}}", "append: {greedy: 2}", rows="a: [7, 1], b: [7, 2], c: [7, 3]"
        )
        first, second = (feed.tokens for feed in feeds(planned(what))[1:])
        assert first[0] == first[1] != first[2]
        assert second[0] == second[1] != first[0]
        assert max(*first[0], *first[2], *second[0]) < -1

    def test_a_symbol_stands_for_the_same_choice_after_another_event(self) -> None:
        what = script(
            "prefill: {rows: {a: 2}}",
            "fork: {as: twin}",
            "append: {greedy: 2}",
            "append: {greedy: 1, on: twin}",
            "append: {greedy: 1, on: twin}",
        )
        plan = planned(what)
        assert [feed.tokens for feed in feeds(plan, "twin")] == [feed.tokens for feed in feeds(plan, "main")[1:]]

    def test_a_thousand_choices_are_planned_at_once(self) -> None:
        plan = planned(script("prefill: {rows: {a: 2}}", "append: {greedy: 1000, together: true}"))
        assert feeds(plan)[1].after.lengths == (1002,)


class TestPositions:
    EVENTS = ("prefill: {rows: {a: 3, b: 1}}", "append: {next: 1, rows: [a]}", "append: {next: 1}")

    def test_given_ones_count_a_rows_own_tokens(self) -> None:
        plan = planned(script(*self.EVENTS), on=SLOT)
        assert [feed.positions[1] for feed in feeds(plan)] == [(0, 0, 0), (0,), (1,)]
        assert feeds(plan)[-1].after.next_positions == (5, 2)
        assert plan.layouts[0].positions is Positions.GIVEN

    def test_an_engine_that_counts_the_mask_gives_the_same(self) -> None:
        given, engine = (planned(script(*self.EVENTS), arms=arms) for arms in ({}, ENGINE))
        assert [feed.positions for feed in feeds(engine)] == [feed.positions for feed in feeds(given)]
        assert engine.layouts[0].positions is Positions.ENGINE

    def test_an_engine_that_counts_slots_counts_pads_and_holes(self) -> None:
        plan = planned(script(*self.EVENTS), arms=ENGINE, on=SLOT)
        assert [feed.positions[1] for feed in feeds(plan)] == [(0, 0, 2), (0,), (4,)]
        assert feeds(plan)[-1].after.next_positions == (5, 5)

    def test_slots_cut_off_are_counted_again(self) -> None:
        what = script("prefill: {rows: {a: 3, b: 1}}", "crop: {by: {a: 2}}", "append: {next: 1}")
        plan = planned(what, arms={**ENGINE, "padding": "right"}, on=SLOT)
        assert the(Crop, plan).after == State(
            lengths=(1, 1), next_positions=(1, 1), visible=((1, 1),), columns=1, furthest=3
        )
        assert feeds(plan)[-1].positions == ((1,), (1,))

    def test_an_engine_that_takes_none_is_left_to_number_itself(self) -> None:
        on = decoder(rule=PositionRule.SLOT, without=[Capability.POSITIONS])
        assert feeds(planned(script(*self.EVENTS), on=on))[0].positions[1] == (0, 0, 2)


class TestWindow:
    def test_a_query_sees_itself_and_the_window_less_one(self) -> None:
        plan = planned(script("prefill: {rows: {a: 2}}", "append: {next: 3}"), on=decoder(None, 4))
        assert [feed.after.visible for feed in feeds(plan)] == [((2,), (2,)), ((3,), (3,)), ((4,), (3,)), ((5,), (3,))]

    @pytest.mark.parametrize(("counts", "seen"), [(WindowCounts.POSITIONS, (3, 3)), (WindowCounts.SLOTS, (3, 1))])
    def test_what_a_window_counts_decides_what_holes_push_out(
        self, counts: WindowCounts, seen: tuple[int, int]
    ) -> None:
        what = script("prefill: {rows: {a: 3, b: 3}}", "append: {next: 2, rows: [a]}")
        plan = planned(what, on=decoder(4, counts=counts))
        assert feeds(plan)[-1].after.visible == (seen,)

    @pytest.mark.parametrize(("counts", "seen"), [(WindowCounts.POSITIONS, (2, 2)), (WindowCounts.SLOTS, (2, 0))])
    def test_right_pads_push_out_where_slots_are_counted(self, counts: WindowCounts, seen: tuple[int, int]) -> None:
        what = script("prefill: {rows: {a: 5, b: 2}}")
        assert feeds(planned(what, arms={"padding": "right"}, on=decoder(3, counts=counts)))[0].after.visible == (seen,)

    def test_an_engines_slot_numbers_stretch_a_window_of_positions(self) -> None:
        what = script("prefill: {rows: {a: 3, b: 3}}", "append: {next: 2, rows: [a]}")
        plan = planned(what, arms=ENGINE, on=decoder(4, rule=PositionRule.SLOT))
        assert feeds(plan)[-1].after.visible == ((3, 1),)

    def test_the_word_window_is_the_smallest(self) -> None:
        assert feeds(planned(script("prefill: {rows: {a: window+1}}"), on=decoder(6, None, 4)))[0].after.lengths == (5,)
