"""Storing: which storage a layer gets in a kind of cache."""

from __future__ import annotations

from typing import assert_never

import torch

from evseq.engines.reference.caches import Fixed, Growing, Ring
from evseq.engines.reference.kinds import CACHES
from evseq.engines.reference.rounding import Blocks, Quantised
from evseq.engines.reference.storage import Storage
from evseq.errors import EngineError
from evseq.geometry import CacheKind, Keep, Layer, Layout

__all__ = ["storage"]


def storage(layer: Layer, *, kind: CacheKind, layout: Layout, dtype: torch.dtype) -> Storage:
    """Return the empty storage of `layer` in a cache of `kind`."""
    empty = _empty(layer, kind, layout, dtype)
    empty.kind = kind
    return empty


def _empty(layer: Layer, kind: CacheKind, layout: Layout, dtype: torch.dtype) -> Storage:
    if kind.quantisation:
        rounding = Blocks if "block" in dict(kind.quantisation) else Quantised
        return rounding(layer, layout, dtype, kind=kind)
    keep = kind.full if layer.window is None else kind.sliding
    match keep:
        case Keep.EVERY:
            return Growing(layer, layout, dtype)
        case Keep.CAPACITY:
            return Fixed(layer, layout, dtype)
        case Keep.RING:
            return Ring(layer, layout, dtype)
        case Keep.TAIL | Keep.WINDOW:
            known = ", ".join(known.name for known in CACHES)
            raise EngineError(f"open: the reference does not keep {keep!r}\n  help: use one of {known}")
    assert_never(keep)
