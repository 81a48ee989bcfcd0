"""Exports of transformers caches: every attribute of every layer, taken out and put back.

Keys and values alone are not a cache: a sliding layer also counts what it was ever fed, and a static one writes where
its counter points. The class of a layer always comes from the model's configuration, never from a file.
"""

# mypy: disable-error-code="no-untyped-call"
# Parts of transformers and torch have no types.

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor
from transformers.cache_utils import (
    Cache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    QuantizedLayer,
    StaticLayer,
)

from evseq.cache.state import Scalar
from evseq.engines.transformers import quantised, recurrent
from evseq.engines.transformers.caches import Stored, states
from evseq.errors import EngineError
from evseq.geometry import Layer

__all__ = ["exported", "restore"]

TAKEN = frozenset({"keys", "values", "cumulative_length", "conv_states", "recurrent_states"})
"""Tensors that a restored layer takes over; any other must already be equal."""


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
