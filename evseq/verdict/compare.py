"""Compare: actual against expected logits, as pure functions on tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["Deviation", "deviation", "differing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """The largest distance of each observation from what it should be, and where in the vocabulary it lies.

    Infinite where either side is not finite: nothing that is not a number is close to anything.
    """

    largest: Float[Tensor, " observation"]
    entry: Int[Tensor, " observation"]


def deviation(actual: Float[Tensor, "observation vocab"], expected: Float[Tensor, "observation vocab"]) -> Deviation:
    """Return the largest absolute difference per observation; never a mean, a sum or a share."""
    gap = (actual.double() - expected.double()).abs()
    largest, entry = gap.masked_fill(~torch.isfinite(gap), torch.inf).max(-1)
    return Deviation(largest=largest, entry=entry)


def differing(actual: Float[Tensor, "observation vocab"], expected: Float[Tensor, "observation vocab"]) -> list[int]:
    """Return the observations that are not bit-equal; two NaN of the same bits are equal, two dtypes never."""
    if actual.dtype != expected.dtype:
        return list(range(len(actual)))
    words = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[actual.element_size()]
    unequal = actual.contiguous().view(words) != expected.contiguous().view(words)
    return unequal.any(-1).nonzero().flatten().tolist()
