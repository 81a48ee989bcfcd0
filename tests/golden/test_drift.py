"""How far two goldens of one script are apart."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evseq.cache.identity import Identity
from evseq.geometry import Deciding
from evseq.golden import drift as module
from evseq.golden.compact import Compact
from evseq.golden.drift import Drift, Flip, Moved, drift
from evseq.golden.forms import Form, Full
from evseq.golden.golden import Golden
from evseq.golden.histories import Histories, arranged
from evseq.history import ROOT, Tree

ALLOWED = 0.5
PATHS = ((5,), (5, 6), (5, 7), (8,))
"""Histories as tokens, in the order of their rows."""

Keep = Callable[[Tensor], Form]


def histories(*paths: tuple[int, ...]) -> Histories:
    tree, ends = Tree(), []
    for path in paths:
        node = ROOT
        for position, token in enumerate(path):
            node = tree.extend(node, token, position)
        ends.append(node)
    return arranged(tree, ends)[0]


def golden(form: Form, *, paths: tuple[tuple[int, ...], ...] = PATHS, allowed: float = ALLOWED) -> Golden:
    return Golden(
        script="case",
        identity=Identity(values={"model.architecture": "tiny"}),
        histories=histories(*paths),
        logits=form,
        allowed=torch.full((len(paths),), allowed),
        greedy={},
        deciding=Deciding.PURE,
        layers=30,
    )


def compact(rows: Tensor) -> Compact:
    return Compact.of(rows, top=8)


def rows(*, seed: int = 0, vocab: int = 40, count: int = 4) -> Tensor:
    return 3 * torch.randn(count, vocab, generator=torch.Generator().manual_seed(seed))


def full(before: Tensor, now: Tensor) -> Drift:
    return drift(golden(Full.of(now)), golden(Full.of(before)))


class TestMatching:
    def test_a_golden_does_not_drift_from_itself(self) -> None:
        found = full(rows(), rows())

        assert (found.matched, found.added, found.removed, found.moved, found.flips) == (4, 0, 0, (), ())
        assert (found.share, found.kl, found.exact) == (0.0, 0.0, True)

    def test_rows_are_matched_by_history_and_never_by_number(self) -> None:
        now = golden(Full.of(rows()[[1, 3]]), paths=(PATHS[1], PATHS[3]))

        found = drift(now, golden(Full.of(rows())))

        assert (found.matched, found.added, found.removed, found.share) == (2, 0, 2, 0.0)

    def test_a_row_of_another_history_is_compared_with_none(self) -> None:
        now = golden(Full.of(rows() + 9), paths=((1,), (5, 9), (6, 6), (8, 8)))

        found = drift(now, golden(Full.of(rows())))

        assert (found.matched, found.added, found.removed) == (0, 4, 4)
        assert (found.moved, found.largest, found.share, found.kl, found.kl_row) == ((), None, 0.0, 0.0, None)

    def test_what_is_only_passed_through_is_no_row(self) -> None:
        now = golden(Full.of(rows()[:1]), paths=((5, 6),))

        found = drift(now, golden(Full.of(rows()[:1]), paths=((5,),)))

        assert (found.matched, found.added, found.removed) == (0, 1, 1)

    def test_rows_of_another_vocabulary_are_others(self) -> None:
        found = drift(golden(Full.of(rows(vocab=41))), golden(Full.of(rows(vocab=40))))

        assert (found.matched, found.added, found.removed) == (0, 4, 4)

    def test_blocks_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = full(rows(), rows(seed=1))
        monkeypatch.setattr(module, "BLOCK", 3 * 40)

        assert full(rows(), rows(seed=1)) == whole


class TestMoved:
    def test_rows_beyond_their_allowance_are_told_in_their_order(self) -> None:
        before = rows().round()
        now = before.clone()
        now[1, 7] += 0.75
        now[3, 9] -= 2.0
        now[2, 4] += 0.25

        found = full(before, now)

        assert found.moved == (
            Moved(
                row=1,
                share=1.5,
                name="logit 7",
                actual=float(now[1, 7]),
                expected=float(before[1, 7]),
                allowed=0.5,
                allowance=0.5,
                scale=float(before[1].abs().max()),
            ),
            Moved(
                row=3,
                share=4.0,
                name="logit 9",
                actual=float(now[3, 9]),
                expected=float(before[3, 9]),
                allowed=0.5,
                allowance=0.5,
                scale=float(before[3].abs().max()),
            ),
        )
        assert (found.largest, found.share) == (found.moved[1], 4.0)

    def test_the_largest_is_told_within_its_allowance_too(self) -> None:
        before = rows().round()
        now = before.clone()
        now[2, 4] += 0.25

        found = full(before, now)

        assert found.moved == ()
        assert found.largest is not None
        assert (found.largest.row, found.largest.name, found.largest.share) == (2, "logit 4", 0.5)
        assert found.largest.deviation == 0.25

    def test_what_was_accepted_says_what_is_allowed(self) -> None:
        now = golden(Full.of(rows() + 1.0), allowed=100.0)

        assert drift(now, golden(Full.of(rows()), allowed=0.25)).share == pytest.approx(4.0, rel=1e-5)

    def test_a_logit_that_is_no_number_is_infinitely_far_off(self) -> None:
        now = rows()
        now[2, 4] = torch.nan

        found = full(rows(), now)

        assert (found.share, found.kl, found.kl_row) == (math.inf, math.inf, 2)

    @pytest.mark.parametrize(("after", "before"), [(Full.of, compact), (compact, Full.of), (compact, compact)])
    def test_every_pair_of_forms_tells_a_large_logit_that_moved(self, after: Keep, before: Keep) -> None:
        now = rows()
        most = int(now[1].argmax())
        now[1, most] += 1.0

        found = drift(golden(after(now)), golden(before(rows())))

        assert (found.matched, [(moved.row, moved.name) for moved in found.moved]) == (4, [(1, f"logit {most}")])
        assert found.share == pytest.approx(2.0, rel=1e-6)
        assert not found.exact

    @pytest.mark.parametrize(("after", "before"), [(Full.of, compact), (compact, Full.of), (compact, compact)])
    def test_every_pair_of_forms_is_silent_about_what_is_equal(self, after: Keep, before: Keep) -> None:
        found = drift(golden(after(rows())), golden(before(rows())))

        assert (found.matched, found.moved, found.flips) == (4, (), ())
        assert found.kl == pytest.approx(0.0, abs=1e-6)

    def test_a_sum_tells_by_how_much_a_logit_moved_at_least(self) -> None:
        now = rows()
        now[0, int(now[0].argmin())] -= 40.0

        found = drift(golden(compact(now)), golden(compact(rows())))

        assert found.largest is not None
        assert (found.largest.name, found.largest.allowance) == ("sum of bucket 0", 0.5)
        assert found.largest.deviation == pytest.approx(1.0, rel=1e-5)


class TestFlips:
    def test_another_next_token_is_told_with_the_margin_it_had(self) -> None:
        before = torch.zeros(4, 5)
        before[:, 3] = 2.0
        before[:, 1] = 1.5
        now = before.clone()
        now[2, 1] = 2.25

        found = full(before, now)

        assert found.flips == (Flip(row=2, before=3, after=1, margin=0.5, scale=2.0),)
        assert drift(golden(Compact.of(now, top=2)), golden(Compact.of(before, top=2))).flips == found.flips

    def test_of_equal_logits_the_first_is_the_next_token(self) -> None:
        before = torch.zeros(4, 5)
        before[:, [2, 4]] = 2.0

        assert drift(golden(compact(before)), golden(Full.of(before))).flips == ()

    def test_a_vocabulary_of_one_never_flips(self) -> None:
        assert full(torch.zeros(4, 1), torch.ones(4, 1)).flips == ()


class TestKL:
    def test_it_is_that_of_what_was_from_what_is(self) -> None:
        before = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.5, 0.5], [0.5, 0.5]]).log()
        now = torch.tensor([[0.5, 0.5], [0.4, 0.6], [0.6, 0.4], [0.5, 0.5]]).log()

        found = full(before, now)

        assert found.kl == pytest.approx(0.9 * math.log(0.9 / 0.4) + 0.1 * math.log(0.1 / 0.6), rel=1e-6)
        assert found.kl_row == 1

    def test_adding_the_same_to_every_logit_changes_no_distribution(self) -> None:
        assert full(rows(), rows() + 5).kl == pytest.approx(0.0, abs=1e-6)

    def test_of_compact_goldens_it_is_over_what_both_know_and_the_rest(self) -> None:
        before = torch.tensor([[0.5, 0.3, 0.1, 0.1]] * 4).log()
        now = torch.tensor([[0.4, 0.3, 0.2, 0.1]] * 4).log()

        found = drift(golden(Compact.of(now, top=2)), golden(Full.of(before)))

        expected = 0.5 * math.log(0.5 / 0.4) + 0.2 * math.log(0.2 / 0.3)
        assert found.kl == pytest.approx(expected, rel=1e-5)
        assert not found.exact

    @settings(max_examples=30)
    @given(seed=st.integers(0, 1 << 30), moved=st.sampled_from([0.01, 1.0, 10.0]), top=st.integers(1, 40))
    def test_a_compact_side_never_makes_it_larger(self, *, seed: int, moved: float, top: int) -> None:
        before = rows(seed=seed)
        now = before + moved * rows(seed=seed + 1)
        kept = [Compact.of(side, top=top) for side in (before, now)]

        most = full(before, now).kl + 1e-5

        assert drift(golden(kept[1]), golden(kept[0])).kl <= most
        assert drift(golden(Full.of(now)), golden(kept[0])).kl <= most
        assert drift(golden(kept[1]), golden(Full.of(before))).kl <= most
