"""Bench: one engine with one of its cache kinds, and what any rule asks about it."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from evseq.engines.protocol import Engine, Loader
from evseq.geometry import CacheKind, Capability, Deciding, Description, Dtype, Layout, Positions

__all__ = ["Bench"]

KAPPA = 6
"""How many times the expected error two right forwards may be apart."""

UNITS = 64
"""Epsilons of expected error, per root of layers."""

LONGEST = 24
"""Windows up to this are crossed; longer ones would make the forwards of a check slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One engine on the stand with one of its cache kinds, and the dice."""

    loader: Loader
    description: Description
    engine: Engine
    kind: CacheKind
    dice: random.Random

    @property
    def rows(self) -> int:
        """Rows of a usual batch."""
        return 3 if self.can(Capability.BATCH) else 1

    @property
    def span(self) -> int:
        """A row length that crosses the smallest window, if it is short enough to be crossed."""
        window = self.description.geometry.window
        return window + 2 if window is not None and window <= LONGEST else 7

    @property
    def crops(self) -> bool:
        """Whether columns can be cut off wherever a row ends."""
        return self.can(Capability.CROP) and self.kind.crops and self.kind.crops_past_window

    @property
    def croppable(self) -> int | None:
        """A row length that the crop rules can start from, staying below 6 columns where a passed window forbids it."""
        window = self.description.geometry.window
        if not self.kind.crops:
            return None
        if self.kind.crops_past_window or window is None:
            return self.span
        return 4 if window > 4 else None  # noqa: PLR2004 - one column more is fed before the first cut

    @property
    def positions(self) -> Positions:
        """Who numbers tokens in a usual trial."""
        return Positions.GIVEN if self.can(Capability.POSITIONS) else Positions.ENGINE

    def can(self, capability: Capability) -> bool:
        """Tell whether the engine declares a capability."""
        return capability in self.description.capabilities

    def tokens(self, count: int) -> list[int]:
        """Roll `count` token ids."""
        return [self.dice.randrange(self.description.geometry.vocab) for _ in range(count)]

    def batch(self, length: int) -> list[list[int]]:
        """Roll a row of `length` ids for each row of a usual batch."""
        return [self.tokens(length) for _ in range(self.rows)]

    def layout(self, *, capacity: int | None = None, depth: int = 0, positions: Positions | None = None) -> Layout:
        """Return a layout with room for what any rule feeds."""
        return Layout(
            rows=self.rows,
            capacity=4 * self.span if capacity is None else capacity,
            depth=depth,
            cache=self.kind.name,
            positions=positions or self.positions,
        )

    def allowed(self, expected: Float[Tensor, "*column vocab"]) -> float:
        """Return how far two right forwards may be apart."""
        dtype, scale = self.engine.dtype, float(expected.abs().max())
        layers = math.sqrt(len(self.description.geometry.layers))
        if dtype is Dtype.FLOAT64 and self.description.deciding is Deciding.MIXED:
            return KAPPA * Dtype.FLOAT32.epsilon * scale
        if dtype in (Dtype.FLOAT64, Dtype.FLOAT32):
            return KAPPA * UNITS * dtype.epsilon * layers * scale
        return KAPPA * dtype.epsilon * layers * scale  # 64 epsilons of half precision would hide anything
