"""Each line of the table of allowances, in numbers."""

from __future__ import annotations

import pytest
import torch

from evseq.geometry import Deciding, Dtype
from evseq.replay.references import References
from evseq.verdict.allowance import KAPPA, allowance, implausible

LAYERS, SCALE = 9, 10.0
ROOT = 3.0


def references(
    deciding: Deciding, *, single: float = 0.0, half: float = 0.0, double: float = 0.0, scale: float = SCALE
) -> References:
    """Return the references of one history whose uncached forwards are so far from truth."""
    err = {Dtype.FLOAT64: double, Dtype.FLOAT32: single, Dtype.BFLOAT16: half}
    return References(
        nodes=(1,),
        truth=torch.tensor([[scale, 0.0]], dtype=torch.float64),
        scale=torch.tensor([scale], dtype=torch.float64),
        err={dtype: torch.tensor([value], dtype=torch.float64) for dtype, value in err.items()},
        finite={dtype: torch.tensor([True]) for dtype in err},
        deciding=deciding,
        dependent=False,
        causal_gap=0.0,
        layers=LAYERS,
    )


class TestFloat64:
    def test_a_pure_engine_is_held_to_its_own_rounding(self) -> None:
        assert allowance(Dtype.FLOAT64, references(Deciding.PURE)).tolist() == [
            pytest.approx(6 * 64 * 2.0**-52 * ROOT * SCALE, rel=1e-12)
        ]

    def test_a_mixed_engine_is_held_to_that_of_float32(self) -> None:
        assert allowance(Dtype.FLOAT64, references(Deciding.MIXED)).tolist() == [
            pytest.approx(6 * 2.0**-23 * SCALE, rel=1e-12)
        ]

    @pytest.mark.parametrize("deciding", [Deciding.PURE, Deciding.MIXED])
    def test_what_the_uncached_side_does_in_float32_widens_nothing(self, deciding: Deciding) -> None:
        noisy = references(deciding, single=1.0, half=1.0)

        assert allowance(Dtype.FLOAT64, noisy).tolist() == allowance(Dtype.FLOAT64, references(deciding)).tolist()


class TestLowerPrecision:
    def test_it_is_six_times_the_distance_of_the_uncached_side_from_truth(self) -> None:
        noisy = references(Deciding.PURE, single=1e-3, half=0.5)

        assert allowance(Dtype.FLOAT32, noisy).tolist() == [pytest.approx(6e-3, rel=1e-12)]
        assert allowance(Dtype.BFLOAT16, noisy).tolist() == [pytest.approx(3.0, rel=1e-12)]

    def test_it_is_never_below_six_roundings(self) -> None:
        lucky = references(Deciding.PURE)

        assert allowance(Dtype.FLOAT32, lucky).tolist() == [pytest.approx(6 * 2.0**-23 * ROOT * SCALE, rel=1e-12)]
        assert allowance(Dtype.BFLOAT16, lucky).tolist() == [pytest.approx(6 * 2.0**-7 * ROOT * SCALE, rel=1e-12)]

    def test_without_double_precision_it_is_six_times_what_pads_move(self) -> None:
        assert allowance(Dtype.FLOAT32, references(Deciding.SINGLE, single=1e-3)).tolist() == [
            pytest.approx(6e-3, rel=1e-12)
        ]

    def test_a_lucky_history_has_the_err_of_its_neighbours_to_its_own_scale(self) -> None:
        both = References(
            nodes=(1, 2),
            truth=torch.tensor([[10.0], [20.0]], dtype=torch.float64),
            scale=torch.tensor([10.0, 20.0], dtype=torch.float64),
            err={Dtype.FLOAT32: torch.tensor([1e-3, 0.0], dtype=torch.float64)},
            finite={},
            deciding=Deciding.PURE,
            dependent=False,
            causal_gap=0.0,
            layers=1,
        )

        assert allowance(Dtype.FLOAT32, both).tolist() == pytest.approx([6e-3, 6 * 2e-3], rel=1e-12)

    def test_what_is_no_number_allows_nothing(self) -> None:
        assert not bool((torch.zeros(1) <= allowance(Dtype.FLOAT32, references(Deciding.PURE, single=torch.nan))).all())


class TestImplausible:
    def test_kappa_times_64_roundings_are_just_plausible(self) -> None:
        most = KAPPA * 64 * 2.0**-23 * ROOT * SCALE

        assert implausible(Dtype.FLOAT32, references(Deciding.PURE, single=most)).tolist() == [
            pytest.approx(1.0, rel=1e-12)
        ]

    def test_truth_is_as_plausible_as_can_be(self) -> None:
        assert implausible(Dtype.FLOAT64, references(Deciding.PURE)).tolist() == [0.0]

    def test_logits_that_are_all_zero_explain_nothing(self) -> None:
        assert implausible(Dtype.FLOAT32, references(Deciding.PURE, scale=0.0)).tolist() == [0.0]
        assert implausible(Dtype.FLOAT32, references(Deciding.PURE, scale=0.0, single=1e-9)).item() > 1
