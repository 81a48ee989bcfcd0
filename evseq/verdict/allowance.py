"""Allowance: how close is close. The table of design 7, as one function per line of it."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from evseq.geometry import Deciding, Dtype
from evseq.replay.references import References

__all__ = ["KAPPA", "PLAUSIBLE", "allowance", "implausible", "suspect"]

KAPPA = 6.0
"""Settled by `evseq audit --seeds`: the suite on every reference configuration and on new llama, mistral and gpt2
models, rows as they are, drawn from other seeds, and of one repeated token. 8,400 healthy cases, no false alarm; the
largest share of an allowance was 0.027 in float64, 0.35 in float32 (2.1 times err) and 0.28 in bfloat16 (1.7 times).
SmolLM2-135M: 2.4 times err in float32 and 1.2 in bfloat16, err as the larger of two uncached forwards of unlike width.

Of 207 planted faults the smallest that moves a logit is 5e4 allowances in float64 and 3.4 in float32 (20 times err: a
cache that rounds all tokens of a forward by one scale); in bfloat16 what is caught at all begins at 1.1. One value of
one head in one layer of SmolLM2-135M zeroed, one token repeated, is 16 times err in float32. So any factor from 2.4 to
16 gives the same verdicts on all of these, and 6 is the geometric mean. bfloat16 has no such gap: it decides nought."""

PLAUSIBLE = 64.0
"""Rounding errors of a forward, in units of epsilon times the root of the layers times the largest logit. Beyond kappa
times this a reference is not rounding but wrong, and the float64 arm is held to the same. Measured: SmolLM2-135M fed
sixteen control tokens in a row is 54 units off in float64 and 140 in float32, and healthy in both."""


NEIGHBOURS = 25
"""Histories to each side, in the order they were made, whose err counts too. Over prompts of 600 tokens (20 seeds,
float32 on the reference engine) healthy deviations reach 8.6 times a history's own err, 3.4 times its neighbours'."""


def allowance(dtype: Dtype, references: References) -> Float[Tensor, " node"]:
    """Return the largest deviation from truth that each history is allowed in `dtype`, in logits.

    Under a policy that rounds numbers to steps, the rounding of a dtype may put one on the next step. In float64 that
    does not happen; elsewhere what all steps together cost at a history bounds what a few can.
    """
    limits = _allowed(dtype, references)
    if references.loss is None or (dtype is Dtype.FLOAT64 and references.deciding is Deciding.PURE):
        return limits
    return limits.maximum(_pooled(references.loss, references.scale))


def _allowed(dtype: Dtype, references: References) -> Float[Tensor, " node"]:
    if dtype is Dtype.FLOAT64:
        match references.deciding:
            case Deciding.MIXED:
                return KAPPA * Dtype.FLOAT32.epsilon * references.scale
            case _:
                return KAPPA * PLAUSIBLE * _rounding(dtype, references)
    floor = _rounding(dtype, references)
    return KAPPA * _pooled(references.err[dtype], references.scale).maximum(floor)


def _pooled(err: Float[Tensor, " node"], scale: Float[Tensor, " node"]) -> Float[Tensor, " node"]:
    """Return err as the largest share of scale among a history and its neighbours: one sample alone may be lucky."""
    share = (err / scale.clamp_min(1e-300)).nan_to_num(nan=0.0, posinf=0.0)
    width = 2 * NEIGHBOURS + 1
    largest = torch.nn.functional.max_pool1d(share[None, None], width, stride=1, padding=NEIGHBOURS)[0, 0]
    return err.maximum(largest * scale)


def suspect(dtype: Dtype, references: References) -> Float[Tensor, " node"]:
    """Return err as a fraction of what rounding can explain, 0 where a side is not finite; above 1 it is suspect."""
    known = references.finite[dtype] & references.finite[references.deciding.dtype]
    return implausible(dtype, references).masked_fill(~known, 0.0).nan_to_num(nan=torch.inf)


def implausible(dtype: Dtype, references: References) -> Float[Tensor, " node"]:
    """Return err as a fraction of what rounding can explain; above 1 the uncached side itself is suspect."""
    explained = KAPPA * PLAUSIBLE * _rounding(dtype, references)
    if references.loss is not None:
        explained = explained.maximum(_pooled(references.loss, references.scale))
    return references.err[dtype] / explained.clamp_min(1e-300)


def _rounding(dtype: Dtype, references: References) -> Float[Tensor, " node"]:
    return dtype.epsilon * math.sqrt(references.layers) * references.scale
