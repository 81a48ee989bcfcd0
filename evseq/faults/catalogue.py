"""Catalogue: every fault by its name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from evseq.faults import (
    beam,
    both,
    chunk,
    combined,
    crop,
    dtype,
    fork,
    guard,
    hybrid,
    lossy,
    mask,
    memory,
    multimodal,
    order,
    pool,
    pool_keys,
    positions,
    reuse,
    rope,
    rows,
    serialize,
    state,
    static,
    window,
)
from evseq.faults.fault import Fault

__all__ = ["FAULTS"]

ROOMS = (
    positions,
    mask,
    window,
    beam,
    crop,
    fork,
    reuse,
    pool_keys,
    pool,
    serialize,
    dtype,
    lossy,
    rope,
    chunk,
    static,
    hybrid,
    state,
    multimodal,
    memory,
    rows,
    order,
    combined,
    both,
)

FAULTS: Mapping[str, Fault] = MappingProxyType(
    {found.name: found for room in ROOMS for found in vars(room).values() if isinstance(found, Fault)}
    | dict(guard.LEFT_OUT)
)
"""What `TARGET+NAME` may name."""
