"""The worst number of each observation, over everything that is compared."""

from __future__ import annotations

import pytest
import torch

from evseq.verdict.standard import Quantity, worst

INF, NAN = torch.inf, torch.nan


def quantity(
    actual: list[list[float]],
    expected: list[list[float]],
    *,
    allowed: float = 1.0,
    noun: str = "logit",
    number: list[list[int]] | None = None,
) -> Quantity:
    return Quantity(
        noun=noun,
        number=None if number is None else torch.tensor(number),
        actual=torch.tensor(actual).double(),
        expected=torch.tensor(expected).double(),
        allowed=torch.full((len(actual), len(actual[0])), allowed).double(),
    )


def test_it_is_the_largest_share_and_says_of_what() -> None:
    off = worst([quantity([[1.0, 5.0]], [[1.5, 2.0]], allowed=2.0, number=[[7, 9]])])

    assert (off.name, off.share.tolist()) == (("logit 9",), [1.5])
    assert (off.actual.tolist(), off.expected.tolist(), off.allowed.tolist()) == ([5.0], [2.0], [2.0])


def test_observations_are_told_apart() -> None:
    off = worst([quantity([[1.0, 0.0], [0.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]], number=[[3, 4], [5, 6]])])

    assert (off.name, off.share.tolist()) == (("logit 3", "logit 6"), [1.0, 4.0])


def test_the_worst_kind_is_told_for_each_observation() -> None:
    logits = quantity([[3.0], [1.0]], [[0.0], [0.0]], number=[[5], [5]])
    sums = quantity([[1.0], [3.0]], [[0.0], [0.0]], noun="log-sum-exp", allowed=0.5)

    off = worst([logits, sums])

    assert (off.name, off.share.tolist()) == (("logit 5", "log-sum-exp"), [3.0, 6.0])
    assert (off.actual.tolist(), off.allowed.tolist()) == ([3.0, 3.0], [1.0, 0.5])


def test_a_share_is_of_what_that_number_is_allowed() -> None:
    mixed = Quantity(
        noun="logit",
        number=torch.tensor([[0, 1]]),
        actual=torch.tensor([[1.0, 3.0]]).double(),
        expected=torch.zeros(1, 2).double(),
        allowed=torch.tensor([[0.1, 10.0]]).double(),
    )

    assert worst([mixed]).name == ("logit 0",)


def test_what_is_equal_uses_nothing_even_of_nothing() -> None:
    assert worst([quantity([[2.0]], [[2.0]], allowed=0.0)]).share.tolist() == [0.0]


def test_anything_is_too_much_of_nothing() -> None:
    assert float(worst([quantity([[2.0]], [[2.0 + 2.0**-20]], allowed=0.0)]).share) > 1


@pytest.mark.parametrize(
    ("actual", "expected", "allowed"),
    [
        (NAN, 0.0, 1.0),
        (0.0, NAN, 1.0),
        (INF, INF, 1.0),
        (-INF, 0.0, 1.0),
        (0.0, 1.0, NAN),
        (0.0, 1.0, INF),
        (1.0, 1.0, NAN),
    ],
)
def test_nothing_is_close_where_a_side_or_the_allowance_is_no_number(
    actual: float, expected: float, allowed: float
) -> None:
    assert worst([quantity([[0.0, actual]], [[0.0, expected]], allowed=allowed)]).share.tolist() == [INF]
