"""One-head arithmetic, the zeroth check: before any model is blamed, one attention with and without a cache."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from evseq.verdict.result import Check, Finding

__all__ = ["Attend", "attend", "one_head"]

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From query [query, head_dim], keys and values [position, head_dim] to [query, head_dim]; the queries are the last
positions, each sees itself and what is before it."""

LENGTHS = (1, 2, 7, 63, 64, 65, 129)
"""Positions in the array: the smallest, and both sides of the tile edges kernels have."""

HEAD_DIM = 16


def attend(
    query: Float[Tensor, "query head_dim"],
    keys: Float[Tensor, "position head_dim"],
    values: Float[Tensor, "position head_dim"],
) -> Float[Tensor, "query head_dim"]:
    """Attend causally: softmax(q k / sqrt(head_dim)) v."""
    scores = query @ keys.T / HEAD_DIM**0.5
    first = keys.shape[0] - query.shape[0]
    hidden = torch.ones_like(scores, dtype=torch.bool).triu(first + 1)
    attended: Tensor = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ values
    return attended


def one_head(cached: Attend = attend) -> tuple[Finding, ...]:
    """Compare one query over a whole array with a cache plus one appended position, in float64.

    Where the operations are the same (the appended array is the whole one) the results must be bit-equal; where they
    are not (all queries at once, or the two parts merged by their log-sum-exp) they must agree within the defaults of
    `torch.testing.assert_close`. `cached` is the attention under test.
    """
    findings = []
    for length in LENGTHS:
        generator = torch.Generator().manual_seed(length)
        query, keys, values = torch.randn(3, length, HEAD_DIM, dtype=torch.float64, generator=generator)
        whole = attend(query[-1:], keys, values)
        appended = cached(query[-1:], torch.cat([keys[:-1], keys[-1:]]), torch.cat([values[:-1], values[-1:]]))
        if not torch.equal(appended, whole):
            findings.append(_finding(length, "cache plus one appended position", appended, whole))
        every = attend(query, keys, values)[-1:]
        for name, actual in (("all queries at once", every), ("two parts merged", _merged(query[-1:], keys, values))):
            if not torch.allclose(actual, appended, rtol=1e-7, atol=1e-7):
                findings.append(_finding(length, name, actual, appended))
    return tuple(findings)


def _merged(query: Tensor, keys: Tensor, values: Tensor) -> Float[Tensor, "query head_dim"]:
    """Attend to the cache and to the appended position apart, then weigh both by their log-sum-exp."""
    scores = query @ keys.T / HEAD_DIM**0.5
    parts = [(scores[:, :-1], values[:-1]), (scores[:, -1:], values[-1:])]
    weights = torch.stack([part.logsumexp(-1) for part, _ in parts]).softmax(0)
    outputs = torch.stack(
        [part.softmax(-1) @ value if value.shape[0] else part.new_zeros(1, HEAD_DIM) for part, value in parts]
    )
    return (weights[..., None] * outputs).sum(0)


def _finding(length: int, name: str, actual: Tensor, expected: Tensor) -> Finding:
    gap = (actual - expected).abs().max().item()
    return Finding(
        check=Check.ARITHMETIC,
        place="one head",
        event="append",
        step=0,
        row=None,
        index=length - 1,
        message=f"{name}: off by {gap:.3g} over {length} positions in float64",
        actual=f"{actual.flatten()[0].item():.17g}",
        expected=f"{expected.flatten()[0].item():.17g}",
        cause="this machine's torch does not attend the same way twice; no model is to blame yet",
    )
