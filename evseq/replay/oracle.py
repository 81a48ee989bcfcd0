"""Oracle: uncached full-prefix forwards, one per leaf of the tree of histories and dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from evseq.engines.protocol import Engine
from evseq.geometry import Deciding, Dtype
from evseq.history import MASKED, Path, Tree
from evseq.replay.references import References

__all__ = ["Oracle"]

PADS = 3
"""Masked slots put before a path to see how far padding alone moves an engine without double precision."""

SAME = {Deciding.PURE: 2.0**-30, Deciding.MIXED: 2.0**-14, Deciding.SINGLE: 2.0**-10}
"""Distance, relative to the largest logit, below which two forwards of one path are one function: far above the noise
of the deciding arm (measured: 1e-13 in float64, 3e-4 in float32), far below what another rotary scaling does."""


@dataclass(slots=True, kw_only=True)
class Oracle:
    """Uncached forwards of one script on one target. `engine` gives the engine of a dtype, loaded once.

    `forwards` counts one per leaf and dtype; `reference_forwards` those that check the reference itself.
    """

    tree: Tree
    engine: Callable[[Dtype], Engine]
    deciding: Deciding
    layers: int
    leaves: tuple[int, ...] = ()
    forwards: int = 0
    reference_forwards: int = 0
    _before: dict[Dtype, Tensor] = field(default_factory=dict)

    def references(self, dtypes: Iterable[Dtype], observed: Iterable[int]) -> References:
        """Run every leaf once in every dtype, the deciding one always among them.

        A model whose logits depend on the length of what follows gets one forward per observed history on top, counted
        as reference forwards.
        """
        nodes = tuple(sorted(set(observed)))
        self.leaves = self.tree.leaves(nodes)
        deciding = self.deciding.dtype
        uncached = {dtype: self._run_leaves(dtype) for dtype in dict.fromkeys([deciding, *dtypes])}
        longest = max(range(len(self.leaves)), key=lambda place: self.tree.depths[self.leaves[place]])
        gap, dependent = self._probe_length(self.leaves[longest], uncached[deciding][longest])
        rows = {
            dtype: self._each(dtype, nodes) if dependent else self._gather(logits, nodes)
            for dtype, logits in uncached.items()
        }
        truth = rows[deciding]
        err = {dtype: (logits - truth).abs().amax(-1) for dtype, logits in rows.items()}
        if self.deciding is Deciding.SINGLE:
            err[deciding] = (self._gather(self._run_padded(deciding), nodes) - truth).abs().amax(-1)
        return References(
            nodes=nodes,
            truth=truth,
            scale=truth.abs().amax(-1),
            err=err,
            finite={dtype: torch.isfinite(logits).all(-1) for dtype, logits in rows.items()},
            deciding=self.deciding,
            dependent=dependent,
            causal_gap=gap,
            layers=self.layers,
        )

    def changed(self) -> tuple[Dtype, ...]:
        """Run the first leaf again in every dtype and return those that no longer give the same bits."""
        return tuple(
            dtype
            for dtype, before in self._before.items()
            if not torch.equal(self._check(dtype, self.tree.path(self.leaves[0])), before)
        )

    def _run_leaves(self, dtype: Dtype) -> list[Float[Tensor, "position vocab"]]:
        logits = [self.engine(dtype).uncached(self.tree.path(leaf)) for leaf in self.leaves]
        self.forwards += len(logits)
        self._before[dtype] = logits[0].clone()
        return logits

    def _run_padded(self, dtype: Dtype) -> list[Float[Tensor, "position vocab"]]:
        paths = [self.tree.path(leaf) for leaf in self.leaves]
        padded = [Path(tokens=(MASKED,) * PADS + path.tokens, positions=(0,) * PADS + path.positions) for path in paths]
        return [self._check(dtype, path)[PADS:] for path in padded]

    def _gather(
        self, logits: Sequence[Float[Tensor, "position vocab"]], nodes: tuple[int, ...]
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
        keep = max(1, len(path) // 2)
        dtype = self.deciding.dtype
        head = self._check(dtype, Path(tokens=path.tokens[:keep], positions=path.positions[:keep]))
        tolerance = SAME[self.deciding] * float(logits.abs().max())
        if float(_gap(head, logits[:keep])) <= tolerance or keep == len(path):
            return 0.0, False
        swapped = (*path.tokens[:-1], (path.tokens[-1] + 1) % logits.shape[1])
        other = self._check(dtype, Path(tokens=swapped, positions=path.positions))
        gap = float(_gap(other[:-1], logits[:-1]))
        return (gap, False) if gap > tolerance else (0.0, True)

    def _check(self, dtype: Dtype, path: Path) -> Float[Tensor, "position vocab"]:
        self.reference_forwards += 1
        return self.engine(dtype).uncached(path)


def _gap(actual: Tensor, expected: Tensor) -> Tensor:
    return (actual.double() - expected.double()).abs().nan_to_num(nan=torch.inf).max()
