"""An uncached side that is plain arithmetic, two histories to ask it for, and ways to bend what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor

from evseq.engines.protocol import Engine
from evseq.geometry import Deciding, Dtype
from evseq.history import MASKED, ROOT, Path, Tree
from evseq.replay.oracle import Oracle

VOCAB = 5


@dataclass
class Sums:
    """An uncached side whose logits are made of the sum of the tokens so far, and what it was asked."""

    dtype: Dtype = Dtype.FLOAT64
    bend: Callable[[Tensor, Path], Tensor] = lambda logits, _: logits
    asked: list[Path] = field(default_factory=list)

    def uncached(self, path: Path) -> Tensor:
        self.asked.append(path)
        sums = torch.tensor(path.tokens).clamp_min(0).cumsum(0)[:, None] + torch.arange(VOCAB)
        return self.bend(sums.to(getattr(torch, self.dtype)).sin(), path)


@dataclass
class Bench:
    """Two histories, one of four and one of three tokens, with the first two in common."""

    deciding: Deciding = Deciding.PURE
    bend: Callable[[Tensor, Path], Tensor] = lambda logits, _: logits
    gap: bool = False

    def __post_init__(self) -> None:
        self.engines = {dtype: Sums(dtype=dtype, bend=self.bend) for dtype in Dtype}
        self.tree = Tree()
        stem = self.tree.extend(self.tree.extend(ROOT, 3, 0), 1, 1)
        inner = self.tree.extend(stem, MASKED, 0) if self.gap else stem
        self.nodes = [stem, inner + 1, inner + 2, inner + 3]
        self.tree.extend(self.tree.extend(inner, 4, 2), 2, 3)
        self.tree.extend(stem, 0, 2)
        self.oracle = Oracle(tree=self.tree, engine=self.engine, deciding=self.deciding, layers=1, vocab=VOCAB)

    def engine(self, dtype: Dtype) -> Engine:
        return cast("Engine", self.engines[dtype])

    def asked(self) -> int:
        return sum(len(engine.asked) for engine in self.engines.values())


def by_length(logits: Tensor, path: Path) -> Tensor:
    return logits / len(path)


def by_next(logits: Tensor, _: Path) -> Tensor:
    return logits + 0.1 * logits.roll(-1, dims=0)


def by_pads(logits: Tensor, path: Path) -> Tensor:
    return logits + 0.25 * path.tokens.count(MASKED)


def by_length_and_pads(logits: Tensor, path: Path) -> Tensor:
    return by_pads(logits / sum(token != MASKED for token in path.tokens), path)


def not_a_number(logits: Tensor, _: Path) -> Tensor:
    return logits.index_fill(0, torch.tensor(0), torch.nan)


def masked_not_a_number(logits: Tensor, path: Path) -> Tensor:
    return logits.masked_fill((torch.tensor(path.tokens) == MASKED)[:, None], torch.nan)


def masked_by_length(logits: Tensor, path: Path) -> Tensor:
    return logits.masked_fill((torch.tensor(path.tokens) == MASKED)[:, None], len(path))


def out_of_memory(*_: object) -> Tensor:
    raise MemoryError("full")


def a_bit_more(logits: Tensor, _: Path) -> Tensor:
    return logits.nextafter(torch.tensor(2.0))
