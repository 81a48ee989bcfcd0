"""Joining: the rows of one cache of transformers enter another, layer by layer."""

# mypy: disable-error-code="no-untyped-call"
# Parts of transformers and torch have no types.

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import (
    Cache,
    DynamicSlidingWindowLayer,
    QuantizedLayer,
    StaticLayer,
    StaticSlidingWindowLayer,
)

from evseq.engines.transformers import recurrent
from evseq.engines.transformers.caches import Stored, held, states, stored
from evseq.errors import EngineError

__all__ = ["join"]

States = Float[Tensor, "row kv_head slot head_dim"]
Padded = Float[Tensor, "row kv_head padded head_dim"]


def join(cache: Cache, other: Cache) -> None:
    """Put the rows of `other`, a cache of the same kind and capacity, behind those of `cache`.

    What a layer still holds ends with its last column, so the last columns stand side by side; the narrower side gets
    empty slots in front. Raise `EngineError` for quantised layers, which round by columns fed.
    """
    if any(isinstance(layer, QuantizedLayer) for layer in cache.layers):
        raise EngineError(
            "join: rows of quantised layers wait at different edges\n  help: join with another cache kind"
        )
    for layer, entering in zip(cache.layers, other.layers, strict=True):
        recurrent.join(layer, entering)
    for layer, entering in zip(stored(cache), stored(other), strict=True):
        mine, its = states(layer), states(entering)
        assert mine is not None, "rows are there, so something was fed"
        assert its is not None, "rows are there, so something was fed"
        slots = max(held(layer), held(entering))
        layer.keys, layer.values = (
            _slots(layer, torch.cat((_tail(one, held(layer), slots), _tail(two, held(entering), slots))))
            for one, two in zip(mine, its, strict=True)
        )
        _count(layer, entering)


def _tail(state: States, length: int, slots: int) -> Padded:
    """Return the slots in use, behind as many empty ones as are missing."""
    return pad(state[:, :, :length], (0, 0, slots - length, 0))  # row kv_head padded head_dim


def _slots(layer: Stored, state: States) -> Padded:
    """Return as many slots as the layer has."""
    if not isinstance(layer, StaticLayer):
        return state
    return pad(state, (0, 0, 0, layer.max_cache_len - state.shape[2]))  # row kv_head padded head_dim


def _count(layer: Stored, entering: Stored) -> None:
    """Let the layer count rows and columns of both; a plain dynamic one reads them from its tensors."""
    wider = max((layer, entering), key=lambda one: int(one.get_seq_length()))
    match layer, wider, entering:
        case DynamicSlidingWindowLayer(), DynamicSlidingWindowLayer(), _:
            layer.cumulative_length = wider.cumulative_length
        case StaticLayer(), StaticLayer(), StaticLayer():
            layer.batch_size += entering.batch_size
            layer.cumulative_length.copy_(wider.cumulative_length)  # in place: its address is marked as static
            if isinstance(layer, StaticSlidingWindowLayer) and isinstance(wider, StaticSlidingWindowLayer):
                layer.cumulative_length_int = wider.cumulative_length_int
        case _:
            pass
