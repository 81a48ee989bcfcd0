"""Quantised caches of transformers: what a healthy one promises, and its layers taken apart and put together again.

Measured with optimum-quanto 0.2.7, 4 bits, float64, new/llama: a row beside others is within 1e-14 of the row alone,
since groups lie inside one token's head; another chunking moves logits by 0.7 of 5, for a forward sees its own tokens
whole and they are rounded behind it; the uncached forward is up to 0.9 of 5 away. So the kind is `lossy`. A flush
rounds once more what was rounded before.
"""

# mypy: disable-error-code="no-untyped-call"
# Parts of transformers and torch have no types.

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedConfig, QuantizedCache
from transformers.utils.import_utils import is_optimum_quanto_available

from evseq.cache.state import Scalar
from evseq.errors import EngineError
from evseq.geometry import CacheKind, Keep, Layer, Promise

__all__ = ["NAME", "copied", "held_bytes", "kind_of", "missing", "new_cache", "put", "rounding", "taken", "whole"]

NAME = "quantised"

PACKAGE = "optimum-quanto"

BITS = 4

RESIDUAL = 4
"""Tokens that wait to be rounded: few, so that a short script crosses the edge. The library's default is 128."""

LARGEST_GROUP = 64
"""The library's default; a group never leaves a token's head, so that neither rows nor odd lengths share one."""

LEAST_GROUP = 4
"""The smallest group whose scale and zero point take less room than its codes save, in every number format."""

ENVELOPE = 0.75
"""Largest distance from the uncached forward, as a share of the largest logit. Healthy new models come to 0.3."""

States = Float[Tensor, "row kv_head slot head_dim"]

Filled = Any
"""A QuantizedLayer of transformers, most of whose parts have no types."""

PARTS = ("data", "scale", "shift")


def missing(layers: tuple[Layer, ...], *, routed: bool) -> str | None:
    """Return why a decoder of these layers has no quantised cache here, or None.

    Measured on a healthy new/mixtral: 0.92 of the largest logit off the uncached forward where two of its four experts
    are chosen, 0.42 where all four are.
    """
    if routed:
        return "a router may choose other experts for what is rounded, and no distance bounds what that changes"
    if any(layer.window is not None or layer.recurrent for layer in layers):
        return "transformers quantises caches of full attention alone"
    if (group := _group(layers)) < LEAST_GROUP:
        return f"heads of {layers[0].head_dim} numbers are rounded in groups of {group}, and nothing is saved by that"
    if not is_optimum_quanto_available():
        return f"{PACKAGE} is not installed: pip install 'evseq[quantised]'"
    return None


def _group(layers: tuple[Layer, ...]) -> int:
    return math.gcd(LARGEST_GROUP, *(layer.head_dim for layer in layers))


def kind_of(layers: tuple[Layer, ...]) -> CacheKind:
    """Return the kind of cache for a decoder of these layers."""
    return CacheKind(
        name=NAME,
        full=Keep.EVERY,
        sliding=Keep.EVERY,
        promise=Promise.LOSSY,
        crops=False,
        joins=False,
        quantisation=(
            ("backend", f"quanto {version(PACKAGE)}"),
            ("bits", BITS),
            ("group", _group(layers)),
            ("residual", RESIDUAL),
        ),
        envelope=ENVELOPE,
        packs=True,
    )


def new_cache(config: PreTrainedConfig, kind: CacheKind) -> QuantizedCache:
    """Return an empty cache rounded as `kind` says."""
    _unpack_in_torch()
    how = dict(kind.quantisation)
    return QuantizedCache(
        "quanto",
        config,
        nbits=int(how["bits"]),
        q_group_size=int(how["group"]),
        residual_length=int(how["residual"]),
    )


def _unpack_in_torch() -> None:
    """Let quanto unpack codes on the CPU in plain torch.

    It would build a kernel for that at the first use, which takes a compiler and two minutes. Codes are integers: both
    ways give the same.
    """
    from optimum.quanto.library.extensions import get_extension

    kernel = get_extension("quanto_cpp")
    if kernel._lib is None:
        kernel._lib = SimpleNamespace(unpack=_unpacked)


def _unpacked(packed: Tensor, bits: int) -> Tensor:
    """Return the codes in the low bits of every byte, then those in the next ones."""
    return torch.cat([packed >> shift & 2**bits - 1 for shift in range(0, 8, bits)])


def whole(layer: Filled) -> tuple[States, States]:
    """Return the keys and values a query would see: those packed, in the order beams were chosen, then the tail."""
    packed: tuple[States, States] = layer._apply_pending_reorder(
        layer._dequantize(layer._quantized_keys), layer._dequantize(layer._quantized_values)
    )
    keys, values = (
        torch.cat((state, tail), dim=-2) if tail.numel() else state
        for state, tail in zip(packed, (layer.keys, layer.values), strict=True)
    )
    return keys, values


def rounding(layer: Filled) -> dict[str, Scalar]:
    """Return how a layer rounds, in the words of its kind."""
    return {
        "backend": f"quanto {version(PACKAGE)}",
        "bits": layer.nbits,
        "group": layer.q_group_size,
        "residual": layer.residual_length,
    }


