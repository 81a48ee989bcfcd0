"""What a target offers and nobody looked at is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evseq.engines.registry import find
from evseq.geometry import Description
from evseq.verdict.judged import judged
from evseq.verdict.result import Case, Outcome

TARGET = "reference:full"


@pytest.fixture
def description() -> Description:
    """Return the description of an engine with an option of its own."""
    return replace(find(TARGET).describe(), options={"attention": ("plain", "tiled")})


def case(arms: dict[str, str], *, outcome: Outcome = Outcome.PASSED) -> Case:
    return Case(
        id="x", script="x", file="x", target=TARGET, arms=arms, outcome=outcome, dtype=arms.get("dtype", "float64")
    )


def test_a_dtype_and_a_kernel_without_a_case_are_not_judged(description: Description) -> None:
    told = judged(TARGET, description, [case({"dtype": "float64"})])

    assert told.judged == ("float64", "attention plain")
    assert told.not_judged == ("float32", "bfloat16", "attention tiled")


def test_a_kernel_with_its_own_arm_is_judged(description: Description) -> None:
    told = judged(TARGET, description, [case({"dtype": "float64", "reference.attention": "tiled"})])

    assert told.judged == ("float64", "attention tiled")


def test_an_unsupported_case_judges_nothing(description: Description) -> None:
    told = judged(TARGET, description, [case({"dtype": "float64"}, outcome=Outcome.UNSUPPORTED)])

    assert told.judged == ()
