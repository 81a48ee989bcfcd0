"""The tests run with shapes checked: a wrong one is caught, a right one is not."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import TypeCheckError

import shapes
from evseq.engines.protocol import Batch, CacheView, LayerView


def test_a_mask_of_another_width_is_caught() -> None:
    tokens, mask = torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 4, dtype=torch.bool)
    with pytest.raises(TypeCheckError, match=r"parameter 'mask'\.\nActual value: bool\[2,4\]"):
        Batch(tokens=tokens, mask=mask, positions=None)


def test_tokens_that_are_no_integers_are_caught() -> None:
    mask = torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(TypeCheckError, match=r"parameter 'tokens'\.\nActual value: f32\[2,3\]"):
        Batch(tokens=torch.zeros(2, 3), mask=mask, positions=None)


def test_shapes_that_agree_pass() -> None:
    batch = Batch(tokens=torch.zeros(2, 3, dtype=torch.long), mask=torch.ones(2, 3, dtype=torch.bool), positions=None)
    assert batch.tokens.shape == (2, 3)


def test_other_annotations_are_left_to_mypy() -> None:
    layers: list[LayerView] = []
    assert CacheView(layers=layers).layers is layers  # type: ignore[arg-type, comparison-overlap]


def test_enough_calls_of_one_test_are_checked_and_then_no_more() -> None:
    tokens, mask = torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 3, dtype=torch.bool)
    for _ in range(shapes.ENOUGH):
        Batch(tokens=tokens, mask=mask, positions=None)

    assert Batch(tokens=tokens, mask=mask[:1], positions=None).mask.shape == (1, 3)


def test_the_next_test_is_checked_again() -> None:
    with pytest.raises(TypeCheckError):
        Batch(tokens=torch.zeros(2, 3), mask=torch.ones(2, 3, dtype=torch.bool), positions=None)
