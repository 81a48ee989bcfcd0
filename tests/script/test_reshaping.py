"""Reshaping: which tokens and rows are left, and the room a session needs for them."""

from __future__ import annotations

from evseq.geometry import Capability, Layout, Positions, WindowCounts
from evseq.script.request import State
from evseq.script.steps import Crop, Feed, Fork, Open, Read, Reset, Select
from planning import decoder, feeds, grown, planned, script, the, told

ENGINE = {"positions": "engine"}


class TestCrop:
    def test_by_and_to_roll_the_place_in_the_text_back(self) -> None:
        what = script(
            "prefill: {rows: {a: 5, b: 4}}", "crop: {by: 2}", "append: {next: 1}", "crop: {to: 1}", "append: {next: 1}"
        )
        assert [feed.tokens for feed in feeds(planned(what))[1:]] == [((13,), (22,)), ((11,), (21,))]

    def test_tokens_that_were_not_the_rows_own_roll_nothing_back(self) -> None:
        what = script(
            "prefill: {rows: {a: 2}}",
            "append: {ids: {a: [60]}}",
            "append: {next: 1}",
            "append: {ids: {a: [61]}}",
            "crop: {by: 1}",
            "append: {next: 1}",
            "crop: {to: 3}",
            "append: {next: 1}",
            "crop: {to: 2}",
            "append: {next: 1}",
        )
        tokens = [feed.tokens[0][0] for feed in feeds(planned(what))[1:]]
        assert tokens == [60, 12, 61, 13, 12, 12]

    def test_rows_cropped_at_the_same_column_leave_no_masked_slot(self) -> None:
        plan = planned(script("prefill: {rows: {a: 4, b: 4}}", "crop: {by: 2}", "probe"))
        assert Capability.RAGGED not in plan.needs

    def test_a_copy_knows_how_wide_its_source_was(self) -> None:
        copies = ("fork: {as: twin}", "probe: {on: twin}", "serialize: {to: saved}")
        what = script(
            "prefill: {rows: {a: 5}}",
            "crop: {by: 3}",
            *copies,
            "reload: {from: saved, as: again}",
            "probe: {on: again}",
        )
        plan = planned(what)
        assert [step.after.furthest for step in plan.steps if isinstance(step, Fork | Read)] == [5, 5, 5]

    def test_columns_behind_the_last_kept_token_are_cut(self) -> None:
        what = script("prefill: {rows: {a: 4, b: 2}}", "crop: {by: 1}", "probe")
        assert the(Crop, planned(what, arms={"padding": "left"})).after.columns == 3
        right = planned(what, arms={"padding": "right"})
        assert the(Crop, right).after == State(
            lengths=(3, 1), next_positions=(3, 1), visible=((3, 1),), columns=3, furthest=4
        )

    def test_a_token_dropped_before_the_last_column_leaves_a_masked_slot(self) -> None:
        what = script("prefill: {rows: {a: 4, b: 4}}", "crop: {row: b, to: 2}", "append: {next: 1}")
        plan = planned(what, on=decoder(4, counts=WindowCounts.SLOTS))
        assert the(Crop, plan).lengths == (4, 2)
        assert Capability.RAGGED in plan.needs
        assert feeds(plan)[-1].after == State(
            lengths=(5, 3), next_positions=(5, 3), visible=((3, 1),), columns=5, furthest=5
        )

    def test_rows_are_cropped_each_by_its_own_number(self) -> None:
        plan = planned(script("prefill: {rows: {a: 4, b: 3}}", "crop: {by: {b: length-1, a: 1}}", "probe"))
        assert the(Crop, plan).lengths == (3, 1)

    def test_a_row_may_lose_all(self) -> None:
        plan = planned(script("prefill: {rows: {a: 4, b: 3}}", "crop: {row: b, to: 0}", "append: {next: 1}"))
        assert the(Crop, plan).after.lengths == (4, 0)
        assert feeds(plan)[-1].indices == ((4,), (0,))

    def test_of_an_empty_row_nothing_is_cropped_that_only_a_target_knows(self) -> None:
        what = script(
            "prefill: {rows: {a: 1, b: 1}}",
            "crop: {row: b, to: 0}",
            "crop: {by: {b: window-5}}",
            "probe",
            needs="window",
        )
        assert told(what) == []


