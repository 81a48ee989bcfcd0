"""What a compact golden keeps, that it never fails what a full one passes, and what it cannot see."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from evseq.golden import compact
from evseq.golden.compact import BLIND, BUCKET, SEED, Compact, _projection
from evseq.golden.forms import Full
from evseq.verdict.standard import Worst, worst

INF, NAN = torch.inf, torch.nan
VOCAB = 300  # five buckets, the last of 44 entries
ALLOWED = 2.0**-10


def logits(rows: int = 1, *, vocab: int = VOCAB, seed: int = 0, scale: float = 4.0) -> Tensor:
    """Return rows that are float32 already, in float64, none near another."""
    return (scale * torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed))).double()


def held(accepted: Tensor, observed: Tensor, *, allowed: float = ALLOWED, top: int = 8) -> Worst:
    """Hold observations to accepted rows of which `top` logits are kept."""
    limits = torch.full((len(accepted),), allowed, dtype=torch.float64)
    return worst(Compact.of(accepted, top=top).quantities(range(len(accepted)), observed, limits))


def lowest(row: Tensor) -> int:
    return int(row.argmin())


class TestWhatIsKept:
    def test_the_buckets_and_signs_are_the_same_everywhere(self) -> None:
        order, signs = _projection(49_152, SEED)

        assert order[:8].tolist() == [48071, 1711, 20424, 44505, 39796, 42181, 31859, 13253]
        assert signs[:8].tolist() == [-1, 1, -1, 1, -1, 1, -1, 1]

    def test_each_entry_is_in_one_bucket(self) -> None:
        order, signs = _projection(VOCAB, SEED)

        assert sorted(order.tolist()) == list(range(VOCAB))
        assert set(signs.tolist()) == {-1, 1}

    def test_another_seed_deals_otherwise(self) -> None:
        assert _projection(10, 1)[0].tolist() != _projection(10, 2)[0].tolist()

    def test_a_sum_is_that_of_its_entries_with_their_signs(self) -> None:
        # The order is 7 3 1 5 | 2 8 4 9 | 0 6, the signs + - + - | + - - - | - +.
        kept = Compact.of(torch.tensor([[0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]]), bucket=4)

        assert kept.sums.tolist() == [[64.0 - 4 + 1 - 16, 2.0 - 128 - 8 - 256, 32.0 - 0]]

    def test_the_largest_logits_stand_first_and_equal_ones_by_id(self) -> None:
        kept = Compact.of(torch.tensor([[1.0, 3.0, 2.0, 3.0, -9.0]]), top=3)

        assert (kept.top.tolist(), kept.ids.tolist()) == ([[3.0, 3.0, 2.0]], [[1, 3, 2]])

    def test_log_sum_exp_is_taken_in_float64(self) -> None:
        row = logits(scale=50.0)

        assert Compact.of(row).lse.double().tolist() == row.logsumexp(-1).float().tolist()

    def test_the_largest_magnitude_may_be_that_of_a_negative_logit(self) -> None:
        assert Compact.of(torch.tensor([[1.0, -9.0, 2.0]]), top=1).scale.tolist() == [9.0]

    def test_a_small_vocabulary_is_all_kept(self) -> None:
        kept = Compact.of(logits(vocab=10))

        assert sorted(kept.ids[0].tolist()) == list(range(10))
        assert kept.quantities([0], logits(vocab=10), torch.zeros(1))[1].noun == "log-sum-exp"

    def test_what_is_not_kept_is_not_known(self) -> None:
        kept = Compact.of(torch.tensor([[1.0, 3.0, 2.0]]), top=2)

        assert str(kept.at(torch.tensor([[2, 0, 1]])).tolist()) == "[[2.0, nan, 3.0]]"

    def test_blocks_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rows, limits = logits(5), torch.ones(5).double()
        whole, judged = Compact.of(rows), worst(Compact.of(rows).quantities(range(5), rows + 0.5, limits))
        monkeypatch.setattr(compact, "BLOCK", 2 * VOCAB)

        assert {name: same.tolist() for name, same in Compact.of(rows).tensors().items()} == {
            name: kept.tolist() for name, kept in whole.tensors().items()
        }
        assert worst(whole.quantities(range(5), rows + 0.5, limits)).share.tolist() == judged.share.tolist()

    @pytest.mark.parametrize("bad", [NAN, INF, -INF])
    def test_one_logit_that_is_no_number_is_told_wherever_it_is(self, bad: float) -> None:
        row = logits()
        row[0, lowest(row[0])] = bad

        assert (Compact.of(row, top=8).finite, Compact.of(logits(), top=8).finite) == (False, True)


class TestNoFalseAlarm:
    """Each entry off by exactly what is allowed, in the direction that is worst for one of the numbers kept."""

    @given(
        seed=st.integers(0, 1 << 30),
        scale=st.sampled_from([0.0, 1e-6, 1.0, 30.0, 1e4]),
        share=st.sampled_from([0.0, 2.0**-45, 2.0**-20, 2.0**-8, 2.0]),
        vocab=st.sampled_from([2, 9, 64, 65, 300, 1000]),
        top=st.sampled_from([1, 8, 256]),
        noise=st.sampled_from(["up", "down", "signs", "random", "swap"]),
    )
    def test_what_a_full_golden_passes_a_compact_one_passes(
        self, *, seed: int, scale: float, share: float, vocab: int, top: int, noise: str
    ) -> None:
        accepted = logits(2, vocab=vocab, seed=seed, scale=scale)
        order, signs = _projection(vocab, SEED)
        direction = {
            "up": torch.ones(2, vocab),
            "down": -torch.ones(2, vocab),
            "signs": torch.empty(2, vocab).index_copy(1, order, signs.float().expand(2, vocab)),
            "random": logits(2, vocab=vocab, seed=seed + 1).sign(),
            "swap": (accepted.median(-1, keepdim=True).values - accepted).sign(),
        }[noise].double()
        observed = accepted + direction * share * scale
        limits = (observed - accepted).abs().amax(-1)

        assert float(worst(Full.of(accepted).quantities([0, 1], observed, limits)).share.max()) <= 1
        assert float(worst(Compact.of(accepted, top=top).quantities([0, 1], observed, limits)).share.max()) <= 1

    @pytest.mark.parametrize("bits", [40, 45, 49, 50, 51])
    def test_nor_does_the_rounding_of_float64_fail_a_sum_that_is_nothing(self, bits: int) -> None:
        order, signs = _projection(VOCAB, SEED)
        flat = torch.full((1, VOCAB), 7.0, dtype=torch.float64)
        observed = flat + 2.0**-bits * torch.empty(VOCAB).double().index_copy(0, order, signs.double())
        limits = (observed - flat).abs().amax(-1)

        assert Compact.of(flat).sums[0, 2].item() == 0.0
        assert float(worst(Compact.of(flat).quantities([0], observed, limits)).share.max()) <= 1

    def test_nor_does_it_fail_a_log_sum_exp_that_is_nothing(self) -> None:
        probabilities = [-1.1885192394256592, -1.2467864751815796, -2.3312530517578125, -1.1688404083251953]
        row = torch.tensor([probabilities], dtype=torch.float64)
        observed = row + 2.0**-52 * torch.tensor([1.0, 1.0, 1.0, 0.0])
        limits = (observed - row).abs().amax(-1)

        assert Compact.of(row).lse.abs().item() < 1e-9
        assert float(worst(Compact.of(row).quantities([0], observed, limits)).share.max()) <= 1

    @given(
        seed=st.integers(0, 1 << 30),
        scale=st.sampled_from([1e-6, 1.0, 1e4]),
        share=st.sampled_from([0.0, 2.0**-20, 2.0**-8, 2.0]),
        kept=st.sampled_from([1, 8, 256]),
    )
    def test_nor_do_two_compact_goldens_of_rows_that_close_differ(
        self, *, seed: int, scale: float, share: float, kept: int
    ) -> None:
        before = logits(2, seed=seed, scale=scale)
        now = (before + logits(2, seed=seed + 1, scale=scale * share)).float()
        limits = (now.double() - before).abs().amax(-1)

        off = worst(Compact.of(before, top=8).compared(Compact.of(now, top=kept), limits))

        assert float(off.share.max()) <= 1


class TestWhatIsSeen:
    def test_a_logit_of_the_top_that_moves(self) -> None:
        row = logits()
        observed = row.clone()
        observed[0, row.argmax()] -= 2 * ALLOWED

        off = held(row, observed)

        assert (off.name, off.share.tolist()) == ((f"logit {int(row.argmax())}",), [2.0])

    def test_a_logit_that_rises_into_the_top(self) -> None:
        row = torch.linspace(8, -8, VOCAB)[None].double()
        observed = row.clone()
        observed[0, 8] = row[0, 7] + 3 * ALLOWED

        off = held(row, observed, top=8)

        assert off.name == ("logit outside the top 8, id 8",)
        assert off.share.tolist() == [pytest.approx(3.0)]
        assert off.expected.tolist() == [row[0, 7].item()]

    def test_an_outer_logit_that_falls_by_more_than_a_bucket_of_allowances(self) -> None:
        row = logits()
        order, _ = _projection(VOCAB, SEED)
        place = order.tolist().index(lowest(row[0]))
        observed = row.clone()
        observed[0, lowest(row[0])] -= 1.1 * BUCKET * ALLOWED

        off = held(row, observed)

        assert off.name == (f"sum of bucket {place // BUCKET}",)
        assert off.share.item() == pytest.approx(1.1, rel=0.01)

    def test_the_last_bucket_is_allowed_no_more_than_it_has_entries(self) -> None:
        row = logits()
        order, _ = _projection(VOCAB, SEED)
        outer = min(order.tolist()[4 * BUCKET :], key=lambda entry: float(row[0, entry]))
        observed = row.clone()
        observed[0, outer] -= 1.1 * (VOCAB - 4 * BUCKET) * ALLOWED

        off = held(row, observed)

        assert off.name == ("sum of bucket 4",)
        assert off.share.item() == pytest.approx(1.1, rel=0.01)

    def test_many_small_changes_in_one_direction(self) -> None:
        flat = torch.zeros(1, 100_000, dtype=torch.float64)
        flat[0, :8] = 2.0
        observed = flat + 2 * ALLOWED
        observed[0, :8] = 2.0

        off = held(flat, observed)

        assert off.name == ("log-sum-exp",)
        assert off.share.item() == pytest.approx(2.0, rel=0.01)

    @pytest.mark.parametrize("bad", [NAN, INF, -INF])
    def test_a_logit_that_is_no_number(self, bad: float) -> None:
        row = logits()
        observed = row.clone()
        observed[0, lowest(row[0])] = bad

        assert held(row, observed).share.tolist() == [INF]

    def test_a_compact_golden_sees_what_left_and_entered_the_top_of_another(self) -> None:
        before = torch.tensor([[9.0, 8.0, 1.0, 0.0]]).double()
        left, entered = torch.tensor([[9.0, 0.0, 1.0, 0.0]]), torch.tensor([[9.0, 8.0, 12.0, 0.0]])
        limits = torch.ones(1).double()

        names = [
            worst(Compact.of(before, top=2).compared(Compact.of(now, top=2), limits)).name for now in (left, entered)
        ]

        assert names == [("logit 1",), ("logit outside the top 2, id 2",)]

    def test_other_buckets_are_not_compared(self) -> None:
        row, limits = logits(), torch.ones(1).double()

        told = Compact.of(row).compared(Compact.of(row, seed=SEED + 1), limits)

        assert [quantity.noun for quantity in told] == ["logit", "logit outside the top 256, id", "log-sum-exp"]


class TestWhatIsNotSeen:
    def test_it_is_said(self) -> None:
        assert BLIND == (
            "outside the 256 largest logits of a row a compact golden sees only signed sums of 64: one logit that "
            "moves by less than 64 allowances and stays outside is not seen, nor are changes that cancel in their sum"
        )

    def test_an_outer_logit_that_falls_by_less_than_a_bucket_of_allowances(self) -> None:
        row = logits()
        observed = row.clone()
        order, _ = _projection(VOCAB, SEED)
        outer = int(next(entry for entry in order[:BUCKET] if row[0, entry] < 0))
        observed[0, outer] -= 0.99 * BUCKET * ALLOWED

        assert float(held(row, observed).share) <= 1

    def test_changes_that_cancel_in_their_bucket(self) -> None:
        row = -logits().abs()
        order, signs = _projection(VOCAB, SEED)
        one, other = (int(order[signs == sign][0]) for sign in (1, -1))
        observed = row.clone()
        observed[0, [one, other]] = row[0, [one, other]] = -50.0
        observed[0, [one, other]] -= 1000 * ALLOWED

        assert {place // BUCKET for place in map(order.tolist().index, (one, other))} == {0}
        assert float(held(row, observed).share) <= 1
