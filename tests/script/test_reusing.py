"""Reusing: what a reload asks with, and what a refused one must show."""

from __future__ import annotations

import pytest

from evseq.script.events import Process
from evseq.script.request import RequestedRow
from evseq.script.steps import Load, Save
from planning import decoder, feeds, grown, planned, script, the


class TestReuse:
    SAVED = ("prefill: {rows: {a: 3, b: 2}}", "serialize: {to: saved}")
    MUTATED = "mutate-prefix-token: {row: b, index: 1, token: 60}"
    CHANGED = "reload: {from: saved, as: changed, expect: {refused: prefix.tokens}}"

    def test_a_reload_asks_with_the_request_as_it_was_serialized(self) -> None:
        what = script(
            *self.SAVED, "append: {next: 1}", "reload: {from: saved, as: again}", "append: {next: 1, on: again}"
        )
        plan = planned(what)
        load = the(Load, plan)
        assert load.request == the(Save, plan).request
        assert load.request.rows == (
            RequestedRow(name="a", slots=(10, 11, 12), positions=(0, 1, 2), text=None),
            RequestedRow(name="b", slots=(-1, 20, 21), positions=(0, 1), text=None),
        )
        assert load.state == the(Save, plan).after
        assert (load.refused, load.place, load.damage, load.process) == (None, None, None, Process.HERE)
        assert feeds(plan, "again")[0].tokens == ((13,), (22,))

    def test_a_text_row_asks_with_its_text(self) -> None:
        events = ("serialize: {to: saved}", "reload: {from: saved, as: again}", "probe: {on: again}")
        what = script("prefill: [a]", *events, rows="a: {text: hi}")
        plan = planned(what, tokenize=lambda text: tuple(text.encode()), on=decoder(vocab=256))
        assert the(Save, plan).request.rows[0].text == "hi"

    def test_a_mutated_request_is_refused_at_its_row_and_index(self) -> None:
        load = the(Load, planned(script(*self.SAVED, self.MUTATED, self.CHANGED)))
        assert (load.refused, load.place, load.session) == ("prefix.tokens", ("b", 1), "changed")
        assert [row.slots for row in load.request.rows] == [(10, 11, 12), (-1, 20, 60)]

    def test_of_several_mutations_the_first_in_batch_order_is_the_place(self) -> None:
        events = (
            "mutate-prefix-token: {row: b, index: 0, token: 60}",
            "mutate-prefix-token: {row: a, index: 2, token: 60}",
            "mutate-prefix-token: {row: a, index: 1, token: 61}",
        )
        assert the(Load, planned(script(*self.SAVED, *events, self.CHANGED))).place == ("a", 1)

    def test_a_mutation_undone_is_not_the_place(self) -> None:
        events = (
            "mutate-prefix-token: {row: a, index: 0, token: 60}",
            "mutate-prefix-token: {row: a, index: 0, token: 10}",
            self.MUTATED,
        )
        load = the(Load, planned(script(*self.SAVED, *events, self.CHANGED)))
        assert load.place == ("b", 1)
        assert load.damage is not None
        assert load.damage.touched == (1,)

    def test_a_mutation_is_for_the_next_reload_only(self) -> None:
        what = script(*self.SAVED, self.MUTATED, self.CHANGED, "reload: {from: saved, as: again}", "probe: {on: again}")
        changed, again = (step for step in planned(what).steps if isinstance(step, Load))
        assert again.request != changed.request
        assert (again.refused, again.place) == (None, None)

    def test_a_refused_reload_opens_nothing(self) -> None:
        what = script(*self.SAVED, self.MUTATED, self.CHANGED, "prefill: {rows: {a: 1}, as: changed}")
        assert len(feeds(planned(what), "changed")) == 1

    def test_the_damage_is_the_changed_request_prefilled_and_one_token_in_it_and_in_the_stale_cache(self) -> None:
        plan, tree = grown(script(*self.SAVED, self.MUTATED, self.CHANGED))
        damage = the(Load, plan).damage
        assert damage is not None
        prefix, token = damage.right
        assert (prefix.tokens, prefix.indices) == (((10, 11, 12), (0, 20, 60)), ((0, 1, 2), (-1, 0, 1)))
        assert (token.tokens, token.indices) == (((13,), (22,)), ((3,), (2,)))
        assert tree.path(token.nodes[1][0]).tokens == (20, 60, 22)
        assert [tree.path(node).tokens for node in damage.stale] == [(10, 11, 12, 13), (20, 21, 22)]
        assert token.nodes[0] == (damage.stale[0],)
        assert damage.touched == (1,)

    def test_the_damage_has_a_layout_of_its_own_and_the_stale_cache_room_for_one_more(self) -> None:
        plan = planned(script(*self.SAVED, self.MUTATED, self.CHANGED))
        damage = the(Load, plan).damage
        assert damage is not None
        assert damage.group == 1
        assert [layout.capacity for layout in plan.layouts] == [4, 4]

    def test_the_token_that_shows_damage_is_another_where_a_text_has_ended(self) -> None:
        what = script("prefill: [b]", *self.SAVED[1:], self.MUTATED, self.CHANGED)
        damage = the(Load, planned(what)).damage
        assert damage is not None
        assert damage.right[1].tokens == ((25,),)

    def test_holes_of_the_request_are_holes_of_the_damage(self) -> None:
        ragged = ("prefill: {rows: {a: 2, b: 2}}", "append: {next: 1, rows: [a]}", "append: {next: 1}")
        damage = the(Load, planned(script(*ragged, *self.SAVED[1:], self.MUTATED, self.CHANGED))).damage
        assert damage is not None
        assert damage.right[0].indices == ((0, 1, 2, 3), (0, 1, -1, 2))

    def test_length_names_the_last_index(self) -> None:
        what = script(*self.SAVED, "mutate-prefix-token: {row: a, index: length-1, token: 60}", self.CHANGED)
        assert the(Load, planned(what)).place == ("a", 2)

    def test_row_index_and_token_may_be_arms(self) -> None:
        mutated = "mutate-prefix-token: {row: row, index: index, token: token}"
        what = script(*self.SAVED, mutated, self.CHANGED, arms="row: [b], index: [length-2], token: [9]")
        load = the(Load, planned(what, arms={"row": "b", "index": "length-2", "token": 9}))
        assert (load.place, load.request.rows[1].slots) == (("b", 0), (-1, 9, 21))

    @pytest.mark.parametrize(("bound", "limit"), [("exactly: 5", 5), ("least: n", 1), ("most: window", 4)])
    def test_a_bound_on_what_is_reused_is_a_number(self, bound: str, limit: int) -> None:
        load = f"reload: {{from: saved, as: again, expect: {{reused: {{{bound}}}}}}}"
        what = script(*self.SAVED, load, "append: {next: n, on: again}", arms="n: [1]")
        assert the(Load, planned(what, arms={"n": 1}, on=decoder(4))).reused_limit == limit

    def test_a_fresh_process_is_asked(self) -> None:
        what = script(*self.SAVED, "reload: {from: saved, as: again, process: fresh}", "probe: {on: again}")
        assert the(Load, planned(what)).process is Process.FRESH
