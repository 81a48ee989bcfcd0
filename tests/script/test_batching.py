"""Batching: rows that leave and rows that enter, without a forward of the others."""

from __future__ import annotations

from evseq.geometry import Capability, Layout, PositionRule, WindowCounts
from evseq.script.steps import Join, Load, Open, Retire, Save, Select
from planning import decoder, feeds, grown, planned, script, the

ROWS = "a: [1, 2, 3, 4, 5, 6, 7, 8], b: [11, 12, 13, 14, 15], c: [21, 22, 23, 24, 25, 26, 27]"


class TestRetire:
    def test_those_that_stay_keep_their_order_and_their_place(self) -> None:
        what = script("prefill: {rows: {a: 2, b: 1, c: 3}}", "retire: {rows: [b]}", "append: {next: 1}", rows=ROWS)
        plan = planned(what)
        assert (the(Retire, plan).parents, the(Retire, plan).rows) == ((0, 2), ("a", "c"))
        assert feeds(plan)[-1].tokens == ((3,), (24,))
        assert Capability.BEAM in plan.needs

    def test_it_is_the_same_computation_as_a_selection(self) -> None:
        events = ("prefill: {rows: {a: 2, b: 1}}", "fork: {as: twin}", "retire: {rows: [b]}")
        more = ("beam-select: {rows: {a: a}, on: twin}", "append: {next: 1}", "append: {next: 1, on: twin}")
        plan = planned(script(*events, *more))
        assert the(Select, plan).parents == the(Retire, plan).parents
        assert len({feed.lineage for feed in feeds(plan)[-2:]}) == 1

    def test_a_row_may_be_named_by_an_arm(self) -> None:
        what = script(
            "prefill: {rows: {a: 2, b: 1}}", "retire: {rows: [gone]}", "append: {next: 1}", arms="gone: [a, b]"
        )
        assert the(Retire, planned(what, arms={"gone": "a"})).rows == ("b",)

    def test_a_copy_knows_who_left(self) -> None:
        what = script(
            "prefill: {rows: {a: 2, b: 1}}",
            "retire: {rows: [b]}",
            "fork: {as: twin}",
            "append: {next: 1, rows: [b], on: twin, expect: invalid}",
            "append: {next: 1, on: twin}",
        )
        assert feeds(planned(what))[-1].rows == ("a",)


class TestJoin:
    def test_new_rows_are_prefilled_by_themselves_and_enter_behind_the_others(self) -> None:
        what = script("prefill: {rows: {a: 3, b: 2}}", "join: {rows: {c: 2}}", "append: {next: 1}", rows=ROWS)
        plan = planned(what)
        assert [step.beside for step in plan.steps if isinstance(step, Open)] == [None, "main"]
        assert feeds(plan, "main, joining")[0].tokens == ((21, 22),)
        assert the(Join, plan).rows == ("a", "b", "c")
        assert the(Join, plan).after.lengths == (3, 2, 2)
        assert feeds(plan)[-1].tokens == ((4,), (13,), (23,))
        assert {Capability.JOIN, Capability.BATCH} <= plan.needs

    def test_the_narrower_side_gets_masked_slots_in_front(self) -> None:
        for short, slots in ((1, (1, 2, 3)), (5, (-1, -1, 1, 2, 3))):
            what = script(
                "prefill: {rows: {a: 3}}",
                f"join: {{rows: {{c: {short}}}}}",
                "serialize: {to: f}",
                "reload: {from: f, as: again}",
                "probe: {on: again}",
                rows="a: [1, 2, 3], c: [21, 22, 23, 24, 25]",
            )
            row, joiner = the(Save, planned(what)).request.rows
            assert row.slots == slots
            assert joiner.slots == ((-1, -1, 21) if short == 1 else (21, 22, 23, 24, 25))

    def test_histories_do_not_know_that_their_row_joined(self) -> None:
        alone = "prefill: {rows: {c: 3}, as: alone}"
        events = ("prefill: {rows: {a: 5}}", "join: {rows: {c: 3}}", "append: {next: 1}")
        plan, _ = grown(
            script(alone, *events, "append: {next: 1, on: alone}", rows="a: [1, 2, 3, 4, 5, 6], c: [7, 8, 9, 10]")
        )
        assert feeds(plan, "alone")[-1].nodes[0] == feeds(plan, "main")[-1].nodes[1]

    def test_a_window_that_counts_slots_sees_as_much_as_before(self) -> None:
        what = script(
            "prefill: {rows: {a: 2}}", "join: {rows: {c: 6}}", "probe", rows="a: [1, 2], c: [1, 2, 3, 4, 5, 6]"
        )
        plan = planned(what, on=decoder(4, counts=WindowCounts.SLOTS))
        assert the(Join, plan).after.visible == ((2, 3),)

    def test_where_slots_are_positions_a_row_that_is_moved_goes_on_from_its_new_slot(self) -> None:
        what = script(
            "prefill: {rows: {a: 2}}",
            "join: {rows: {c: 6}}",
            "append: {next: 1}",
            rows="a: [1, 2, 3], c: [1, 2, 3, 4, 5, 6, 7]",
        )
        plan = planned(what, arms={"positions": "engine"}, on=decoder(rule=PositionRule.SLOT))
        assert the(Join, plan).after.next_positions == (6, 6)
        assert feeds(plan)[-1].positions == ((6,), (6,))

    def test_what_was_fed_before_keeps_its_positions_when_the_request_is_changed(self) -> None:
        what = script(
            "prefill: {rows: {a: 2}}",
            "join: {rows: {c: 6}}",
            "serialize: {to: f}",
            "reload: {from: f, as: again}",
            "probe: {on: again}",
            "mutate-prefix-token: {row: a, index: 0, token: 9}",
            "reload: {from: f, as: no, expect: {refused: prefix.tokens}}",
            rows="a: [1, 2, 3], c: [1, 2, 3, 4, 5, 6, 7]",
        )
        plan = planned(what, arms={"positions": "engine"}, on=decoder(rule=PositionRule.SLOT))
        loads = [step for step in plan.steps if isinstance(step, Load)]
        assert [load.request.rows[0].positions for load in loads] == [(0, 1), (0, 1)]

    def test_what_joins_has_the_room_of_what_it_joins(self) -> None:
        what = script(
            "prefill: {rows: {a: 5}}",
            "join: {rows: {c: 2}}",
            "crop: {row: a, by: 3}",
            "append: {next: 1}",
            rows="a: [1, 2, 3, 4, 5, 6, 7, 8], c: [1, 2, 3]",
        )
        running, joining = planned(what, arms={"cache": "ring"}).layouts
        assert running == Layout(rows=1, capacity=6, depth=3, cache="ring")
        assert joining == running

    def test_a_crop_behind_a_join_counts_the_slots_put_in_front(self) -> None:
        what = script(
            "prefill: {rows: {a: 5}}",
            "crop: {by: 3}",
            "join: {rows: {c: 4}}",
            "crop: {by: 1}",
            "append: {next: 1}",
            rows="a: [1, 2, 3, 4, 5, 6, 7, 8], c: [1, 2, 3, 4]",
        )
        running, _ = planned(what, arms={"cache": "ring"}).layouts
        assert running.depth == 4
