"""What a session's cache is made of when it leaves the engine: tensors by name, plus plain scalars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from evseq.cache.canonical import Scalar

__all__ = ["CacheState", "Scalar"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """A cache outside its engine.

    `tensors` are named `layer.N.keys`, `layer.N.values` and whatever else the layer keeps (cumulative lengths,
    held positions, a recurrent state); `scalars` hold the rest. Together they are the whole cache: an engine
    restored from them continues bit for bit. `kind` is the cache kind's name.
    """

    kind: str
    tensors: Mapping[str, Tensor]
    scalars: Mapping[str, Scalar]