class TestLayout:
    @staticmethod
    def layouts(*events: str, **arms: int | str) -> list[tuple[int, int, int]]:
        plan = planned(script(*events), arms=arms)
        return [(layout.rows, layout.capacity, layout.depth) for layout in plan.layouts]

    def test_a_layout_names_rows_room_depth_kind_and_numbering(self) -> None:
        plan = planned(script("prefill: {rows: {a: 3, b: 1}}"), arms={"cache": "ring", **ENGINE})
        assert plan.layouts == (Layout(rows=2, capacity=3, depth=0, cache="ring", positions=Positions.ENGINE),)

    def test_room_is_for_the_most_columns_of_all_copies(self) -> None:
        copies = ("prefill: {rows: {a: 3}}", "fork: {as: twin}", "append: {next: 2, on: twin}", "append: {next: 1}")
        assert self.layouts(*copies) == [(1, 5, 0)]

    def test_the_capacity_arm_is_the_room(self) -> None:
        assert self.layouts("prefill: {rows: {a: 3}}", capacity=9) == [(1, 9, 0)]

    def test_depth_is_the_deepest_crop(self) -> None:
        events = ("crop: {by: 1}", "append: {next: 1}", "crop: {by: 3}", "probe")
        assert self.layouts("prefill: {rows: {a: 5}}", *events) == [(1, 5, 3)]

    def test_crops_without_a_forward_between_add_up(self) -> None:
        assert self.layouts("prefill: {rows: {a: 6}}", "crop: {by: 1}", "crop: {by: 2}", "probe") == [(1, 6, 3)]

    def test_tokens_once_overwritten_are_not_there_for_a_later_crop(self) -> None:
        events = ("crop: {to: 4}", "append: {next: 1}", "crop: {to: 3}", "probe")
        assert self.layouts("prefill: {rows: {a: 6}}", *events) == [(1, 6, 3)]

    def test_depth_is_counted_in_columns_where_pads_are_cut_too(self) -> None:
        cut = ("crop: {by: {a: 4}}", "probe")
        right = self.layouts("prefill: {rows: {a: 5, b: 1}}", *cut, padding="right")
        ragged = self.layouts("prefill: {rows: {a: 2, b: 2}}", "append: {next: 3, rows: [a]}", *cut)
        assert (right, ragged) == ([(2, 5, 4)], [(2, 5, 4)])

    def test_masked_slots_that_are_cut_too_count(self) -> None:
        waiting = ("append: {next: 2, rows: [a]}", "append: {next: 1, rows: [b]}")
        back = ("crop: {by: {a: 2, b: 1}}", "probe")
        assert self.layouts("prefill: {rows: {a: 4, b: 4}}", *waiting, *back) == [(2, 7, 3)]

    def test_a_row_that_waits_for_others_is_rolled_back_from_where_it_once_was(self) -> None:
        rows = "a: [1, 2, 3, 4, 5, 6, 7, 8], b: [1, 2, 3, 4, 5, 6, 7, 8]"
        back = ("crop: {row: b, to: 5}", "append: {next: 1, rows: [b]}", "crop: {row: b, to: 3}", "probe")
        (layout,) = planned(script("prefill: [a, b]", *back, rows=rows)).layouts
        assert layout.depth == 5

    def test_sessions_of_their_own_have_layouts_of_their_own(self) -> None:
        assert self.layouts("prefill: {rows: {a: 3}}", "prefill: {rows: {a: 2, b: 5}, as: other}") == [
            (1, 3, 0),
            (2, 5, 0),
        ]

    def test_kept_buffers_are_filled_again_without_opening_a_session(self) -> None:
        plan = planned(
            script("prefill: {rows: {a: 5}}", "drop: {keep: buffers}", "prefill: {rows: {b: 2}}", "append: {next: 1}")
        )
        assert [type(step) for step in plan.steps] == [Open, Feed, Reset, Feed, Feed]
        assert [layout.capacity for layout in plan.layouts] == [5]


class TestBeams:
    def test_a_beam_goes_on_from_its_parents_place(self) -> None:
        what = script("prefill: {rows: {a: 2, b: 3}}", "beam-select: {x: b, y: a, z: b}", "append: {next: 1}")
        plan = planned(what)
        assert (the(Select, plan).parents, the(Select, plan).rows) == ((1, 0, 1), ("x", "y", "z"))
        assert feeds(plan)[-1].tokens == ((23,), (12,), (23,))
        assert feeds(plan)[-1].rows == ("x", "y", "z")

    def test_beams_of_one_parent_part(self) -> None:
        what = script("prefill: {rows: {a: 2}}", "beam-select: {x: a, y: a}", "append: {ids: {x: [1], y: [2]}}")
        plan, tree = grown(what)
        x, y = (nodes[0] for nodes in feeds(plan)[-1].nodes)
        assert tree.parents[x] == tree.parents[y] == feeds(plan)[0].nodes[0][-1]
        assert x != y

    def test_a_beam_may_have_its_parents_name(self) -> None:
        plan = planned(script("prefill: {rows: {a: 2, b: 2}}", "beam-select: {a: b, b: a}", "append: {next: 1}"))
        assert (feeds(plan)[-1].rows, feeds(plan)[-1].tokens) == (("a", "b"), ((22,), (12,)))
