"""Seeing: which slots the next query attends to in a layer, and what the layers hold, in canonical axes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, StaticLayer

from evseq.engines.protocol import CacheView, LayerView
from evseq.engines.transformers.caches import Stored, held, numbered, states

__all__ = ["Span", "seen", "shown", "span"]


class Span(NamedTuple):
    """Slots that a query sees unless they are masked: the first, and the end; of the last `chunk` alone, if any."""

    first: int
    end: int
    chunk: int | None


def span(layer: Stored | None, config: PreTrainedConfig, *, chunked: bool) -> Span:
    """Return the slots that the next query sees in `layer`; none in one that stores nothing.

    The window is the one masks are made with now, in the live `config`, not the one the layer was made with.
    """
    if layer is None:
        return Span(0, 0, None)
    fed = int(layer.get_seq_length())
    first = fed - held(layer)
    if chunked:
        return Span(first, fed, int(config.attention_chunk_size))
    if layer.is_sliding:
        window = config.sliding_window
        _, offset = layer.get_mask_sizes(1)
        # A buffer shorter than the window would roll for the next query; a session that full never gets one.
        short = isinstance(layer, StaticLayer) and layer.max_cache_len < window
        first = max(first, 0 if short else offset, fed - window + 1)
    return Span(first, fed, None)


def seen(mask: Bool[Tensor, "row slot"], where: Span) -> Int[Tensor, " row"]:
    """Return how many tokens of each row these slots hold."""
    if where.chunk is None:
        return mask[:, where.first : where.end].sum(dim=1)
    begin = (mask.cumsum(dim=1) == 0).sum(dim=1, keepdim=True)  # row 1
    own = torch.arange(where.end) >= begin + (where.end - begin) // where.chunk * where.chunk  # row slot
    tokens: Int[Tensor, " row"] = (mask & own)[:, where.first : where.end].sum(dim=1)
    return tokens


def shown(cache: Cache, mask: Bool[Tensor, "row slot"], positions: Int[Tensor, "row slot"]) -> CacheView:
    """Show every layer's slots in the order they are stored."""
    layers: list[LayerView] = []
    fed, tags = mask.shape[1], positions.masked_fill(~mask, -1)  # row slot
    none = torch.empty(len(mask), 0, 0, 0)  # row kv_head slot head_dim
    for layer in numbered(cache):
        keys, values = (layer and states(layer)) or (none, none)
        places = tags[:, fed - (held(layer) if layer else 0) :]  # row slot
        if empty := keys.shape[-2] - places.shape[1]:
            places = pad(places, (0, empty), value=-1)  # row slot
        layers.append(LayerView(keys=keys, values=values, positions=places))
    return CacheView(layers=tuple(layers))
