"""Bounds: how many tokens must come from a cache."""

from __future__ import annotations

from evseq.script.events import Reused

__all__ = ["holds"]


def holds(reused: Reused, limit: int, used: int) -> bool:
    """Return whether `used` tokens are as many as the expectation says."""
    if reused.most is not None:
        return used <= limit
    if reused.least is not None:
        return used >= limit
    return used == limit
