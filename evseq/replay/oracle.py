"""Oracle: uncached full-prefix forwards, one per leaf of the tree of histories and dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from evseq.engines.protocol import Engine
from evseq.geometry import Deciding, Dtype
from evseq.history import MASKED, ROOT, Path, Tree
from evseq.replay.contents import same_bits
from evseq.replay.opening import UnusableError
from evseq.replay.references import References
from evseq.replay.uncached import uncached

__all__ = ["Known", "Oracle"]

Known = MutableMapping[tuple[Dtype, str | None, Path], Tensor]
"""Uncached logits by dtype, declared cache and path: of engines that are equal on this side."""

PADS = 20
"""Masked slots put before a path for a second sample of a dtype's noise. Matrix kernels are chosen by width:
SmolLM2-135M in float32 is 1.8e-5 from truth alone and 1.3e-4 in a batch, 12 times err at the worst of 2,500 healthy
histories; against the larger of both samples it is 1.9 times. With 3 pads instead of 20 nothing is gained."""

SAME = {Deciding.PURE: 2.0**-30, Deciding.MIXED: 2.0**-14, Deciding.SINGLE: 2.0**-10}
"""Distance, relative to the largest logit, below which two forwards of one path are one function: far above the noise
of the deciding arm (measured: 1e-13 in float64, 3e-4 in float32), far below what another rotary scaling does."""


@dataclass(slots=True, kw_only=True)
class Oracle:
    """Uncached forwards of one script on one target. `engine` gives the engine of a dtype, loaded once.

    `forwards` counts one per leaf and dtype; `reference_forwards` those that check the reference itself. Without `pads`
    the engine knows no masked slots, and no second sample of its noise is taken. `cache` names a kind of promise
    `masked` under whose policy every forward is run. What is `known` is not asked again before the replay, and what is
    asked becomes known; after the replay the engine is asked all the same.
    """

    tree: Tree
    engine: Callable[[Dtype], Engine]
    deciding: Deciding
    layers: int
    vocab: int
    pads: bool = True
    cache: str | None = None
    known: Known | None = None
    leaves: tuple[int, ...] = ()
    forwards: int = 0
    reference_forwards: int = 0
    _before: dict[Dtype, Tensor] = field(default_factory=dict)

    def references(self, dtypes: Iterable[Dtype], observed: Iterable[int]) -> References:
        """Run every leaf once in every dtype, the deciding one always among them.

        A model whose logits depend on the length of what follows gets one forward per observed history on top, counted
        as reference forwards. Raises UnusableError where the engine cannot be loaded or its uncached side fails.
        """
        nodes = tuple(sorted(set(observed)))
        # An engine that masks by position shows an earlier token one that follows at its own position or below, as a
        # stale cache is fed: from such a path no earlier truth is taken.
        bent = set(self._bent(nodes))
        self.leaves = (*self.tree.leaves(set(nodes) - bent), *self.tree.leaves(bent))
        deciding = self.deciding.dtype
        tables = {dtype: self._run_leaves(dtype) for dtype in dict.fromkeys([deciding, *dtypes])}
        longest = max(range(len(self.leaves)), key=lambda place: self.tree.depths[self.leaves[place]])
        gap, dependent = self._probe_length(self.leaves[longest], tables[deciding][longest])
        rows = {
            dtype: self._each(dtype, nodes) if dependent else self._gather(logits, nodes)
            for dtype, logits in tables.items()
        }
        truth = rows[deciding]
        err = {dtype: (logits - truth).abs().amax(-1) for dtype, logits in rows.items()}
        finite = {dtype: torch.isfinite(logits).all(-1) for dtype, logits in rows.items()}
        for dtype in rows:
            if dtype is not Dtype.FLOAT64 and self.pads:
                padded = self._padded(dtype, nodes, dependent=dependent)
                err[dtype] = err[dtype].maximum((padded - truth).abs().amax(-1))
                finite[dtype] &= torch.isfinite(padded).all(-1)
        return References(
            nodes=nodes,
            truth=truth,
            scale=truth.abs().amax(-1),
            err=err,
            finite=finite,
            deciding=self.deciding,
            dependent=dependent,
            causal_gap=gap,
            layers=self.layers,
        )

    def changed(self) -> Mapping[Dtype, str]:
        """Run the first leaf again in every dtype; say of each that no longer gives the same bits what it did."""
        path = self.tree.path(self.leaves[0])
        real = _real(path)  # position
        told = {}
        for dtype, before in self._before.items():
            try:
                again = self._asked(dtype, path)
                self.reference_forwards += 1
            except UnusableError as error:
                told[dtype] = f"after the replay, not before it, {error}"
            else:
                if not same_bits(again[real], before[real]):
                    told[dtype] = f"the uncached {dtype} forward gives other bits after the replay than before it"
        return told

    def _bent(self, nodes: Sequence[int]) -> list[int]:
        """Return those of `nodes` on whose path some token has no higher position than all before it."""
        highest: dict[int, int | None] = {ROOT: -1}  # by node; None once a path is bent
        for node in range(1, len(self.tree.parents)):
            before = highest[self.tree.parents[node]]
            position, masked = self.tree.positions[node], self.tree.tokens[node] == MASKED
            straight = before is not None and (masked or position > before)
            highest[node] = (before if masked else position) if straight else None
        return [node for node in nodes if highest[node] is None]

    def _run_leaves(self, dtype: Dtype) -> list[Float[Tensor, "_ vocab"]]:
        logits = []
        for leaf in self.leaves:
            logits.append(self._known(dtype, self.tree.path(leaf)))
            self.forwards += 1
        self._before[dtype] = logits[0]
        return logits

    def _padded(self, dtype: Dtype, nodes: tuple[int, ...], *, dependent: bool) -> Float[Tensor, "node vocab"]:
        """Run every history once more behind masked slots, which a decoder must not see."""
        ends = nodes if dependent else self.leaves
        paths = [self.tree.path(end) for end in ends]
        padded = [Path(tokens=(MASKED,) * PADS + path.tokens, positions=(0,) * PADS + path.positions) for path in paths]
        tables = [self._check(dtype, path)[PADS:] for path in padded]
        return torch.stack([table[-1] for table in tables]).double() if dependent else self._gather(tables, nodes)

    def _gather(
        self, logits: Sequence[Float[Tensor, "_ vocab"]], nodes: tuple[int, ...]
    ) -> Float[Tensor, "node vocab"]:
        rows: dict[int, Tensor] = {}
        for leaf, table in zip(self.leaves, logits, strict=True):
            for depth, node in enumerate(self.tree.ancestry(leaf)):
                rows.setdefault(node, table[depth])
        return torch.stack([rows[node] for node in nodes]).double()

    def _each(self, dtype: Dtype, nodes: tuple[int, ...]) -> Float[Tensor, "node vocab"]:
        return torch.stack([self._check(dtype, self.tree.path(node))[-1] for node in nodes]).double()

    def _probe_length(self, leaf: int, logits: Float[Tensor, "position vocab"]) -> tuple[float, bool]:
        """Return how far a later token moves earlier logits, and whether the length alone does."""
        path = self.tree.path(leaf)
        real = _real(path)  # position
        keep = max(1, len(path) // 2)
        dtype = self.deciding.dtype
        head = self._check(dtype, Path(tokens=path.tokens[:keep], positions=path.positions[:keep]))
        tolerance = SAME[self.deciding] * float(logits[real].nan_to_num(0.0, 0.0, 0.0).abs().max())
        if _gap(head[real[:keep]], logits[:keep][real[:keep]]) <= tolerance or keep == len(path):
            return 0.0, False
        swapped = (*path.tokens[:-1], (path.tokens[-1] + 1) % self.vocab)
        other = self._check(dtype, Path(tokens=swapped, positions=path.positions))
        gap = _gap(other[:-1][real[:-1]], logits[:-1][real[:-1]])
        return (gap, False) if gap > tolerance else (0.0, True)

    def _check(self, dtype: Dtype, path: Path) -> Float[Tensor, "position vocab"]:
        logits = self._known(dtype, path)
        self.reference_forwards += 1
        return logits

    def _known(self, dtype: Dtype, path: Path) -> Float[Tensor, "position vocab"]:
        key = (dtype, self.cache, path)
        if self.known is None or key not in self.known:
            logits = self._asked(dtype, path)
            if self.known is None:
                return logits
            self.known[key] = logits
        return self.known[key]

    def _asked(self, dtype: Dtype, path: Path) -> Float[Tensor, "position vocab"]:
        return uncached(self.engine(dtype), path, vocab=self.vocab, cache=self.cache)


def _real(path: Path) -> Bool[Tensor, " position"]:
    """Return which slots hold a token; the logits of the others mean nothing."""
    return torch.tensor(path.tokens) != MASKED


def _gap(actual: Float[Tensor, "position vocab"], expected: Float[Tensor, "position vocab"]) -> float:
    """Return the largest difference; infinite where only one side is a number."""
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    gap = (actual.double() - expected.double()).abs().masked_fill(same, 0.0)
    return float(gap.nan_to_num(nan=torch.inf).max())
