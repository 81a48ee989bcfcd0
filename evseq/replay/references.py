"""References: what every observed history should be, and how far low precision is from it uncached."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxtyping import Bool, Float
from torch import Tensor

from evseq.geometry import Deciding, Dtype

__all__ = ["References"]


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """Uncached logits by history; `nodes` ascend.

    `truth` is the deciding dtype's, in float64; `scale` its largest magnitude; `err[dtype]` the largest distance over
    the vocabulary of the uncached forward in `dtype` from `truth`, alone or behind masked slots, below float64;
    `finite[dtype]` whether these forwards were finite. `changed` says of each dtype whose uncached forward was not the
    same after the replay as before it what it did. `loss` is how far truth under a policy that rounds numbers is from
    the truth of a model that does not; None under any other.
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
    loss: Float[Tensor, " node"] | None = None

    def places(self, nodes: tuple[int, ...]) -> list[int]:
        """Return where each node stands in the tensors. Raises KeyError for a history nobody asked about."""
        found = [bisect_left(self.nodes, node) for node in nodes]
        for node, place in zip(nodes, found, strict=True):
            if place == len(self.nodes) or self.nodes[place] != node:
                raise KeyError(node)
        return found
