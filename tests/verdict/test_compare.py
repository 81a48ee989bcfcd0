from __future__ import annotations

import torch

from evseq.verdict.compare import Excess, beyond, deviation, differing

INF, NAN = torch.inf, torch.nan


class TestDeviation:
    def test_it_is_the_largest_difference_and_its_entry(self) -> None:
        found = deviation(torch.tensor([[1.0, 5.0, 3.0]]), torch.tensor([[1.0, 2.0, 7.0]]))

        assert (found.largest.tolist(), found.entry.tolist()) == ([4.0], [2])

    def test_observations_are_told_apart(self) -> None:
        found = deviation(torch.tensor([[1.0, 1.0], [0.0, 2.0]]), torch.ones(2, 2))

        assert (found.largest.tolist(), found.entry.tolist()) == ([0.0, 1.0], [0, 0])

    def test_differences_of_either_sign_do_not_cancel(self) -> None:
        assert deviation(torch.tensor([[1.0, -1.0]]), torch.zeros(1, 2)).largest.tolist() == [1.0]

    def test_it_is_taken_in_double_precision(self) -> None:
        actual = torch.tensor([[1.0]], dtype=torch.bfloat16)

        found = deviation(actual, torch.tensor([[1.0 + 2.0**-40]], dtype=torch.float64))

        assert found.largest.tolist() == [2.0**-40]

    def test_nothing_is_close_to_what_is_no_number(self) -> None:
        sides = (torch.tensor([[NAN, 0.0], [INF, 0.0], [0.0, -INF], [0.0, 0.0]]), torch.zeros(4, 2))

        assert deviation(*sides).largest.tolist() == [INF, INF, INF, 0.0]
        assert deviation(*reversed(sides)).largest.tolist() == [INF, INF, INF, 0.0]

    def test_two_infinities_are_not_close_either(self) -> None:
        assert deviation(torch.tensor([[INF]]), torch.tensor([[INF]])).largest.tolist() == [INF]


class TestBeyond:
    def test_it_tells_place_entry_and_how_many_allowances(self) -> None:
        found = beyond(torch.tensor([[0.0, 1.0], [5.0, 3.0]]), torch.ones(2, 2), torch.tensor([1.0, 2.0]))

        assert list(found) == [Excess(place=1, entry=0, actual=5.0, expected=1.0, off=4.0, allowed=2.0, share=2.0)]

    def test_an_allowance_of_nothing_or_of_no_number_allows_nothing(self) -> None:
        found = beyond(torch.ones(3, 1), torch.zeros(3, 1), torch.tensor([0.0, NAN, 1.0]))

        assert [one.place for one in found] == [0, 1]

    def test_only_usable_observations_are_looked_at(self) -> None:
        found = beyond(torch.ones(2, 1), torch.zeros(2, 1), torch.zeros(2), usable=torch.tensor([False, True]))

        assert [one.place for one in found] == [1]


class TestDiffering:
    def test_equal_bits_do_not_differ(self) -> None:
        assert differing(torch.ones(3, 2), torch.ones(3, 2)) == []

    def test_one_unit_in_the_last_place_differs(self) -> None:
        actual = torch.ones(3, 2, dtype=torch.float64)
        actual[1, 0] += 2.0**-52

        assert differing(actual, torch.ones(3, 2, dtype=torch.float64)) == [1]

    def test_the_sign_of_zero_differs(self) -> None:
        assert differing(torch.tensor([[-0.0]]), torch.tensor([[0.0]])) == [0]

    def test_the_same_nan_does_not_differ(self) -> None:
        assert differing(torch.tensor([[NAN]]), torch.tensor([[NAN]])) == []

    def test_it_reads_every_dtype(self) -> None:
        one = torch.tensor([[1.0], [2.0]])
        other = torch.tensor([[1.0], [2.5]])
        dtypes = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

        assert [differing(one.to(dtype), other.to(dtype)) for dtype in dtypes] == [[1]] * 4

    def test_two_dtypes_always_differ(self) -> None:
        assert differing(torch.ones(2, 1), torch.ones(2, 1, dtype=torch.float64)) == [0, 1]

    def test_strides_do_not_matter(self) -> None:
        table = torch.arange(6.0).view(2, 3)

        assert differing(table.t(), table.t().contiguous()) == []
