"""Standard: what was accepted at a revision, as a check sees it. A golden is one; a lossy summary of one is another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

__all__ = ["Accepted", "AcceptedLogits", "Missing", "Quantity", "Worst", "worst"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """Numbers of one kind held to accepted ones: logits themselves, or what a compact golden keeps of a row.

    `noun` is how a message calls one of them; `number` is what follows the noun, None where there is one a row.
    """

    noun: str
    number: Int[Tensor, "observation entry"] | None
    actual: Float[Tensor, "observation entry"]
    expected: Float[Tensor, "observation entry"]
    allowed: Float[Tensor, "observation entry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The number of each observation that uses the largest share of what it is allowed.

    `share` above 1 is wrong, and infinite where a side or the allowance is no number.
    """

    name: tuple[str, ...]  # by observation
    share: Float[Tensor, " observation"]
    actual: Float[Tensor, " observation"]
    expected: Float[Tensor, " observation"]
    allowed: Float[Tensor, " observation"]


class AcceptedLogits(Protocol):
    """Rows of accepted logits, whole or in part."""

    def quantities(
        self,
        rows: Sequence[int],
        logits: Float[Tensor, "observation vocab"],
        allowed: Float[Tensor, " observation"],
    ) -> tuple[Quantity, ...]:
        """Compare observations with accepted rows, where each logit may be off by `allowed`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A golden as a check sees it: `rows` finds the accepted row of a history by its node, `scale` is by row."""

    revision: str
    rows: Mapping[int, int]
    logits: AcceptedLogits
    scale: Float[Tensor, " row"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """No golden to hold anything to, and why; a failure where one is `required` or what is there is not to be used."""

    message: str
    required: bool


def worst(quantities: Sequence[Quantity]) -> Worst:
    """Return the worst number of each observation over all that is compared."""
    found: Worst | None = None
    for quantity in quantities:
        here = _worst(quantity)
        found = here if found is None else _worse(found, here)
    assert found is not None
    return found


def _worst(quantity: Quantity) -> Worst:
    off = (quantity.actual - quantity.expected).abs()
    share = torch.where(off == 0, off, off / quantity.allowed.clamp_min(1e-300))
    share = share.where(share.isfinite() & quantity.allowed.isfinite(), torch.inf)
    largest, entry = share.max(-1, keepdim=True)

    def at(numbers: Tensor) -> Num[Tensor, " observation"]:
        return numbers.gather(-1, entry)[:, 0]

    count = len(largest)
    named = [""] * count if quantity.number is None else [f" {n}" for n in at(quantity.number).tolist()]
    return Worst(
        name=tuple(f"{quantity.noun}{name}" for name in named),
        share=largest[:, 0],
        actual=at(quantity.actual),
        expected=at(quantity.expected),
        allowed=at(quantity.allowed),
    )


def _worse(one: Worst, two: Worst) -> Worst:
    second = two.share > one.share  # observation
    names = zip(one.name, two.name, second.tolist(), strict=True)
    return Worst(
        name=tuple(other if chosen else name for name, other, chosen in names),
        share=torch.where(second, two.share, one.share),
        actual=torch.where(second, two.actual, one.actual),
        expected=torch.where(second, two.expected, one.expected),
        allowed=torch.where(second, two.allowed, one.allowed),
    )
