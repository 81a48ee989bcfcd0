"""Solo: every row's own operations replayed alone, in the same forwards, in a fresh session of the same kind and dtype.

A lossy cache holds other numbers when it was fed in other pieces, so no uncached forward says what it must answer. The
same row, fed in the same pieces, with nobody beside it and nothing saved, copied or moved, does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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


def solo(plan: st.Plan, *, engine: Engine, vocab: int) -> Mapping[int, Float[Tensor, "observation vocab"]]:
    """Return the logits of every forward of `plan` by its lineage, each row's from a session of its own.

    Whatever the engine raises reaches the caller.
    """
    trie = _Trie()
    fed = dict(_walk(plan, trie))
    known: dict[int, Tensor] = {}
    for leaf in trie.leaves():
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

    def leaves(self) -> list[int]:
        """Return the nodes nothing follows, sessions that were never fed aside."""
        inner = set(self.parents)
        return [node for node in range(len(self.parents)) if node not in inner and self.parents[node] >= 0]

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

    def opened(group: int, count: int) -> list[int]:
        return [trie.add(-1, replace(plan.layouts[group], rows=1))] * count

    def fed(feed: st.Feed, before: Iterable[int]) -> list[int]:
        return [trie.add(node, _alone(feed, row)) for row, node in enumerate(before)]

    for step in plan.steps:
        match step:
            case st.Open() | st.Reset():
                groups[step.session] = getattr(step, "group", groups.get(step.session, 0))
                rows[step.session] = []
            case st.Feed():
                before = rows[step.session] or opened(groups[step.session], len(step.rows))
                rows[step.session] = fed(step, before)
                yield step.lineage, (step, rows[step.session])
            case st.Select() | st.Retire():
                rows[step.session] = [rows[step.session][parent] for parent in step.parents]
            case st.Join():
                rows[step.session] = [*rows[step.session], *rows.pop(step.other)]
            case st.Crop():
                pairs = zip(rows[step.session], step.lengths, strict=True)
                rows[step.session] = [trie.add(node, length) for node, length in pairs]
            case st.Fork():
                rows[step.session], groups[step.session] = rows[step.source], groups[step.source]
            case st.Save():
                saved[step.to] = rows[step.session]
            case st.Load():
                if step.refused is None:
                    source = saved[step.source] if step.held is None else rows[step.source]
                    rows[step.session], groups[step.session] = source, step.group
                if step.damage is not None and step.damage.world is st.World.SAME:
                    nodes = opened(step.damage.group, len(step.damage.right[0].rows))
                    for feed in step.damage.right:
                        nodes = fed(feed, nodes)
                        yield feed.lineage, (feed, nodes)
            case st.Drop() | st.Read() | st.Alter() | st.Restore() | st.LoadDamaged():
                pass
            case _:
                assert_never(step)


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
