"""What an equal engine said before the replay is not asked again; after the replay the engine is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor

from evseq.engines.protocol import Engine
from evseq.geometry import Deciding, Dtype
from evseq.history import ROOT, Path, Tree
from evseq.replay.oracle import Known, Oracle

VOCAB = 5


@dataclass
class Counting:
    """An uncached side that notes what it was asked; `off` is added to all it says."""

    off: float = 0.0
    asked: list[Path] = field(default_factory=list)

    def uncached(self, path: Path) -> Tensor:
        self.asked.append(path)
        sums = torch.tensor(path.tokens).cumsum(0)[:, None] + torch.arange(VOCAB)
        return sums.double().sin() + self.off


def oracle(engine: Counting, known: Known | None) -> Oracle:
    tree = Tree()
    tree.extend(tree.extend(ROOT, 3, 0), 1, 1)
    return Oracle(
        tree=tree,
        engine=lambda _: cast("Engine", engine),
        deciding=Deciding.PURE,
        layers=1,
        vocab=VOCAB,
        known=known,
    )


def test_what_is_known_is_not_asked_again() -> None:
    first, second, known = Counting(), Counting(), cast("Known", {})
    told = oracle(first, known).references([], [1, 2])

    again = oracle(second, known).references([], [1, 2])

    assert len(first.asked) == 2  # the leaf, and half of it
    assert second.asked == []
    assert torch.equal(told.truth, again.truth)


def test_what_is_known_tells_which_cache_was_declared() -> None:
    known = cast("Known", {})
    oracle(Counting(), known).references([], [1, 2])

    assert {(dtype, cache) for dtype, cache, _ in known} == {(Dtype.FLOAT64, None)}


def test_after_the_replay_the_engine_is_asked_all_the_same() -> None:
    known = cast("Known", {})
    oracle(Counting(), known).references([], [1, 2])
    moved = oracle(Counting(off=1e-6), known)
    moved.references([], [1, 2])

    assert moved.changed() == {
        Dtype.FLOAT64: "the uncached float64 forward gives other bits after the replay than before it"
    }


def test_without_anything_to_know_all_is_asked() -> None:
    engine = Counting()
    oracle(engine, None).references([], [1, 2])
    oracle(engine, None).references([], [1, 2])

    assert len(engine.asked) == 4
