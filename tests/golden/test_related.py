"""What acceptance refuses of a revision that says what it is to its parent."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from evseq.golden.acceptance import Refused, accept
from evseq.golden.candidate import Candidate
from evseq.golden.forms import Full
from evseq.golden.golden import Golden, read
from evseq.golden.root import Place, Root
from evseq.golden.terms import Limits, Relation

ONE = Place(model="small", revision="v1", script="one")
TWO = replace(ONE, script="two")

Make = Callable[..., Candidate]


def ask(root: Root, *places: Place, **says: Any) -> None:
    usual: dict[str, Any] = {"reason": "why", "environment": {}, "today": dt.date(2026, 3, 2)}
    accept(root, places or (ONE,), **(usual | says))


def refused(root: Root, *places: Place, **says: Any) -> str:
    """Return why nothing is accepted; every candidate is still there."""
    before = list(root.candidates())
    with pytest.raises(Refused) as caught:
        ask(root, *places, **says)
    assert list(root.candidates()) == before
    return str(caught.value)


class TestOneCall:
    @pytest.fixture
    def v2(self, root: Root, make_candidate: Make, make_golden: Callable[..., Golden]) -> Place:
        """Return a candidate that is more than its allowance off revision v1."""
        make_candidate(root)
        ask(root)
        logits = make_golden().logits
        assert isinstance(logits, Full)
        moved = Full(logits=logits.logits + torch.tensor([[0.0], [1e-3], [0.0]]) * torch.tensor([1.0, 0, 0, 0, 0, 0]))
        make_candidate(root, "small/v2/one", golden=replace(make_golden(), logits=moved))
        return Place(model="small", revision="v2", script="one")

    def test_more_drift_than_the_relation_allows(self, root: Root, v2: Place) -> None:
        found = refused(root, v2, parent="v1", relation=Relation.SAME)
        assert found.startswith("small/v2: is not same, as was said: one: row 1: logit 0 is ")
        assert found.endswith(
            "allowed 1e-06\n  help: mend what made the revision, or say what it really is to its parent: --relation"
        )

    def test_more_drift_than_the_limits(self, root: Root, v2: Place) -> None:
        limits = Limits(max_kl=1e-12, max_flips=0, margin=0.1)
        found = refused(root, v2, parent="v1", relation=Relation.APPROXIMATED, limits=limits)
        assert found.startswith("small/v2: is not approximated, as was said: one: row 1: KL is ")

    def test_within_the_limits_is_no_obstacle(self, root: Root, v2: Place) -> None:
        limits = Limits(max_kl=1e-3, max_flips=0, margin=0.1)
        ask(root, v2, parent="v1", relation=Relation.APPROXIMATED, limits=limits)
        assert root.golden(v2).exists()

    def test_a_parent_nobody_accepted(self, root: Root, v2: Place) -> None:
        expected = f"{root.ledger('small')}: no revision 'v0' was accepted\n  help: did you mean 'v1'?"
        assert refused(root, v2, parent="v0") == expected

    def test_a_relation_to_nothing(self, root: Root, v2: Place) -> None:
        expected = "relation same, but to what?\n  help: name a revision: --parent REVISION"
        assert refused(root, v2, relation=Relation.SAME) == expected

    def test_limits_of_nothing(self, root: Root, v2: Place) -> None:
        limits = Limits(max_kl=1e-3, max_flips=0, margin=0.1)
        assert refused(root, v2, parent="v1", relation=Relation.SAME, limits=limits) == (
            "limits, but of no approximation\n  help: leave them out, or say --relation approximated"
        )

    def test_a_script_the_parent_has_not(self, root: Root, v2: Place, make_candidate: Make) -> None:
        make_candidate(root, "small/v2/two")
        two = Place(model="small", revision="v2", script="two")
        assert refused(root, v2, two, parent="v1", relation=Relation.CONVERTED) == (
            "small/v2/two: revision 'v1' has no accepted golden of this script to be compared with\n"
            "  help: accept it apart, without --relation"
        )


class TestOverAllScripts:
    LIMITS = Limits(max_kl=10.0, max_flips=1, margin=0.1)
    EARLIER, LATER = (replace(place, revision="v2") for place in (ONE, TWO))

    @pytest.fixture(autouse=True)
    def _two(self, root: Root, make_candidate: Make, make_golden: Callable[..., Golden]) -> None:
        """Accept two scripts at v1 and propose both at v2, in each another next token in one history."""
        logits = torch.zeros(3, 6)
        logits[:, 2] = 1.0
        flipped = logits.clone()
        flipped[1, 3] = 2.0
        for script in ("one", "two"):
            made = make_golden(script=script)
            make_candidate(root, f"small/v1/{script}", golden=replace(made, logits=Full(logits=logits)))
            make_candidate(root, f"small/v2/{script}", golden=replace(made, logits=Full(logits=flipped)))
        ask(root, ONE, TWO)

    def related(self, root: Root, *places: Place, relation: Relation = Relation.APPROXIMATED) -> None:
        limits = self.LIMITS if relation is Relation.APPROXIMATED else None
        ask(root, *places, parent="v1", relation=relation, limits=limits)

    def test_what_is_too_much_together_is_too_much_one_by_one(self, root: Root) -> None:
        self.related(root, self.EARLIER)
        assert refused(root, self.LATER, parent="v1", relation=Relation.APPROXIMATED, limits=self.LIMITS).startswith(
            "small/v2: is not approximated, as was said: two: row 1: the next token is 3, was 2 by 1 logits: "
            "2 changed by more than 0.1, allowed 1\n"
        )

    def test_what_was_accepted_without_a_relation_counts_too(self, root: Root) -> None:
        ask(root, self.EARLIER)
        assert "2 changed by more than 0.1, allowed 1" in refused(
            root, self.LATER, parent="v1", relation=Relation.APPROXIMATED, limits=self.LIMITS
        )

    def test_what_is_accepted_again_counts_as_it_is_now(self, root: Root, make_candidate: Make) -> None:
        self.related(root, self.EARLIER)
        ask(root, self.LATER)
        make_candidate(root, "small/v2/one", golden=read(root.golden(ONE)))
        make_candidate(root, "small/v2/two", golden=read(root.golden(TWO)))
        self.related(root, self.EARLIER, self.LATER, relation=Relation.SAME)
        assert list(root.candidates()) == []

    def test_what_the_parent_has_not_was_accepted_apart(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root, "small/v2/three")
        ask(root, replace(self.EARLIER, script="three"))
        self.related(root, self.EARLIER)
        assert list(root.candidates()) == [self.LATER]

    @pytest.mark.parametrize("lost", [ONE, replace(ONE, revision="v2")])
    def test_a_golden_that_is_gone_cannot_be_judged(self, root: Root, lost: Place) -> None:
        self.related(root, self.EARLIER)
        root.golden(lost).unlink()
        assert refused(root, self.LATER, parent="v1", relation=Relation.SAME) == (
            f"{lost}: its file is not the one that was accepted, so that same cannot be judged over all scripts\n"
            "  help: take it from version control, or accept its candidate too"
        )
