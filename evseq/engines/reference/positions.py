"""Positions inside the cached step: rotary turns and ALiBi slopes. The uncached forward has its own."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["rotary", "slopes", "turn", "wide"]


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype for norms, softmax and angles: float32 for half precision, as real decoders do."""
    return dtype if dtype == torch.float64 else torch.float32


def rotary(
    positions: Int[Tensor, "row query"], *, head_dim: int, theta: float, dtype: torch.dtype
) -> tuple[Float[Tensor, "row 1 query half"], Float[Tensor, "row 1 query half"]]:
    """Return cosine and sine of each token's angles (Su et al. 2021, arXiv 2104.09864, equation 15)."""
    half = head_dim // 2
    exponents = torch.arange(half, dtype=wide(dtype)) / half  # half
    angles = positions[:, None, :, None] * theta**-exponents  # row 1 query half
    return angles.cos().to(dtype), angles.sin().to(dtype)


def turn(
    states: Float[Tensor, "row head query head_dim"],
    angles: tuple[Float[Tensor, "row 1 query half"], Float[Tensor, "row 1 query half"]],
) -> Float[Tensor, "row head query head_dim"]:
    """Turn each pair (i, i + half) of a head by its token's angles."""
    cosine, sine = angles
    first, second = states.chunk(2, dim=-1)  # row head query half
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def slopes(heads: int, *, dtype: torch.dtype) -> Float[Tensor, " head"]:
    """Return how much each head's score falls per position (Press et al. 2022, arXiv 2108.12409, section 3)."""
    return 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1, dtype=wide(dtype)))
