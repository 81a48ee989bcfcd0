"""Speculating: a draft in one forward, then a crop to what was accepted."""

from __future__ import annotations

import pytest

from evseq.geometry import Capability
from evseq.script.steps import Crop, Plan
from planning import decoder, feeds, grown, planned, reason, script, the

PREFILL = "prefill: {rows: {a: 3, b: 1}}"


def kept(plan: Plan) -> tuple[int, ...]:
    return the(Crop, plan).lengths


@pytest.mark.parametrize("accept", range(4))
def test_the_first_accepted_tokens_stay_and_the_text_goes_on_behind_them(accept: int) -> None:
    plan = planned(script(PREFILL, f"speculate: {{next: 3, accept: {accept}}}", "append: {next: 1}"))
    draft, after = feeds(plan)[1:]
    assert draft.tokens == ((13, 14, 15), (21, 22, 23))
    assert kept(plan) == (3 + accept, 1 + accept)
    assert after.tokens == ((13 + accept,), (21 + accept,))


def test_the_state_is_that_of_the_accepted_tokens() -> None:
    drafted = script(PREFILL, "speculate: {next: 3, accept: {a: 1, b: 1}}", "append: {ids: {a: [9], b: [9]}}")
    fed = script(PREFILL, "append: {next: 1}", "append: {ids: {a: [9], b: [9]}}")
    (one, first), (other, second) = grown(drafted), grown(fed)
    assert the(Crop, one).after.lengths == feeds(other)[1].after.lengths
    ends = [(tree, node) for plan, tree in ((one, first), (other, second)) for (node,) in feeds(plan)[-1].nodes]
    assert [tree.path(node) for tree, node in ends[:2]] == [tree.path(node) for tree, node in ends[2:]]


def test_every_drafted_token_is_a_history_of_its_own() -> None:
    plan, tree = grown(script(PREFILL, "speculate: {next: 2, accept: 0}", "append: {ids: {a: [1], b: [1]}}"))
    draft, after = feeds(plan)[1:]
    assert all(node > 0 for nodes in draft.nodes for node in nodes)
    assert [tree.parents[nodes[0]] for nodes in after.nodes] == [nodes[-1] for nodes in feeds(plan)[0].nodes]


def test_rows_accept_each_by_its_own_number_and_length_is_that_of_the_draft() -> None:
    plan = planned(script(PREFILL, "speculate: {next: 3, accept: {b: length-1, a: length}}", "append: {next: 1}"))
    assert kept(plan) == (6, 3)


def test_given_drafts_may_be_of_unequal_lengths_and_rows_without_one_wait() -> None:
    what = script(
        "prefill: {rows: {a: 3, b: 2, c: 1}}",
        "speculate: {ids: {a: [40, 41, 42], b: [50]}, accept: 1}",
        "append: {next: 1}",
        rows="a: [1, 2, 3, 4], b: [5, 6, 7], c: [8, 9]",
    )
    plan = planned(what)
    assert feeds(plan)[1].nodes[2] == (-1, -1, -1)
    assert kept(plan) == (4, 3, 1)
    assert feeds(plan)[-1].tokens == ((4,), (7,), (9,))


class TestNeeds:
    def test_a_draft_needs_together_and_crop(self) -> None:
        plan = planned(script(PREFILL, "speculate: {next: 2, accept: 1}", "append: {next: 1}"))
        assert {Capability.TOGETHER, Capability.CROP} <= plan.needs
        assert Capability.RAGGED not in plan.needs

    def test_unequal_numbers_need_ragged(self) -> None:
        plan = planned(script(PREFILL, "speculate: {next: 2, accept: {a: 1, b: 0}}", "append: {next: 1}"))
        assert Capability.RAGGED in plan.needs

    def test_all_accepted_is_rolled_back_by_nothing(self) -> None:
        what = script(PREFILL, "speculate: {next: 2, accept: 2}", "append: {next: 1}")
        assert kept(planned(what)) == (5, 3)
        assert reason(what, on=decoder(without=[Capability.CROP])) == "needs crop"

    def test_the_deepest_rollback_is_room(self) -> None:
        (layout,) = planned(script(PREFILL, "speculate: {next: 3, accept: 1}", "append: {next: 1}")).layouts
        assert (layout.capacity, layout.depth) == (6, 2)
