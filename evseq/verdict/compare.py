"""Compare: actual against expected logits, as pure functions on tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["Deviation", "Excess", "beyond", "deviation", "differing", "share"]

TINY = 1e-300
"""Stands for an allowance of nothing, of which any distance is more than the whole."""


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


def share(off: Float[Tensor, "*observation"], allowed: Float[Tensor, "*observation"]) -> Float[Tensor, "*observation"]:
    """Return how many allowances each distance is."""
    return off / allowed.clamp_min(TINY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """An observation that is too far off: its place, its worst entry of the vocabulary, both numbers, and how far."""

    place: int
    entry: int
    actual: float
    expected: float
    off: float
    allowed: float
    share: float


def beyond(
    actual: Float[Tensor, "observation vocab"],
    expected: Float[Tensor, "observation vocab"],
    allowed: Float[Tensor, " observation"],
    *,
    usable: Bool[Tensor, " observation"] | None = None,
) -> Iterator[Excess]:
    """Yield the observations that are further from what they should be than allowed; of all, or the `usable` ones."""
    found = deviation(actual, expected)
    wrong = ~(found.largest <= allowed)  # not "larger than": an allowance that is no number allows nothing
    for place in (wrong if usable is None else wrong & usable).nonzero().flatten().tolist():
        entry = int(found.entry[place])
        yield Excess(
            place=place,
            entry=entry,
            actual=float(actual[place, entry]),
            expected=float(expected[place, entry]),
            off=float(found.largest[place]),
            allowed=float(allowed[place]),
            share=float(share(found.largest[place], allowed[place])),
        )
