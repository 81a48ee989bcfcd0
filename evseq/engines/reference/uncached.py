"""The uncached forward: one row, full attention with a mask, one head at a time.

It shares the weights with the cached step and, on purpose, none of its arithmetic on positions, masks and heads:
causality here is the order of slots, there it is the order of positions.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Complex, Float, Int
from torch import Tensor

from evseq.engines.reference.config import Coding, Config
from evseq.engines.reference.model import Block, Decoder
from evseq.engines.reference.positions import wide
from evseq.geometry import CacheKind, Layer

__all__ = ["uncached"]

Bias = Float[Tensor, "slot slot"] | float


def uncached(
    decoder: Decoder,
    tokens: Int[Tensor, " slot"],
    positions: Int[Tensor, " slot"],
    real: Bool[Tensor, " slot"],
    *,
    kind: CacheKind | None = None,
) -> Float[Tensor, "slot vocab"]:
    """Return the logits of every slot of a row; those of masked slots (`real` False) mean nothing.

    `kind` is a cache kind whose policy says what is seen, and how keys and values are rounded.
    """
    config = decoder.config
    hidden = decoder.embedding(tokens[None])  # 1 slot hidden
    if decoder.places is not None:
        hidden = hidden + decoder.places(positions.where(real, 0))  # 1 slot hidden
    places = positions.to(wide(hidden.dtype))  # slot
    turns = _turns(places, config)  # slot half
    biases = _biases(places, config)
    for block, layer in zip(decoder.blocks, config.layers, strict=True):
        assert isinstance(block, Block)
        queries, keys, values = (states[0] for states in block.project(hidden))  # head slot head_dim
        if config.coding is Coding.ROTARY:
            queries, keys = _turned(queries, turns), _turned(keys, turns)  # head slot head_dim
        if kind is not None and kind.quantisation:
            bits = int(dict(kind.quantisation)["bits"])
            keys, values = _rounded(keys, bits), _rounded(values, bits)  # kv_head slot head_dim
        visible = _visible(positions, real, layer if kind is None else kind.shown(layer))  # slot slot
        group = config.heads // layer.kv_heads
        mixed = [
            _one_head(queries[head], keys[head // group], values[head // group], visible, bias)  # slot head_dim
            for head, bias in enumerate(biases)
        ]
        hidden = block.finish(hidden, torch.stack(mixed)[None])  # 1 slot hidden
    return decoder.head(decoder.norm(hidden))[0]  # type: ignore[no-any-return]


def _visible(positions: Int[Tensor, " slot"], real: Bool[Tensor, " slot"], layer: Layer) -> Bool[Tensor, "slot slot"]:
    slots = len(positions)
    earlier = torch.ones(slots, slots, dtype=torch.bool).tril()  # slot slot
    visible = earlier & real  # slot slot
    if layer.window is not None:
        first = positions[real].min() if bool(real.any()) else 0
        visible &= (positions[:, None] - positions < layer.window) | (positions - first < layer.sinks)
    # A masked slot sees itself, so that its softmax has something to add up; nothing else sees it.
    return visible | torch.eye(slots, dtype=torch.bool)


def _rounded(states: Float[Tensor, "kv_head slot head_dim"], bits: int) -> Float[Tensor, "kv_head slot head_dim"]:
    """Return the nearest of 2^bits numbers, evenly from the smallest to the largest of each token's head."""
    numbers = states.to(wide(states.dtype))
    least = numbers.min(-1, keepdim=True).values  # kv_head slot 1
    range_ = numbers.max(-1, keepdim=True).values - least  # kv_head slot 1
    last = 2**bits - 1
    codes = torch.round((numbers - least) * last / range_.where(range_ != 0, 1.0))
    rounded: Tensor = least + codes * range_ / last
    return rounded.to(states.dtype)


def _turns(places: Float[Tensor, " slot"], config: Config) -> Complex[Tensor, "slot half"]:
    """Return each rotary turn as a number on the unit circle: the cached step's rotation, written another way."""
    half = config.head_dim // 2
    angles = torch.stack([places / config.theta ** (pair / half) for pair in range(half)], dim=-1)  # slot half
    return torch.polar(torch.ones_like(angles), angles)


def _turned(
    states: Float[Tensor, "head slot head_dim"], turns: Complex[Tensor, "slot half"]
) -> Float[Tensor, "head slot head_dim"]:
    first, second = states.to(turns.real.dtype).chunk(2, dim=-1)  # head slot half
    turned = torch.complex(first, second) * turns  # head slot half
    return torch.cat((turned.real, turned.imag), dim=-1).to(states.dtype)


def _biases(places: Float[Tensor, " slot"], config: Config) -> list[Bias]:
    """Return what each head adds to its scores: nothing, or the ALiBi penalty of its distance."""
    if config.coding is not Coding.ALIBI:
        return [0.0] * config.heads
    distance = places[:, None] - places  # slot slot
    return [distance * -(0.5 ** (8 * (head + 1) / config.heads)) for head in range(config.heads)]


def _one_head(
    queries: Float[Tensor, "slot head_dim"],
    keys: Float[Tensor, "slot head_dim"],
    values: Float[Tensor, "slot head_dim"],
    visible: Bool[Tensor, "slot slot"],
    bias: Bias,
) -> Float[Tensor, "slot head_dim"]:
    scores = (queries @ keys.T).to(wide(queries.dtype)) / math.sqrt(queries.shape[-1]) + bias  # slot slot
    weights = scores.masked_fill(~visible, -math.inf).softmax(dim=-1)  # slot slot
    return weights.to(values.dtype) @ values
