"""Contents: a checksum of every cached token in every layer, to see what moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from evseq.engines.protocol import CacheView, LayerView

__all__ = ["Contents", "beside", "contents", "moved", "same_bits", "selected"]

_WORD = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

EMPTY = -1
"""The position of a slot that holds nothing."""

Numbers = Int[np.ndarray, "layer row slot"]
"""In numpy, whose smallest operations cost a quarter of torch's: this is asked after every step of every session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What some layers of one shape hold: the position of every slot, and the checksum of its keys and values."""

    positions: Numbers
    sums: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What every layer holds, in the order of the layers; those of one shape that stand side by side together."""

    blocks: tuple[Held, ...]

    @property
    def layers(self) -> tuple[Held, ...]:
        """Each layer by itself."""
        return tuple(
            Held(positions=held.positions[layer : layer + 1], sums=held.sums[layer : layer + 1])
            for held in self.blocks
            for layer in range(len(held.positions))
        )


def contents(view: CacheView | None) -> Contents | None:
    """Sum every token's keys and values as integers under fixed odd weights, modulo 2^64.

    A change of any single element always shows; several changes cancel with a chance of about 2^-63.
    """
    if view is None:
        return None
    alike = groupby(view.layers, key=lambda layer: (layer.keys.shape, layer.values.shape, layer.keys.dtype))
    return Contents(blocks=tuple(_held(list(layers)) for _, layers in alike))


def moved(before: Contents, after: Contents, *, whole: bool = False) -> list[tuple[int, int, int]]:
    """Return (layer, row, position) of every token held on both sides whose checksum changed.

    With `whole` nothing may have come or gone either.
    """
    old_sizes, new_sizes = ([len(held.positions) for held in seen.blocks] for seen in (before, after))
    if old_sizes == new_sizes and all(
        _still(old, new, whole=whole) for old, new in zip(before.blocks, after.blocks, strict=True)
    ):
        return []
    return [
        (layer, row, position)
        for layer, (old, new) in enumerate(zip(before.layers, after.layers, strict=True))
        for row, position in _moved(old, new, whole=whole)
    ]


def selected(before: Contents | None, parents: Sequence[int]) -> Contents | None:
    """Return the contents of these rows alone."""
    if before is None:
        return None
    rows = list(parents)
    return Contents(
        blocks=tuple(Held(positions=held.positions[:, rows], sums=held.sums[:, rows]) for held in before.blocks)
    )


def beside(one: Contents | None, other: Contents | None) -> Contents | None:
    """Return the rows of two sessions as those of one."""
    if one is None or other is None:
        return None
    return Contents(blocks=tuple(_beside(mine, its) for mine, its in zip(one.layers, other.layers, strict=True)))


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors hold the same bits; two NaN of the same bits are equal, 0 and -0 are not."""
    return one.dtype == other.dtype and torch.equal(
        one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8)
    )


def _held(layers: Sequence[LayerView]) -> Held:
    """Return what layers of one shape hold, summed in one go: most decoders have many, and small ones small layers."""
    keys, values = [layer.keys for layer in layers], [layer.values for layer in layers]
    alike = keys[0].shape == values[0].shape and keys[0].dtype == values[0].dtype
    sums = _sums([keys, values], salt=1) if alike else _sums([keys], salt=1) + _sums([values], salt=2)
    # A copy, for a session may go on writing into its own.
    positions = torch.stack([layer.positions for layer in layers])
    return Held(positions=positions.cpu().numpy(), sums=sums.cpu().numpy())


def _sums(
    parts: Sequence[Sequence[Float[Tensor, "row kv_head slot head_dim"]]], *, salt: int
) -> Int[Tensor, "layer row slot"]:
    array = torch.stack([layer for part in parts for layer in part])
    array = array.unflatten(0, (len(parts), -1))  # part layer row kv_head slot head_dim
    words = array.view(_WORD[array.element_size()]).to(torch.int64)
    weighted: Tensor = words * _weights(len(parts), array.shape[3], array.shape[5], salt).to(words.device)
    return weighted.sum((0, 3, 5))


def _still(old: Held, new: Held, *, whole: bool) -> bool:
    """Tell quickly that nothing moved: what was held is held in its slot, and what is new stands behind it."""
    both = min(old.positions.shape[2], new.positions.shape[2])
    were, are = old.positions[..., :both], new.positions[..., :both]
    held = were != EMPTY
    if (held & ((were != are) | (old.sums[..., :both] != new.sums[..., :both]))).any():
        return False
    if (old.positions[..., both:] != EMPTY).any():
        return False
    fresh = new.positions.copy()
    fresh[..., :both][held] = EMPTY
    if whole:
        return not (fresh != EMPTY).any()
    last = old.positions.max(axis=2, initial=EMPTY, keepdims=True)
    return not ((fresh != EMPTY) & (fresh <= last)).any()


def _moved(old: Held, new: Held, *, whole: bool) -> Iterator[tuple[int, int]]:
    """Yield (row, position) of each token of a layer that moved, wherever its slot is: a ring's are in no order."""
    for row, (before, after) in enumerate(zip(_by_position(old), _by_position(new), strict=True)):
        for position in sorted(before.keys() | after.keys() if whole else before.keys() & after.keys()):
            if before.get(position) != after.get(position):
                yield row, position


def _by_position(held: Held) -> list[dict[int, int]]:
    rows = zip(held.positions[0].tolist(), held.sums[0].tolist(), strict=True)
    return [{place: word for place, word in zip(*row, strict=True) if place != EMPTY} for row in rows]


def _beside(one: Held, other: Held) -> Held:
    slots = max(one.positions.shape[2], other.positions.shape[2])

    def widened(numbers: Numbers, filling: int) -> Int[np.ndarray, "layer row widened"]:
        return np.pad(numbers, ((0, 0), (0, 0), (0, slots - numbers.shape[2])), constant_values=filling)

    return Held(
        positions=np.concatenate([widened(held.positions, EMPTY) for held in (one, other)], axis=1),
        sums=np.concatenate([widened(held.sums, 0) for held in (one, other)], axis=1),
    )


@cache
def _weights(parts: int, kv_heads: int, head_dim: int, salt: int) -> Int[Tensor, "part 1 1 kv_head 1 head_dim"]:
    generator = torch.Generator().manual_seed(salt)
    words = torch.randint(-(2**62), 2**62, (parts, 1, 1, kv_heads, 1, head_dim), generator=generator)
    return words * 2 + 1
