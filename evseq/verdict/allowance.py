"""Allowance: how close is close. The table of design 7, as one function per line of it."""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor

from evseq.geometry import Deciding, Dtype
from evseq.replay.references import References

__all__ = ["KAPPA", "PLAUSIBLE", "allowance", "implausible"]

KAPPA = 6.0
"""Healthy deviations are up to 2.4 times err in float32 and 1.2 times in bfloat16 (SmolLM2-135M, err as the larger of
two uncached forwards of unlike width); the smallest fault measured is 16 times (one value of one head in one layer
zeroed, one token repeated)."""

PLAUSIBLE = 64.0
"""Rounding errors of a forward, in units of epsilon times the root of the layers times the largest logit. Beyond kappa
times this a reference is not rounding but wrong, and the float64 arm is held to the same. Measured: SmolLM2-135M fed
sixteen control tokens in a row is 54 units off in float64 and 140 in float32, and healthy in both."""


def allowance(dtype: Dtype, references: References) -> Float[Tensor, " node"]:
    """Return the largest deviation from truth that each history is allowed in `dtype`, in logits."""
    if dtype is Dtype.FLOAT64:
        match references.deciding:
            case Deciding.MIXED:
                return KAPPA * Dtype.FLOAT32.epsilon * references.scale
            case _:
                return KAPPA * PLAUSIBLE * _rounding(dtype, references)
    floor = _rounding(dtype, references)
    return KAPPA * references.err[dtype].maximum(floor)


def implausible(dtype: Dtype, references: References) -> Float[Tensor, " node"]:
    """Return err as a fraction of what rounding can explain; above 1 the uncached side itself is suspect."""
    return references.err[dtype] / (KAPPA * PLAUSIBLE * _rounding(dtype, references)).clamp_min(1e-300)


def _rounding(dtype: Dtype, references: References) -> Float[Tensor, " node"]:
    return dtype.epsilon * math.sqrt(references.layers) * references.scale
