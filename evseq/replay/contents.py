"""Contents: the bits of every cached token in every layer, or a checksum of them, to see what moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import groupby

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from evseq.engines.protocol import CacheView, LayerView

__all__ = ["Contents", "contents", "moved", "same_bits", "selected", "united"]

_WORD = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

EMPTY = -1
"""The position of a slot that holds nothing."""

SMALL = 2**24
"""Bytes of the layers of one shape up to which their bits are kept: to copy and compare them is quicker than to sum
them. What is larger is not kept twice, and is summed on the device it is on."""

Numbers = Int[np.ndarray, "layer row slot"]
"""In numpy, whose smallest operations cost a quarter of torch's: this is asked after every step of every session."""

Words = Int[np.ndarray, "part layer row kv_head slot head_dim"]
"""Keys and values as the integers that their bits are."""

Tokens = list[dict[int, int]]
"""What one layer holds of each row: the checksum of every position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What some layers of one shape hold: the position of every slot, and the bits of its keys and values.

    Keys and values are two parts of one tensor, or a tensor each where they differ in shape. If `summed`, the sum of
    each slot stands there, as one part with one head of one number.
    """

    positions: Numbers
    words: tuple[Words, ...]
    summed: bool

    def sums(self) -> Held:
        """Return the same with the sum of each slot in place of its bits."""
        if self.summed:
            return self
        return replace(self, words=(_sums([torch.from_numpy(part) for part in self.words]),), summed=True)

    def tokens(self) -> Iterator[Tokens]:
        """Yield each layer's tokens: keys and values summed as integers under fixed odd weights, modulo 2^64.

        A change of any single element always shows; several changes cancel with a chance of about 2^-63.
        """
        sums = self.sums().words[0][0, :, :, 0, :, 0]
        for layer in zip(self.positions.tolist(), sums.tolist(), strict=True):
            yield [
                {place: word for place, word in zip(*row, strict=True) if place != EMPTY}
                for row in zip(*layer, strict=True)
            ]


@dataclass(frozen=True, kw_only=True)  # not slotted: what was once summed is kept
class Contents:
    """What every layer holds, in the order of the layers; those of one shape that stand side by side together."""

    blocks: tuple[Held, ...]

    @property
    def layers(self) -> tuple[Held, ...]:
        """Each layer by itself."""
        return tuple(
            Held(
                positions=held.positions[layer : layer + 1],
                words=tuple(part[:, layer : layer + 1] for part in held.words),
                summed=held.summed,
            )
            for held in self.blocks
            for layer in range(len(held.positions))
        )

    @cached_property
    def tokens(self) -> tuple[Tokens, ...]:
        """Every layer's tokens."""
        return tuple(tokens for held in self.blocks for tokens in held.tokens())


def contents(view: CacheView | None) -> Contents | None:
    """Copy every token's keys and values, as the integers that their bits are."""
    if view is None:
        return None
    alike = groupby(view.layers, key=lambda layer: (layer.keys.shape, layer.values.shape, layer.keys.dtype))
    return Contents(blocks=tuple(_held(list(layers)) for _, layers in alike))


def moved(before: Contents, after: Contents, *, whole: bool = False) -> list[tuple[int, int, int]]:
    """Return (layer, row, position) of every token held on both sides whose keys or values changed.

    With `whole` nothing may have come or gone either.
    """
    old_sizes, new_sizes = ([len(held.positions) for held in seen.blocks] for seen in (before, after))
    if old_sizes == new_sizes and all(
        _still(old, new, whole=whole) for old, new in zip(before.blocks, after.blocks, strict=True)
    ):
        return []
    return [
        (layer, row, position)
        for layer, (old, new) in enumerate(zip(before.tokens, after.tokens, strict=True))
        for row, position in _moved(old, new, whole=whole)
    ]


def selected(before: Contents | None, parents: Sequence[int]) -> Contents | None:
    """Return the contents of these rows alone."""
    if before is None:
        return None
    rows = list(parents)
    return Contents(
        blocks=tuple(
            replace(held, positions=held.positions[:, rows], words=tuple(part[:, :, rows] for part in held.words))
            for held in before.blocks
        )
    )


