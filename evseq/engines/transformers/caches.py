"""Cache layers of transformers: made, cut, copied and put back with every attribute they have.

Keys and values alone are not a cache: a sliding layer also counts what it was ever fed, and a static one writes where
its counter points. The class of a layer always comes from the model's configuration, never from a file.
"""

# mypy: disable-error-code="no-untyped-call"
# Parts of transformers and torch have no types.

from __future__ import annotations

import copy
from collections.abc import Mapping

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

from evseq.cache.state import Scalar
from evseq.engines.transformers import quantised, recurrent
from evseq.errors import EngineError
from evseq.geometry import CacheKind, Keep, Layer, Layout

__all__ = [
    "DYNAMIC",
    "STATIC",
    "Stored",
    "copied",
    "crop",
    "exported",
    "held",
    "held_bytes",
    "new_cache",
    "numbered",
    "restore",
    "states",
    "stored",
]

DYNAMIC = CacheKind(name="dynamic", full=Keep.EVERY, sliding=Keep.TAIL)
"""Grows with each column. Records what leaves a window only if told to before the first column."""

STATIC = CacheKind(name="static", full=Keep.CAPACITY, sliding=Keep.WINDOW, crops_past_window=False)
"""Allocated at once. A sliding layer overwrites what leaves its window, so nothing can bring it back."""

TAKEN = frozenset({"keys", "values", "cumulative_length", "conv_states", "recurrent_states"})
"""Tensors that a restored layer takes over; any other must already be equal."""

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


def exported(cache: Cache) -> tuple[dict[str, Tensor], dict[str, Scalar]]:
    """Return a copy of every attribute of every layer: tensors, and plain values, named `layer.N.ATTRIBUTE`."""
    tensors: dict[str, Tensor] = {}
    scalars: dict[str, Scalar] = {}
    for number, layer in enumerate(cache.layers):
        scalars[f"layer.{number}.class"] = type(layer).__name__
        if isinstance(layer, QuantizedLayer) and layer.is_initialized:
            parts, counts = quantised.taken(layer, f"layer.{number}.")
            tensors, scalars = tensors | parts, scalars | counts
            continue
        for name, value in sorted(_attributes(layer).items()):
            if isinstance(value, Tensor):
                tensors[f"layer.{number}.{name}"] = value.detach().to("cpu", copy=True).contiguous()
            elif value is None or isinstance(value, bool | int | float | str):
                scalars[f"layer.{number}.{name}"] = value
    return tensors, scalars


def restore(
    cache: Cache,
    tensors: Mapping[str, Tensor],
    scalars: Mapping[str, Scalar],
    *,
    layers: tuple[Layer, ...],
    like: Float[Tensor, "..."],
    example: Cache | None,
    rows: int,
    columns: int,
) -> None:
    """Fill a new `cache` with what `exported` gave for `rows` and `columns`; `like` has the model's dtype and device.

    `example` is a cache that one token was fed to, where a layer has a state: no configuration tells its shape.
    Raise `EngineError`, naming the layer and attribute, for what is missing, unknown or does not fit.
    """
    given: dict[str, Tensor | Scalar] = {**tensors, **scalars}
    prefixes = tuple(f"layer.{number}." for number in range(len(layers)))
    _check_names(set(), {name for name in given if not name.startswith(prefixes)}, "")
    for number, (layer, sizes) in enumerate(zip(cache.layers, layers, strict=True)):
        prefix = prefixes[number]
        if isinstance(layer, QuantizedLayer) and f"{prefix}size" in given:
            _equal(type(layer).__name__, given.get(f"{prefix}class"), f"{prefix}class")
            quantised.put(layer, given, prefix, like=like, columns=columns)
            continue
        if isinstance(layer, DynamicLayer | StaticLayer) and given.get(f"{prefix}is_initialized") is True:
            empty = like.new_zeros((rows, sizes.kv_heads, 0, sizes.head_dim))  # row kv_head slot head_dim
            layer.lazy_initialization(empty, empty)
        if example is not None:
            recurrent.born(layer, example.layers[number], rows=rows)
        names = {"class"} | {name for name, value in _attributes(layer).items() if _kept(value)}
        _check_names(names, {name.removeprefix(prefix) for name in given if name.startswith(prefix)}, prefix)
        _equal(type(layer).__name__, given[f"{prefix}class"], f"{prefix}class")
        for name in sorted(names - {"class", "record_past"}):  # whether to record is the new session's own affair
            _put(
                layer,
                name,
                given[prefix + name],
                prefix=prefix,
                shape=(rows, sizes.kv_heads, sizes.head_dim),
                columns=columns,
            )
        recurrent.narrow(layer)
        if not isinstance(layer, DynamicLayer | StaticLayer):
            continue
        _check_count(layer, columns, prefix)
        pair = states(layer)
        if isinstance(layer, DynamicSlidingWindowLayer) and pair and not layer.record_past:
            layer.keys, layer.values = (state[:, :, -layer.sliding_window + 1 :] for state in pair)


