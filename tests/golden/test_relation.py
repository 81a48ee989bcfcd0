"""What a revision may say it is to its parent."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from evseq.golden.drift import Drift, Flip, Moved
from evseq.golden.relation import exceeded
from evseq.golden.terms import Limits, Relation

LAYERS = 4
SCALE = 8.0
EXPLAINED = 6 * 64 * 2.0**-23 * 2 * SCALE
"""What rounding to float32 explains in four layers, in logits."""

NONE = Drift(matched=3, added=0, removed=0, moved=(), largest=None, flips=(), kl=0.0, kl_row=0, exact=True)
LIMITS = Limits(max_kl=0.1, max_flips=1, margin=0.5)


def moved(deviation: float) -> Moved:
    """Return a row whose logits may be off by a thousandth of what is explained."""
    least = EXPLAINED / 1000
    return Moved(
        row=2,
        share=deviation / least,
        name="logit 17",
        actual=3.0 + deviation,
        expected=3.0,
        allowed=least,
        allowance=least,
        scale=SCALE,
    )


def flip(margin: float, *, row: int = 1) -> Flip:
    return Flip(row=row, before=12, after=17, margin=margin, scale=SCALE)


def told(relation: Relation, *drifts: Drift, limits: Limits | None = None) -> str | None:
    return exceeded(relation, limits, {f"script-{n}": drift for n, drift in enumerate(drifts)}, layers=LAYERS)


@pytest.mark.parametrize("relation", Relation)
class TestEveryRelation:
    def test_no_drift_is_within_it(self, relation: Relation) -> None:
        assert told(relation, NONE, NONE, limits=LIMITS) is None

    def test_nothing_to_compare_is_not(self, relation: Relation) -> None:
        assert told(relation, limits=LIMITS) == "no script has a golden at both revisions"

    def test_nor_is_a_script_of_which_nothing_can_be_compared(self, relation: Relation) -> None:
        apart = replace(NONE, matched=0, added=3, removed=3, kl_row=None)

        assert told(relation, NONE, apart, limits=LIMITS) == "script-1: the two goldens have no history in common"

    @pytest.mark.parametrize(("added", "removed"), [(1, 0), (0, 2)])
    def test_nor_are_other_histories(self, relation: Relation, added: int, removed: int) -> None:
        assert told(relation, replace(NONE, added=added, removed=removed), limits=LIMITS) == (
            f"script-0: {added} histories were added and {removed} removed, allowed none"
        )


class TestSame:
    def test_rows_within_their_allowance_are_the_same(self) -> None:
        assert told(Relation.SAME, replace(NONE, largest=moved(EXPLAINED / 2000))) is None

    def test_a_row_beyond_its_allowance_is_not(self) -> None:
        drift = replace(NONE, moved=(moved(0.25), moved(0.5)))

        assert told(Relation.SAME, NONE, drift) == (
            "script-1: row 2: logit 17 is 3.25, was 3: off by 0.25, allowed 7.32e-07"
        )


class TestConverted:
    def test_what_rounding_to_float32_explains_is_a_conversion(self) -> None:
        drift = replace(NONE, moved=(moved(0.99 * EXPLAINED),), flips=(flip(0.99 * EXPLAINED),))

        assert told(Relation.CONVERTED, drift) is None

    def test_more_is_none(self) -> None:
        drift = replace(NONE, moved=(moved(0.5 * EXPLAINED), moved(0.25)))

        assert told(Relation.CONVERTED, drift) == (
            "script-0: row 2: logit 17 is 3.25, was 3: a logit is off by 0.25, rounding to float32 explains 0.000732"
        )

    @pytest.mark.parametrize("deviation", [math.inf, math.nan])
    def test_what_is_no_number_is_none(self, deviation: float) -> None:
        assert told(Relation.CONVERTED, replace(NONE, moved=(moved(deviation),))) is not None

    def test_nor_is_another_next_token_that_was_not_close(self) -> None:
        assert told(Relation.CONVERTED, NONE, replace(NONE, flips=(flip(EXPLAINED / 2), flip(0.25)))) == (
            "script-1: row 1: the next token is 17, was 12 by 0.25 logits, rounding to float32 explains 0.000732"
        )


class TestApproximated:
    def test_what_is_within_its_limits_is_an_approximation(self) -> None:
        drift = replace(NONE, moved=(moved(9.0),), flips=(flip(0.5), flip(0.4), flip(0.6)), kl=0.1)

        assert told(Relation.APPROXIMATED, drift, limits=LIMITS) is None

    def test_without_limits_nothing_is(self) -> None:
        assert told(Relation.APPROXIMATED, NONE) == (
            "approximated: no limits on KL and next-token flips are written down"
        )

    @pytest.mark.parametrize(("exact", "says"), [(True, ""), (False, "at least ")])
    def test_the_largest_kl_is_told_with_its_row(self, *, exact: bool, says: str) -> None:
        drifts = (replace(NONE, kl=0.2), replace(NONE, kl=0.35, kl_row=7, exact=exact))

        assert told(Relation.APPROXIMATED, *drifts, limits=LIMITS) == (
            f"script-1: row 7: KL is {says}0.35 nats, allowed 0.1"
        )

    def test_next_tokens_are_counted_over_all_scripts(self) -> None:
        drifts = (replace(NONE, flips=(flip(0.6), flip(0.1))), replace(NONE, flips=(flip(0.75, row=4),)))

        assert told(Relation.APPROXIMATED, *drifts, limits=LIMITS) == (
            "script-1: row 4: the next token is 17, was 12 by 0.75 logits: 2 changed by more than 0.5, allowed 1"
        )

    @pytest.mark.parametrize("limits", [Limits(max_kl=math.nan, max_flips=1, margin=0.5)])
    def test_a_limit_that_is_no_number_limits_to_nothing(self, limits: Limits) -> None:
        assert told(Relation.APPROXIMATED, NONE, limits=limits) == "script-0: row 0: KL is 0 nats, allowed nan"