def held_bytes(layer: Filled) -> int:
    """Return the bytes of codes, scales, zero points and tail, of the rows that a selection left."""
    packed = sum(
        part.numel() * part.element_size()
        for state in (layer._quantized_keys, layer._quantized_values)
        for part in _parts(state).values()
    )
    left = layer._pending_beam_idx
    if left is not None:
        packed = packed * len(left) // int(layer._quantized_keys.shape[0])
    tails: int = sum(tail.numel() * tail.element_size() for tail in (layer.keys, layer.values))
    return packed + tails


def taken(layer: Filled, prefix: str) -> tuple[dict[str, Tensor], dict[str, Scalar]]:
    """Return copies of all that a filled layer holds; its keys and values also whole, to be read by anybody."""
    tensors: dict[str, Tensor] = {}
    keys, values = whole(layer)
    for name, state, packed, tail in (
        ("keys", keys, layer._quantized_keys, layer.keys),
        ("values", values, layer._quantized_values, layer.values),
    ):
        tensors[f"{prefix}{name}"] = _copied(state)
        tensors[f"{prefix}tail.{name}"] = _copied(tail if tail.numel() else state[:, :, :0])
        tensors |= {f"{prefix}packed.{name}.{part}": _copied(tensor) for part, tensor in _parts(packed).items()}
    if layer._pending_beam_idx is not None:
        tensors[f"{prefix}pending"] = _copied(layer._pending_beam_idx)
    scalars: dict[str, Scalar] = {
        f"{prefix}cumulative_length": layer.cumulative_length,
        f"{prefix}size": list(layer._quantized_keys.shape),
    }
    return tensors, scalars


def put(
    layer: Filled,
    given: Mapping[str, Tensor | Scalar],
    prefix: str,
    *,
    like: Float[Tensor, "..."],
    columns: int,
) -> None:
    """Fill an empty layer with what `taken` gave. Raise `EngineError` where it does not come out as it went in."""
    try:
        size = torch.Size(given[f"{prefix}size"])  # type: ignore[arg-type]  # whatever it is, it is looked at here
        layer.lazy_initialization(
            like.new_zeros((size[0], size[1], 0, size[3])), like.new_zeros((*size[:2], 0, size[3]))
        )
        for name in ("keys", "values"):
            parts = {part: given[f"{prefix}packed.{name}.{part}"] for part in PARTS}
            setattr(layer, f"_quantized_{name}", _joined(layer, parts, size))
            tail: Any = given[f"{prefix}tail.{name}"]
            if tail.shape[2]:
                setattr(layer, name, tail.to(like.device, copy=True))
        layer._pending_beam_idx = given.get(f"{prefix}pending")
        layer.cumulative_length = given[f"{prefix}cumulative_length"]
        pair = whole(layer)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise _misfit(prefix, f"{type(error).__name__}: {error}") from error
    if layer.cumulative_length != columns:
        raise _misfit(prefix, f"fed {layer.cumulative_length} columns, not {columns}")
    for name, state in zip(("keys", "values"), pair, strict=True):
        told = given.get(f"{prefix}{name}")
        if not isinstance(told, Tensor) or told.dtype != state.dtype or not torch.equal(told, state.cpu()):
            raise _misfit(prefix, f"{name} are not what its codes stand for")


def copied(layer: Filled) -> Filled:
    """Return a layer of equal contents that shares nothing; the library's own packed tensors cannot be deep-copied."""
    twin = copy.copy(layer)
    if layer.is_initialized:
        for name in ("keys", "values"):
            packed = getattr(layer, f"_quantized_{name}")
            setattr(twin, f"_quantized_{name}", _joined(layer, _parts(packed), packed.shape))
            setattr(twin, name, getattr(layer, name).clone())
    if layer._pending_beam_idx is not None:
        twin._pending_beam_idx = layer._pending_beam_idx.clone()
    return twin


def _joined(layer: Filled, parts: Mapping[str, Any], size: torch.Size) -> Tensor:
    """Return a packed tensor made of copies of its parts."""
    from optimum.quanto import qint2, qint4
    from optimum.quanto.tensor.packed import PackedTensor
    from optimum.quanto.tensor.weights.qbits import WeightQBitsTensor

    data, scale, shift = (parts[part].clone() for part in PARTS)
    groups = size.numel() // layer.q_group_size
    packed = PackedTensor(data, layer.nbits, torch.Size((groups, layer.q_group_size)), (layer.q_group_size, 1))
    stride = torch.empty(size, device="meta").stride()
    kind = qint4 if layer.nbits == BITS else qint2
    tensor: Tensor = WeightQBitsTensor(kind, layer.axis_key, layer.q_group_size, size, stride, packed, scale, shift)
    return tensor


def _parts(packed: Any) -> dict[str, Tensor]:
    """Return codes, scales and zero points of a packed tensor."""
    return {"data": packed._data._data, "scale": packed._scale, "shift": packed._shift}


def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True).contiguous()


def _misfit(prefix: str, evidence: str) -> EngineError:
    return EngineError(
        f"restore: {prefix.removesuffix('.')}: {evidence}\n"
        "  help: open the session with the layout, dtype and quantisation of the exported one"
    )