def _attributes(layer: object) -> dict[str, object]:
    """Return what `layer` keeps by name; what it keeps by number, as recurrent layers do, as `NAME.NUMBER`.

    Device and number format are left out: the tensors have them, and which half of a layer is fed first decides who
    writes them down.
    """
    found: dict[str, object] = {}
    for name, value in vars(layer).items():
        if name in ("device", "dtype"):
            continue
        found |= {f"{name}.{key}": part for key, part in value.items()} if isinstance(value, dict) else {name: value}
    return found


def _give(layer: object, name: str, value: object) -> None:
    name, dot, key = name.partition(".")
    if dot:
        getattr(layer, name)[int(key)] = value
    else:
        setattr(layer, name, value)


def _kept(value: object) -> bool:
    return value is None or isinstance(value, Tensor | bool | int | float | str)


def _check_names(expected: set[str], actual: set[str], prefix: str) -> None:
    odd = sorted(expected ^ actual)
    if odd:
        fault = "missing" if odd[0] in expected else "unknown"
        raise EngineError(
            f"restore: {prefix}{odd[0]} is {fault}\n  help: restore an export of the same model and cache kind"
        )


def _put(
    layer: object, name: str, value: Tensor | Scalar, *, prefix: str, shape: tuple[int, int, int], columns: int
) -> None:
    """Give `layer` one attribute: states and counters are taken over, anything else must already be equal."""
    own = _attributes(layer)[name]
    if isinstance(own, Tensor) != isinstance(value, Tensor):
        _differ(type(value).__name__, type(own).__name__, prefix + name)
    if not isinstance(own, Tensor) or not isinstance(value, Tensor):
        counts = name.startswith("cumulative_length") and type(value) is int
        if counts or (name.startswith("has_previous_state") and type(value) is bool):
            _give(layer, name, value)
        else:
            _equal(own, value, prefix + name)
        return
    expected = tuple(own.shape)
    if name in ("keys", "values") and isinstance(layer, DynamicLayer):
        rows, heads, head_dim = shape
        expected = (rows, heads, value.shape[2] if value.dim() == 4 else -1, head_dim)  # noqa: PLR2004 - any slots
    if name.startswith("conv_states.") and min(columns, expected[-1]) <= value.shape[-1] <= columns:
        expected = (*expected[:-1], value.shape[-1])  # recorded, because a crop was planned
    if (value.dtype, tuple(value.shape)) != (own.dtype, expected):
        _differ(f"{value.dtype} {tuple(value.shape)}", f"{own.dtype} {expected}", prefix + name)
    if name.partition(".")[0] not in TAKEN and not torch.equal(value.to(own), own):
        _differ(str(value), str(own), prefix + name)
    _give(layer, name, value.to(own.device, copy=True))


def _check_count(layer: Stored, columns: int, prefix: str) -> None:
    """Check that a restored layer has seen `columns` and holds what its next query needs."""
    fed = int(layer.get_seq_length())
    if fed != columns:
        _differ(f"fed {fed} columns", f"fed {columns}", prefix.removesuffix("."))
    if isinstance(layer, DynamicLayer) and layer.is_initialized:
        window = layer.sliding_window if isinstance(layer, DynamicSlidingWindowLayer) else columns + 1
        for name in ("keys", "values"):
            slots = getattr(layer, name).shape[2]
            if not min(columns, window - 1) <= slots <= columns:
                _differ(f"{slots} slots", f"at least {min(columns, window - 1)}, at most {columns}", prefix + name)


def _equal(own: object, value: object, place: str) -> None:
    if type(own) is not type(value) or own != value:
        _differ(repr(value), repr(own), place)


def _differ(actual: str, expected: str, place: str) -> None:
    raise EngineError(
        f"restore: {place} is {actual}, this session needs {expected}\n"
        "  help: open the session with the layout and dtype of the exported one"
    )
