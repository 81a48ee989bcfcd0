"""Cache layers of transformers: made, measured, cut and copied."""

# mypy: disable-error-code="no-untyped-call"
# Parts of transformers and torch have no types.

from __future__ import annotations

import copy

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import DynamicCache, PreTrainedConfig, StaticCache
from transformers.cache_utils import (
    Cache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
    LinearAttentionAndStaticFullAttentionLayer,
    LinearAttentionAndStaticSlidingWindowAttentionLayer,
    LinearAttentionLayer,
    QuantizedLayer,
    StaticLayer,
    StaticSlidingWindowLayer,
)

from evseq.engines.transformers import quantised, recurrent
from evseq.errors import EngineError
from evseq.geometry import CacheKind, Keep, Layout

__all__ = [
    "DYNAMIC",
    "STATIC",
    "Stored",
    "copied",
    "crop",
    "held",
    "held_bytes",
    "new_cache",
    "numbered",
    "states",
    "stored",
]

DYNAMIC = CacheKind(name="dynamic", full=Keep.EVERY, sliding=Keep.TAIL)
"""Grows with each column. Records what leaves a window only if told to before the first column."""

STATIC = CacheKind(name="static", full=Keep.CAPACITY, sliding=Keep.WINDOW, crops_past_window=False)
"""Allocated at once. A sliding layer overwrites what leaves its window, so nothing can bring it back."""

Stored = DynamicLayer | StaticLayer
States = Float[Tensor, "row kv_head slot head_dim"]


def new_cache(config: PreTrainedConfig, layout: Layout, *, offered: tuple[CacheKind, ...]) -> Cache:
    """Return an empty cache of the kind `layout` asks for, one of those `offered`.

    Raise `EngineError` for a kind or layer not known.
    """
    kind = next((kind for kind in offered if kind.name == layout.cache), None)
    match layout.cache if kind is not None else None:
        case DYNAMIC.name:
            cache: Cache = DynamicCache(config=config)
            known: tuple[type, ...] = (
                DynamicLayer,
                DynamicSlidingWindowLayer,
                LinearAttentionAndFullAttentionLayer,
                LinearAttentionAndSlidingWindowAttentionLayer,
            )
        case STATIC.name:
            cache = StaticCache(config=config, max_cache_len=layout.capacity)
            known = (
                StaticLayer,
                StaticSlidingWindowLayer,
                LinearAttentionAndStaticFullAttentionLayer,
                LinearAttentionAndStaticSlidingWindowAttentionLayer,
            )
        case quantised.NAME if kind is not None:
            return quantised.new_cache(config, kind)
        case _:
            known_here = ", ".join(kind.name for kind in offered)
            raise EngineError(f"open: no cache kind {layout.cache!r}\n  help: known are {known_here}")
    for number, layer in enumerate(cache.layers):
        if type(layer) not in (*known, LinearAttentionLayer):  # a state alone is the same in every kind
            raise EngineError(
                f"open: layer {number} caches in a {type(layer).__name__}, which evseq cannot cut, copy and compare\n"
                f"  help: use a model of full, sliding and chunked attention and recurrent layers"
            )
    if layout.depth and layout.cache == DYNAMIC.name:
        # Of a static cache only a convolution would record, and then the library skips the mask over its empty slots.
        cache.activate_past_recording()
    return cache


def stored(cache: Cache) -> list[Stored]:
    """Return the layers of a cache made by `new_cache` that hold keys and values."""
    return [layer for layer in numbered(cache) if layer is not None]


def numbered(cache: Cache) -> list[Stored | None]:
    """Return every layer of a cache made by `new_cache`, None for one that has a state alone."""
    return [layer if isinstance(layer, DynamicLayer | StaticLayer) else None for layer in cache.layers]


def states(layer: Stored) -> tuple[States, States] | None:
    """Return the keys and values a layer holds, or None before its first column."""
    if not layer.is_initialized or layer.keys is None or layer.values is None:
        return None
    return quantised.whole(layer) if isinstance(layer, QuantizedLayer) else (layer.keys, layer.values)


def held_bytes(layer: Stored) -> int:
    """Return the bytes of the keys and values a layer holds."""
    pair = states(layer)
    if pair is None or not isinstance(layer, QuantizedLayer):
        return sum(state.numel() * state.element_size() for state in pair or ())
    return quantised.held_bytes(layer)


def held(layer: Stored) -> int:
    """Return how many of the columns fed so far `layer` still holds, read from its tensors."""
    pair = states(layer)
    return min(int(layer.get_seq_length()), pair[0].shape[-2]) if pair else 0


def crop(cache: Cache, columns: int, *, fed: int) -> None:
    """Cut the last `columns` of `fed` off every layer. Raise `EngineError`, before any is cut, where one cannot."""
    for number, layer in enumerate(cache.layers):
        if isinstance(layer, DynamicLayer | StaticLayer):
            _check_crop(layer, columns, number=number)
        recurrent.check_crop(layer, columns, fed=fed, number=number)
    for layer in cache.layers:
        recurrent.crop(layer, columns)
    for layer in stored(cache):
        before = states(layer)
        match layer:  # the library's own crop of a layer that has both halves would cut its state once more
            case DynamicSlidingWindowLayer():
                DynamicSlidingWindowLayer.crop(layer, -columns)
            case DynamicLayer():
                DynamicLayer.crop(layer, -columns)
            case _:
                layer.crop(-columns)
        after = states(layer)
        if isinstance(layer, DynamicSlidingWindowLayer) and layer.record_past and before and after:
            # The library's crop forgets what it had recorded beyond the window, and a second crop would find nothing.
            # The tail it chose stays as it is; only the older part goes back in front of it.
            older = max(before[0].shape[-2] - columns - (layer.sliding_window - 1), 0)
            layer.keys, layer.values = (
                torch.cat((old[:, :, :older], new), dim=-2) for old, new in zip(before, after, strict=True)
            )


def _check_crop(layer: Stored, columns: int, *, number: int) -> None:
    fed = int(layer.get_seq_length())
    match layer:
        case QuantizedLayer():
            raise EngineError(
                f"crop: layer {number} has rounded what it would go back to\n  help: crop with cache {DYNAMIC.name}"
            )
        case StaticSlidingWindowLayer():
            lost = fed > layer.max_cache_len
            window = layer.max_cache_len
        case DynamicSlidingWindowLayer():
            window = layer.sliding_window
            lost = held(layer) - columns < min(fed - columns, window - 1)
        case _:
            return
    if lost:
        raise EngineError(
            f"crop: layer {number} was fed {fed} columns through a window of {window} and holds {held(layer)}, "
            f"too few to go back by {columns}\n"
            "  help: crop while the window has not been passed, or use cache dynamic opened with a depth"
        )


def copied(cache: Cache) -> Cache:
    """Return a cache of equal contents that shares nothing."""
    if not any(isinstance(layer, QuantizedLayer) for layer in cache.layers):
        return copy.deepcopy(cache)
    twin = copy.copy(cache)
    twin.layers = [
        quantised.copied(layer) if isinstance(layer, QuantizedLayer) else copy.deepcopy(layer) for layer in cache.layers
    ]
    return twin
