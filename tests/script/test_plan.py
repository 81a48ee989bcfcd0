"""A plan: equal histories, equal computations, events that must be invalid, and what is known without a target."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from evseq.geometry import PositionRule, WindowCounts
from evseq.history import Path
from evseq.script.request import State
from evseq.script.steps import Drop, Load, Read
from planning import decoder, feeds, grown, planned, script, the, told

SLOT = decoder(rule=PositionRule.SLOT)
ENGINE = {"positions": "engine"}


class TestHistory:
    """Equal histories are one node, so that the checks know what must agree."""

    ROWS = "a: [1, 2, 3, 4], b: [1, 2, 3, 5, 6]"

    def test_rows_with_equal_tokens_have_one(self) -> None:
        (feed,) = feeds(planned(script("prefill: {rows: {a: 3, b: 3}}", rows=self.ROWS)))
        assert feed.nodes[0] == feed.nodes[1]

    def test_pads_on_the_left_are_no_part_of_it(self) -> None:
        wide = ("prefill: {rows: {a: 2, b: 5}}", "append: {next: 1, rows: [a]}")
        plan = planned(script(*wide, rows=self.ROWS), on=decoder(3, counts=WindowCounts.SLOTS))
        assert feeds(plan)[-1].nodes[0] == (feeds(plan)[0].nodes[1][2],)

    def test_a_position_is_part_of_it(self) -> None:
        events = ("prefill: {rows: {a: 2, b: 3}}",)
        plan = planned(script(*events, rows=self.ROWS), arms=ENGINE, on=SLOT)
        assert feeds(plan)[0].positions == ((0, 1, 2), (0, 1, 2))
        assert feeds(plan)[0].nodes[0][2] != feeds(plan)[0].nodes[1][1]

    def test_holes_are_part_of_it_only_where_a_window_counts_slots(self) -> None:
        events = ("prefill: {rows: {a: 2, b: 2}}", "append: {next: 1, rows: [b]}", "append: {ids: {a: [3], b: [9]}}")
        for counts, same in ((WindowCounts.POSITIONS, True), (WindowCounts.SLOTS, False)):
            plan = planned(script(*events, rows=self.ROWS), on=decoder(3, counts=counts))
            assert (feeds(plan)[2].nodes[0] == feeds(plan)[1].nodes[1]) is same

    def test_a_hole_is_a_masked_slot_of_the_path(self) -> None:
        events = ("prefill: {rows: {a: 2, b: 2}}", "append: {next: 1, rows: [b]}", "append: {next: 1}")
        plan, tree = grown(script(*events, rows=self.ROWS), on=decoder(3, counts=WindowCounts.SLOTS))
        assert tree.path(feeds(plan)[-1].nodes[0][0]) == Path(tokens=(1, 2, -1, 3), positions=(0, 1, 0, 2))
        assert tree.path(feeds(plan)[-1].nodes[1][0]) == Path(tokens=(1, 2, 3, 5), positions=(0, 1, 2, 3))

    def test_without_a_window_slots_do_not_count(self) -> None:
        events = ("prefill: {rows: {a: 2, b: 2}}", "append: {next: 1, rows: [b]}", "append: {next: 1}")
        plan, tree = grown(script(*events, rows=self.ROWS), on=decoder(None, counts=WindowCounts.SLOTS))
        assert tree.path(feeds(plan)[-1].nodes[0][0]).tokens == (1, 2, 3)

    def test_what_was_cropped_is_no_part_of_it(self) -> None:
        events = (
            "prefill: {rows: {a: 2, b: 3}}",
            "append: {ids: {a: [9], b: [9]}}",
            "crop: {by: 1}",
            "append: {next: 1}",
        )
        plan = planned(script(*events, rows=self.ROWS))
        assert feeds(plan)[-1].nodes[0] == feeds(plan)[0].nodes[1][-1:]

    def test_chunks_forks_and_reloads_have_their_sources(self) -> None:
        what = script(
            "prefill: {rows: {a: 2}}",
            "serialize: {to: saved}",
            "fork: {as: twin}",
            "reload: {from: saved, as: again}",
            "append: {next: 2}",
            "append: {next: 2, on: twin, together: true}",
            "append: {next: 1, on: again}",
        )
        plan = planned(what)
        assert [feed.nodes for feed in feeds(plan)[1:]] == [((3,),), ((4,),), ((3, 4),), ((3,),)]


class TestLineage:
    """Feeds of one lineage are one computation on copies of one cache, so that they must agree to the last bit."""

    @staticmethod
    def of(*events: str, **arms: int | str) -> list[list[int]]:
        plan = planned(script(*events), arms=arms)
        return [[feed.lineage for feed in feeds(plan, name)] for name in ("main", "twin")]

    @pytest.mark.parametrize(
        "copy",
        [["fork: {as: twin}"], ["serialize: {to: saved}", "reload: {from: saved, as: twin}"]],
        ids=["fork", "file"],
    )
    def test_a_copy_that_is_fed_the_same_has_its_sources(self, copy: list[str]) -> None:
        main, twin = self.of("prefill: {rows: {a: 2, b: 1}}", *copy, "append: {next: 2}", "append: {next: 2, on: twin}")
        assert main[1:] == twin

    @pytest.mark.parametrize(
        "otherwise",
        [
            ["append: {next: 2, on: twin, together: true}"],
            ["append: {ids: {a: [60], b: [61]}, on: twin}"],
            ["append: {next: 1, rows: [a], on: twin}"],
            ["crop: {by: 1, on: twin}", "append: {next: 1, on: twin}", "append: {next: 1, on: twin}"],
            ["beam-select: {rows: {a: a, b: a}, on: twin}", "append: {next: 1, on: twin}"],
            ["beam-select: {rows: {a: a, b: b}, on: twin}", "append: {next: 1, on: twin}"],
        ],
        ids=["width", "tokens", "mask", "crop", "parents", "selection"],
    )
    def test_a_copy_that_is_treated_otherwise_has_not(self, otherwise: list[str]) -> None:
        main, twin = self.of("prefill: {rows: {a: 2, b: 2}}", "fork: {as: twin}", "append: {next: 2}", *otherwise)
        assert not set(main) & set(twin)

    def test_copies_that_are_treated_alike_stay_together(self) -> None:
        same = [
            "crop: {by: 1, on: NAME}",
            "beam-select: {rows: {x: a, y: b}, on: NAME}",
            "append: {ids: {x: [1], y: [2]}, on: NAME}",
        ]
        both = [event.replace("NAME", name) for name in ("main", "twin") for event in same]
        main, twin = self.of("prefill: {rows: {a: 2, b: 2}}", "fork: {as: twin}", *both)
        assert main[1:] == twin

    def test_copies_whose_beams_have_other_parents_part(self) -> None:
        beams = ["beam-select: {x: a, y: b}", "beam-select: {rows: {x: b, y: a}, on: twin}"]
        fed = [f"append: {{ids: {{x: [1], y: [2]}}, on: {name}}}" for name in ("main", "twin")]
        main, twin = self.of("prefill: {rows: {a: 2, b: 2}}", "fork: {as: twin}", *beams, *fed)
        assert not set(main) & set(twin)

    def test_copies_that_are_cropped_otherwise_part_though_the_same_is_fed_at_the_same_positions(self) -> None:
        cropped = ["crop: {row: a, by: 1}", "crop: {row: b, by: 1, on: twin}"]
        fed = [f"append: {{ids: {{a: [1], b: [2]}}, on: {name}}}" for name in ("main", "twin")]
        what = script("prefill: {rows: {a: 2, b: 2}}", "fork: {as: twin}", *cropped, *fed)
        first, second = feeds(planned(what, arms=ENGINE, on=SLOT))[1:]
        assert (first.tokens, first.positions) == (second.tokens, second.positions)
        assert first.lineage != second.lineage

    def test_a_masked_slot_is_not_a_token_of_id_0(self) -> None:
        cropped = [f"crop: {{row: b, to: 0, on: {name}}}" for name in ("main", "twin")]
        fed = ["append: {ids: {a: [60], b: [0]}}", "append: {ids: {a: [60]}, on: twin}"]
        what = script("prefill: {rows: {a: 2, b: 2}}", "fork: {as: twin}", *cropped, *fed)
        first, second = feeds(planned(what))[1:]
        assert (first.tokens, first.positions) == (second.tokens, second.positions)
        assert first.lineage != second.lineage

    def test_a_session_of_its_own_has_not_though_it_is_fed_the_same(self) -> None:
        main, twin = self.of("prefill: {rows: {a: 2}}", "prefill: {rows: {a: 2}, as: twin}")
        assert not set(main) & set(twin)

    def test_an_event_that_was_invalid_leaves_no_trace(self) -> None:
        fed = ("append: {next: 2}", "append: {next: 2, on: twin}")
        main, twin = self.of("prefill: {rows: {a: 2}}", "fork: {as: twin}", "append: {next: 9, expect: invalid}", *fed)
        assert main[1:] == twin


class TestOtherSteps:
    def test_probe_reads_and_drop_frees(self) -> None:
        plan = planned(script("prefill: {rows: {a: 2}}", "probe", "drop"))
        state = State(lengths=(2,), next_positions=(2,), visible=((2,),), columns=2, furthest=2)
        assert plan.steps[2:] == (Read(event=1, session="main", after=state), Drop(event=2, session="main"))

    def test_a_name_is_free_again_after_a_drop(self) -> None:
        plan = planned(script("prefill: {rows: {a: 2}}", "drop", "prefill: {rows: {b: 1}}"))
        assert [feed.tokens for feed in feeds(plan)] == [((10, 11),), ((20,),)]


class TestExpectations:
    def test_events_that_may_raise_are_named(self) -> None:
        assert planned(script("prefill: {rows: {a: 2}}", "append: {next: 1, expect: loud}")).loud == {1}

    INVALID = (
        "prefill: {rows: {a: 3}}",
        "prefill: {rows: {a: 3}, expect: invalid}",
        "append: {next: 9, expect: invalid}",
        "append: {ids: {b: [1]}, expect: invalid}",
        "crop: {by: 4, expect: invalid}",
        "fork: {as: main, expect: invalid}",
        "reload: {from: saved, as: again, expect: invalid}",
        "probe: {on: other, expect: invalid}",
        "drop: {on: other, expect: invalid}",
        "append: {next: 1}",
    )

    def test_an_event_expected_to_be_invalid_is_left_out(self) -> None:
        without = planned(script(self.INVALID[0], *self.INVALID[-1:]))
        plan = planned(script(*self.INVALID))
        assert list(map(type, plan.steps)) == list(map(type, without.steps))
        assert (plan.layouts, plan.needs) == (without.layouts, without.needs)
        assert feeds(plan)[-1].after == feeds(without)[-1].after

    def test_what_it_did_before_it_was_refused_is_undone(self) -> None:
        what = script(
            "prefill: {rows: {a: 2}}",
            "append: {next: 6, expect: invalid}",
            "append: {next: 1}",
            "prefill: {rows: {b: 5}, as: other, expect: invalid}",
            "prefill: {rows: {b: 2}, as: other}",
        )
        plan = planned(what, arms={"capacity": 4})
        assert [(feed.session, feed.after.lengths) for feed in feeds(plan)] == [
            ("main", (2,)),
            ("main", (3,)),
            ("other", (2,)),
        ]
        assert len(plan.layouts) == 2

    def test_a_mutation_expected_to_be_invalid_changes_nothing(self) -> None:
        saved = ("prefill: {rows: {a: 3}}", "serialize: {to: saved}")
        invalid = (
            "mutate-prefix-token: {row: b, index: 0, token: 1, expect: invalid}",
            "mutate-prefix-token: {row: a, index: 3, token: 1, expect: invalid}",
            "mutate-prefix-token: {row: a, index: 0, token: 10, expect: invalid}",
        )
        load = the(Load, planned(script(*saved, *invalid, "reload: {from: saved, as: again}", "probe: {on: again}")))
        assert (load.refused, load.place) == (None, None)

    def test_an_invalid_reload_has_asked(self) -> None:
        what = script(
            "prefill: {rows: {a: 3}}",
            "serialize: {to: saved}",
            "mutate-prefix-token: {row: a, index: 0, token: 1}",
            "reload: {from: saved, as: changed, expect: invalid}",
            "reload: {from: saved, as: again}",
            "probe: {on: again}",
        )
        assert the(Load, planned(what)).place is None


class TestWithoutATarget:
    """Only what is wrong on every target is told."""

    TEXT = MappingProxyType(
        {"a": "{text: some words}", "b": "{random: {length: 2*window, seed: 1}}", "c": "[1, 2, 3, 8]"}
    )

    @pytest.mark.parametrize(
        "events",
        [
            ["prefill: {rows: {a: 30, b: 20}}"],
            ["prefill: {rows: {a: length-30}}"],
            ["prefill: {rows: {c: window}}"],
            ["prefill: [a, b]", "append: {next: 30}"],
            ["prefill: [a]", "crop: {by: 30}", "probe"],
            ["prefill: [a]", "crop: {to: 8}", "probe"],
            ["prefill: [a]", "crop: {to: length-8}", "probe"],
            ["prefill: {rows: {c: 3}}", "crop: {by: window}", "probe"],
            ["prefill: {rows: {c: 1}}", "append: {next: window-8}"],
            ["prefill: {rows: {c: 1}}", "append: {greedy: window}", "crop: {by: 9}", "crop: {by: 9}", "probe"],
            ["prefill: [a]", "crop: {by: 99, expect: invalid}"],
            ["prefill: {rows: {c: 3}}", "crop: {by: window, expect: invalid}"],
            ["prefill: {rows: {c: capacity}, expect: invalid}"],
            ["prefill: {rows: {c: 4}, expect: invalid}"],
        ],
    )
    def test_numbers_that_only_a_target_knows_are_not_complained_of(self, events: list[str]) -> None:
        what = script(*events, rows=self.TEXT, arms="capacity: [window]")
        assert told(what, arms={"capacity": "window"}) == []

    @pytest.mark.parametrize(
        "asking",
        [
            ["mutate-prefix-token: {row: a, index: 40, token: 1}", "refused: prefix.tokens"],
            ["mutate-prefix-token: {row: c, index: window, token: 1}", "refused: prefix.tokens"],
            ["mutate-prefix-token: {row: c, index: 3, token: window}", "refused: prefix.tokens"],
            ["reused: {most: 30}"],
            ["reused: {exactly: 2*window+6}"],
        ],
    )
    @pytest.mark.parametrize("before", [[], ["crop: {row: a, by: 50}"]], ids=["whole", "cropped"])
    def test_nor_are_requests(self, asking: list[str], before: list[str]) -> None:
        *mutations, expect = asking
        reload = f"reload: {{from: saved, as: again, expect: {{{expect}}}}}"
        used = [] if mutations else ["probe: {on: again}"]
        what = script("prefill: [a, c]", *before, "serialize: {to: saved}", *mutations, reload, *used, rows=self.TEXT)
        assert told(what) == []

    def test_nor_are_mutations_that_must_be_invalid(self) -> None:
        saved = ("prefill: [a]", "serialize: {to: saved}", "drop")
        mutated = "mutate-prefix-token: {row: a, index: 40, token: 1, expect: invalid}"
        loaded = ("reload: {from: saved, as: again}", "probe: {on: again}")
        assert told(script(*saved, mutated, *loaded, rows=self.TEXT)) == []

    def test_a_token_drawn_for_another_vocabulary_is_not_complained_of(self) -> None:
        events = ("prefill: [a]", "serialize: {to: saved}")
        mutated = (
            "mutate-prefix-token: {row: a, index: 0, token: 40}",
            "reload: {from: saved, as: changed, expect: {refused: prefix.tokens}}",
        )
        what = script(*events, *mutated, rows="a: {random: {length: 3, seed: 1}}")
        assert told(what) == []
        assert told(what, on=decoder()) == [
            "10:52 mutate-prefix-token: token 40 is already at index 0 of row 'a' | change it to another token"
        ]

    def test_slots_that_only_a_target_knows_fit_any_capacity(self) -> None:
        assert told(script("prefill: [a]", rows=self.TEXT, arms="capacity: [3]"), arms={"capacity": 3}) == []

    @pytest.mark.parametrize(
        ("events", "fault"),
        [
            (
                ["prefill: {rows: {a: 3}}", "crop: {by: 4}"],
                "9:16 crop: row 'a' holds 3 tokens, cannot drop 4 | drop at most 3, or feed 'a' more tokens first",
            ),
            (
                ["prefill: {rows: {c: 4}}", "append: {next: 2}"],
                "9:20 append: row 'c' has 0 tokens left of its 4, cannot feed 2 | feed `ids`, or give it more tokens",
            ),
            (
                ["prefill: {rows: {c: window}}", "drop", "prefill: {rows: {c: 3}}", "crop: {by: 1, expect: invalid}"],
                "11:11 crop: expected to be invalid, but this event is possible | drop the expectation",
            ),
            (["prefill: [b, d]"], "8:18 prefill: no row 'd' | rows here: b"),
        ],
    )
    def test_what_is_wrong_everywhere_is_told(self, events: list[str], fault: str) -> None:
        assert told(script(*events, rows=self.TEXT)) == [fault]
