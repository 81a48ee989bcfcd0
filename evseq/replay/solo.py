"""Solo: every row's own operations replayed alone, in the same forwards, in a fresh session of the same kind and dtype.

A lossy cache holds other numbers when it was fed in other pieces, so no uncached forward says what it must answer. The
same row, fed in the same pieces, with nobody beside it and nothing saved, copied or moved, does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

import torch
from jaxtyping import Float
from torch import Tensor

from evseq.engines.protocol import Engine, Session
from evseq.geometry import Layout
from evseq.replay.forcing import batch_of, looked_at
from evseq.script import steps as st

__all__ = ["solo"]


def solo(
    plan: st.Plan, lineages: Collection[int], *, engine: Engine, vocab: int
) -> Mapping[int, Float[Tensor, "observation vocab"]]:
    """Return the logits of every forward of `plan` in `lineages`, each row's from a session of its own.

    What was not observed is not asked of a row alone: behind a step that was refused, as `loud` allows, nothing was.
    Whatever the engine raises reaches the caller.
    """
    trie = _Trie()
    fed = {lineage: reached for lineage, reached in _walk(plan, trie) if lineage in lineages}
    known: dict[int, Tensor] = {}
    for leaf in trie.leaves({node for _, nodes in fed.values() for node in nodes}):
        layout, path = trie.path(leaf)
        _replay(engine.open(layout), path, layout, known, vocab=vocab)
    return {
        lineage: torch.cat([known[node][torch.tensor(row) >= 0] for node, row in zip(nodes, feed.nodes, strict=True)])
        for lineage, (feed, nodes) in fed.items()
    }


Operation = st.Feed | int
"""One forward of one row, or the number of tokens a crop keeps of it."""


@dataclass(slots=True, kw_only=True)
class _Trie:
    """Operations of rows, those that begin alike stored once: a node is what has been done to a row so far."""

    parents: list[int] = field(default_factory=list)
    done: list[Operation | Layout] = field(default_factory=list)  # a layout opens a session
    known: dict[tuple[int, object], int] = field(default_factory=dict)

    def add(self, parent: int, operation: Operation | Layout) -> int:
        """Return the node reached from `parent`, made once; -1 is before everything."""
        key = (parent, _told(operation))
        if key not in self.known:
            self.known[key] = len(self.parents)
            self.parents.append(parent)
            self.done.append(operation)
        return self.known[key]

    def leaves(self, wanted: Collection[int]) -> list[int]:
        """Return those of the `wanted` nodes that none of the others comes behind."""
        inner: set[int] = set()
        for node in wanted:
            while (node := self.parents[node]) >= 0 and node not in inner:
                inner.add(node)
        return [node for node in sorted(wanted) if node not in inner]

    def path(self, node: int) -> tuple[Layout, list[tuple[int, Operation]]]:
        """Return the layout a row was opened in, and what was done to it up to `node`, in order."""
        path: list[tuple[int, Operation]] = []
        while not isinstance(operation := self.done[node], Layout):
            path.append((node, operation))
            node = self.parents[node]
        return operation, path[::-1]


def _told(operation: Operation | Layout) -> object:
    """Return what makes two operations the same."""
    if isinstance(operation, st.Feed):
        return operation.prefill, operation.tokens, operation.positions, tuple(node >= 0 for node in operation.nodes[0])
    return operation


def _walk(plan: st.Plan, trie: _Trie) -> Iterator[tuple[int, tuple[st.Feed, list[int]]]]:
    """Yield every forward by its lineage, with the node that each of its rows reaches."""
    rows: dict[str, list[int]] = {}
    groups: dict[str, int] = {}
    saved: dict[str, list[int]] = {}
    for step in plan.steps:
        match step:
            case st.Open():
                rows[step.session], groups[step.session] = [], step.group
            case st.Reset():
                rows[step.session] = []
            case st.Feed():
                before = rows[step.session] or _opened(plan, trie, groups[step.session], step)
                rows[step.session] = _fed(trie, step, before)
                yield step.lineage, (step, rows[step.session])
            case st.Select() | st.Retire() | st.Join() | st.Crop():
                rows[step.session] = _reshaped(trie, step, rows)
            case st.Fork():
                rows[step.session], groups[step.session] = rows[step.source], groups[step.source]
            case st.Save():
                saved[step.to] = rows[step.session]
            case st.Load():
                if step.refused is None:
                    source = saved[step.source] if step.held is None else rows[step.source]
                    rows[step.session], groups[step.session] = source, step.group
                yield from _afresh(plan, trie, step.damage)
            case st.Drop() | st.Read() | st.Alter() | st.Restore() | st.LoadDamaged():
                pass
            case st.Stow() | st.Draw():
                raise AssertionError("no pool serves a lossy cache")
            case _:
                assert_never(step)


def _opened(plan: st.Plan, trie: _Trie, group: int, first: st.Feed) -> list[int]:
    """Return the node of a row in a session of its own, for every row of a first forward."""
    return [trie.add(-1, replace(plan.layouts[group], rows=1))] * len(first.rows)


def _fed(trie: _Trie, feed: st.Feed, before: list[int]) -> list[int]:
    return [trie.add(node, _alone(feed, row)) for row, node in enumerate(before)]


def _reshaped(trie: _Trie, step: st.Select | st.Retire | st.Join | st.Crop, rows: dict[str, list[int]]) -> list[int]:
    """Return the nodes of a session's rows after a step that moves or cuts them; of these only a crop is their own."""
    own = rows[step.session]
    match step:
        case st.Select() | st.Retire():
            return [own[parent] for parent in step.parents]
        case st.Join():
            return [*own, *rows.pop(step.other)]
        case st.Crop():
            return [trie.add(node, length) for node, length in zip(own, step.lengths, strict=True)]
        case _:
            assert_never(step)


def _afresh(plan: st.Plan, trie: _Trie, damage: st.Damage | None) -> Iterator[tuple[int, tuple[st.Feed, list[int]]]]:
    """Yield the forwards of a changed request that is played from its beginning."""
    if damage is None or damage.world is not st.World.SAME:
        return
    nodes = _opened(plan, trie, damage.group, damage.right[0])
    for feed in damage.right:
        nodes = _fed(trie, feed, nodes)
        yield feed.lineage, (feed, nodes)


def _alone(feed: st.Feed, row: int) -> st.Feed:
    """Return the same forward of one row, its masked columns among them: a lossy cache may count slots."""
    return replace(
        feed,
        rows=(feed.rows[row],),
        tokens=(feed.tokens[row],),
        positions=(feed.positions[row],),
        nodes=(feed.nodes[row],),
        indices=(feed.indices[row],),
    )


def _replay(
    session: Session, path: list[tuple[int, Operation]], layout: Layout, known: dict[int, Tensor], *, vocab: int
) -> None:
    """Do to a fresh session what was done to a row; write down the logits [column, vocab] of each forward, once."""
    for node, operation in path:
        if isinstance(operation, int):
            session.crop([operation])
            continue
        batch = batch_of(operation, layout)
        logits = session.prefill(batch) if operation.prefill else session.append(batch)
        if node not in known:  # a copy: an engine may reuse its buffer
            known[node] = looked_at(logits, batch, vocab=vocab)[0].clone()