def united(one: Contents | None, other: Contents | None) -> Contents | None:
    """Return the rows of two sessions as those of one."""
    if one is None or other is None:
        return None
    return Contents(blocks=tuple(_united(mine, its) for mine, its in zip(one.layers, other.layers, strict=True)))


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors hold the same bits; two NaN of the same bits are equal, 0 and -0 are not."""
    return one.dtype == other.dtype and torch.equal(
        one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8)
    )


def _held(layers: Sequence[LayerView]) -> Held:
    """Return what layers of one shape hold, copied in one go, for a session may go on writing into its own."""
    keys, values = [layer.keys for layer in layers], [layer.values for layer in layers]
    alike = keys[0].shape == values[0].shape and keys[0].dtype == values[0].dtype
    parts = ((keys, values),) if alike else ((keys,), (values,))
    summed = len(layers) * (keys[0].nbytes + values[0].nbytes) > SMALL
    if summed:  # a layer at a time: a sum takes eight bytes for each number
        one_by_one = ([_words(*([one[layer]] for one in part)) for part in parts] for layer in range(len(layers)))
        words = [np.concatenate([_sums(layer) for layer in one_by_one], axis=1)]
    else:
        words = [_words(*part).cpu().numpy() for part in parts]
    positions = torch.stack([layer.positions for layer in layers]).cpu().numpy()
    return Held(positions=positions, words=tuple(words), summed=summed)


def _words(
    *parts: Sequence[Float[Tensor, "row kv_head slot head_dim"]],
) -> Int[Tensor, "part layer row kv_head slot head_dim"]:
    states = torch.stack([layer for part in parts for layer in part])
    words: Tensor = states.view(_WORD[states.element_size()])
    return words.reshape(len(parts), len(parts[0]), *words.shape[1:])


def _sums(
    parts: Sequence[Int[Tensor, "part layer row kv_head slot head_dim"]],
) -> Int[np.ndarray, "1 layer row 1 slot 1"]:
    """Return the sum of each slot, as one part with one head of one number."""
    sums = [
        (words.to(torch.int64) * _weights(len(words), words.shape[3], words.shape[5], salt).to(words.device)).sum(
            (0, 3, 5), keepdim=True
        )
        for salt, words in enumerate(parts, start=1)
    ]
    return torch.stack(sums).sum(dim=0).cpu().numpy()


def _still(old: Held, new: Held, *, whole: bool) -> bool:
    """Tell quickly that nothing moved: what was held is held in its slot, and what is new stands behind it."""
    were, are = old.positions, new.positions
    if were.shape[:2] != are.shape[:2]:
        return False
    same = were[..., : are.shape[2]] == are[..., : were.shape[2]]
    end = same.shape[2]
    if not same.all():
        end = int(same.all((0, 1)).argmin())  # slots up to the first that differs
    if end < were.shape[2] and (were[..., end:] != EMPTY).any():
        return False
    if end < are.shape[2]:
        fresh, last = are[..., end:], were.max(axis=2, initial=EMPTY, keepdims=True)
        if (whole or not (fresh > last).all()) and ((fresh != EMPTY) & (whole | (fresh <= last))).any():
            return False
    if old.summed != new.summed:
        return False
    for one, other in zip(old.words, new.words, strict=True):
        if (one.shape[:4], one.shape[5], one.dtype) != (other.shape[:4], other.shape[5], other.dtype):
            return False
        if not (one[..., :end, :] == other[..., :end, :]).all():
            return False
    return True


def _moved(old: Tokens, new: Tokens, *, whole: bool) -> Iterator[tuple[int, int]]:
    """Yield (row, position) of each token of a layer that moved, wherever its slot is: a ring's are in no order."""
    for row, (before, after) in enumerate(zip(old, new, strict=True)):
        for position in sorted(before.keys() | after.keys() if whole else before.keys() & after.keys()):
            if before.get(position) != after.get(position):
                yield row, position


def _united(one: Held, other: Held) -> Held:
    if one.summed != other.summed:
        one, other = one.sums(), other.sums()
    slots = max(one.positions.shape[2], other.positions.shape[2])
    rows = [
        np.pad(held.positions, ((0, 0), (0, 0), (0, slots - held.positions.shape[2])), constant_values=EMPTY)
        for held in (one, other)
    ]
    words = [
        [np.pad(part, (*((0, 0),) * 4, (0, slots - part.shape[4]), (0, 0))) for part in parts]
        for parts in zip(one.words, other.words, strict=True)
    ]
    together = tuple(np.concatenate(parts, axis=2) for parts in words)
    return Held(positions=np.concatenate(rows, axis=1), words=together, summed=one.summed)


@cache
def _weights(parts: int, kv_heads: int, head_dim: int, salt: int) -> Int[Tensor, "part 1 1 kv_head 1 head_dim"]:
    generator = torch.Generator().manual_seed(salt)
    words = torch.randint(-(2**62), 2**62, (parts, 1, 1, kv_heads, 1, head_dim), generator=generator)
    return words * 2 + 1
