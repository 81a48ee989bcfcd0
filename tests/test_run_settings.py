"""A value of the settings that would do nothing is refused where it is said."""

from __future__ import annotations

from typing import Any

import pytest

from evseq.errors import UsageError
from evseq.pipeline import Settings


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            {"mode": "pairwize"},
            "no selection of arms 'pairwize'\n  help: did you mean 'pairwise'? known: pairwise, all",
        ),
        ({"threads": 0}, "threads: 0 is no number of threads\n  help: use a whole number from 1"),
        ({"workers": -1}, "workers: -1 is no number of workers\n  help: use a whole number from 1"),
        (
            {"only": {"dtype": "float64"}},
            "only: arm 'dtype': 'float64' are no values\n  help: name them, as in {'dtype': ('float64',)}",
        ),
        (
            {"only": {"dtype": ()}},
            "only: arm 'dtype': () are no values\n  help: name them, as in {'dtype': ('float64',)}",
        ),
    ],
)
def test_a_value_that_would_do_nothing_is_refused(said: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        Settings(**said)

    assert str(error.value) == message


def test_any_other_stands() -> None:
    assert Settings(mode="all", only={"dtype": ("float64",)}, threads=2, workers=3).mode == "all"
