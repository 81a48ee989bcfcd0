"""References: what every observed history should be, and how far low precision is from it uncached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxtyping import Bool, Float
from torch import Tensor

from evseq.geometry import Deciding, Dtype

__all__ = ["References"]


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """Uncached logits by history.

    `truth` is the deciding dtype's, in float64; `scale` its largest magnitude; `err[dtype]` the largest distance over
    the vocabulary of the uncached forward in `dtype` from `truth` (of padded from unpadded where float32 decides);
    `finite[dtype]` whether that forward was finite. `changed` says of each dtype whose uncached forward was not the
    same after the replay as before it what it did.
    """

    nodes: tuple[int, ...]
    truth: Float[Tensor, "node vocab"]
    scale: Float[Tensor, " node"]
    err: Mapping[Dtype, Float[Tensor, " node"]]
    finite: Mapping[Dtype, Bool[Tensor, " node"]]
    deciding: Deciding
    dependent: bool
    causal_gap: float
    layers: int
    changed: Mapping[Dtype, str] = field(default_factory=dict)

    def places(self, nodes: tuple[int, ...]) -> list[int]:
        """Return where each node stands in the tensors."""
        where = {node: place for place, node in enumerate(self.nodes)}
        return [where[node] for node in nodes]
