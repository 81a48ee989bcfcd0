"""Kinds: the caches of the reference engine, and what each promises (no torch)."""

from __future__ import annotations

from evseq.geometry import CacheKind, Keep, Promise

__all__ = ["CACHES"]

EXACT = (
    CacheKind(name="growing", full=Keep.EVERY, sliding=Keep.EVERY),
    CacheKind(name="fixed", full=Keep.CAPACITY, sliding=Keep.CAPACITY),
    CacheKind(name="ring", full=Keep.CAPACITY, sliding=Keep.RING),
)

QUANTISED = CacheKind(
    name="quantised",
    full=Keep.EVERY,
    sliding=Keep.EVERY,
    promise=Promise.MASKED,
    quantisation=(("bits", 8), ("of", "token and head")),
)
"""Each token's keys and values of each head are rounded by themselves. What a token is rounded to depends on nothing
else, so an uncached forward that rounds as well says what every step must give, whatever the chunking. It is not
`exact` only because the model's own uncached forward, and so a golden, has other logits."""

STREAMING = CacheKind(name="streaming", full=Keep.EVERY, sliding=Keep.EVERY, promise=Promise.MASKED, streams=(2, 6))
"""Where a layer would see everything, a query sees the first 2 tokens and the last 6, itself among them (Xiao et al.
2023, arXiv 2309.17453). Keys keep the positions they were made with. The uncached forward under that mask is truth."""

BLOCKS = CacheKind(
    name="blocks",
    full=Keep.EVERY,
    sliding=Keep.EVERY,
    promise=Promise.LOSSY,
    crops=False,
    quantisation=(("bits", 4), ("block", 4), ("of", "block and channel"), ("residual", 4)),
    envelope=0.2,
)
"""Tokens older than the last 4 are rounded in blocks of 4, once a forward is over. A query of that forward saw them
whole, so another chunking gives other logits and no uncached forward says which. A crop would have to bring back what
rounding took."""

CACHES = (*EXACT, QUANTISED, STREAMING, BLOCKS)
"""Every kind, the default first."""
