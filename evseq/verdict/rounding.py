"""Rounding: how far the cached and the uncached side of one recording are from truth, history by history."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from evseq.replay.recording import Recording
from evseq.replay.references import References
from evseq.verdict.compare import deviation
from evseq.verdict.result import ErrorRatio

__all__ = ["Rounding", "rounding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """Distances from truth over the vocabulary, in logits, of the histories that were observed; `nodes` ascend.

    `cached` is the largest over all observations of a history, `uncached` what `References.err` says of it: none in
    the deciding dtype where that is float64, whose uncached forward is truth. Infinite where a side is no number.
    """

    nodes: tuple[int, ...]
    cached: Float[Tensor, " node"]
    uncached: Float[Tensor, " node"]

    @property
    def ratio(self) -> ErrorRatio | None:
        """The largest of each side; None where nothing was observed."""
        if not self.nodes:
            return None
        return ErrorRatio(cached=float(self.cached.max()), uncached=float(self.uncached.max()))


def rounding(recording: Recording, references: References) -> Rounding:
    """Compare every observation, and the uncached forward in its dtype, with truth."""
    largest = torch.full((len(references.nodes),), -1.0, dtype=torch.float64)  # node, below 0 where nobody looked
    for fed in recording.fed:
        places = torch.tensor(references.places(fed.nodes), dtype=torch.long)  # observation
        if len(places):  # a chunk of nothing but masked slots has none
            off = deviation(fed.logits, references.truth[places]).largest
            largest = largest.scatter_reduce(0, places, off, "amax")
    observed = (largest >= 0).nonzero().flatten()
    return Rounding(
        nodes=tuple(references.nodes[place] for place in observed.tolist()),
        cached=largest[observed],
        uncached=references.err[recording.dtype][observed].nan_to_num(nan=torch.inf, posinf=torch.inf),
    )
