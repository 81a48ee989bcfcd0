"""Contents: a checksum of every cached token in every layer, to see what moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from evseq.engines.protocol import CacheView

__all__ = ["Contents", "beside", "contents", "moved", "same_bits", "selected"]

_WORD = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Per layer and row, the checksum of each held token by its position."""

    layers: tuple[tuple[Mapping[int, int], ...], ...]


def contents(view: CacheView | None) -> Contents | None:
    """Sum every token's keys and values as integers under fixed odd weights, modulo 2^64.

    A change of any single element always shows; several changes cancel with a chance of about 2^-63.
    """
    if view is None:
        return None
    layers = []
    for layer in view.layers:
        sums = _sums(layer.keys, salt=1) + _sums(layer.values, salt=2)
        rows = zip(layer.positions.tolist(), sums.tolist(), strict=True)
        layers.append(tuple({place: word for place, word in zip(*row, strict=True) if place >= 0} for row in rows))
    return Contents(layers=tuple(layers))


def moved(before: Contents, after: Contents, *, whole: bool = False) -> list[tuple[int, int, int]]:
    """Return (layer, row, position) of every token held on both sides whose checksum changed.

    With `whole` nothing may have come or gone either.
    """
    return [
        (layer, row, position)
        for layer, (old_rows, new_rows) in enumerate(zip(before.layers, after.layers, strict=True))
        for row, (old, new) in enumerate(zip(old_rows, new_rows, strict=True))
        for position in sorted(old.keys() | new.keys() if whole else old.keys() & new.keys())
        if old.get(position) != new.get(position)
    ]


def selected(before: Contents | None, parents: Sequence[int]) -> Contents | None:
    """Return the contents of these rows alone."""
    if before is None:
        return None
    return Contents(layers=tuple(tuple(layer[parent] for parent in parents) for layer in before.layers))


def beside(one: Contents | None, other: Contents | None) -> Contents | None:
    """Return the rows of two sessions as those of one."""
    if one is None or other is None:
        return None
    return Contents(layers=tuple((*mine, *its) for mine, its in zip(one.layers, other.layers, strict=True)))


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors hold the same bits; two NaN of the same bits are equal, 0 and -0 are not."""
    return one.dtype == other.dtype and torch.equal(
        one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8)
    )


def _sums(array: Float[Tensor, "row kv_head slot head_dim"], *, salt: int) -> Int[Tensor, "row slot"]:
    words = array.contiguous().view(_WORD[array.element_size()]).to(torch.int64)
    return (words * _weights(array.shape[1], array.shape[3], salt).to(words.device)).sum((1, 3))


@cache
def _weights(kv_heads: int, head_dim: int, salt: int) -> Int[Tensor, "kv_head 1 head_dim"]:
    generator = torch.Generator().manual_seed(salt)
    words = torch.randint(-(2**62), 2**62, (kv_heads, 1, head_dim), generator=generator)
    return words * 2 + 1
