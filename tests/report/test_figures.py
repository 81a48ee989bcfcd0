from __future__ import annotations

import pytest

from evseq.report.figures import counted, duration, figure


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (None, "-"),
        (0.0, "0 us"),
        (0.000123, "123 us"),
        (0.00123, "1.23 ms"),
        (0.5, "500 ms"),
        (0.9996, "1 s"),
        (1.0, "1.0 s"),
        (59.94, "59.9 s"),
        (61.5, "1 min 01 s"),
        (3725.0, "62 min 05 s"),
    ],
)
def test_seconds_are_told_in_the_unit_that_keeps_them_short(seconds: float | None, told: str) -> None:
    assert duration(seconds) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [(None, "-"), (0.0, "0"), (0.0214, "0.021"), (1.0, "1"), (78312.0, "7.8e+04"), (float("inf"), "inf")],
)
def test_numbers_of_any_size_are_told_in_two_digits(value: float | None, told: str) -> None:
    assert figure(value) == told


@pytest.mark.parametrize(("number", "told"), [(0, "0 cases"), (1, "1 case"), (1200, "1,200 cases")])
def test_a_noun_follows_its_number(number: int, told: str) -> None:
    assert counted(number, "case") == told
