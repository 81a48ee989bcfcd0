"""Histories: the tree of paths as a golden keeps it, in an order that no script's order of arms can change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evseq.history import ROOT, Path, Tree

__all__ = ["TOP", "Histories", "arranged"]

TOP = -1
"""The parent of a first slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histories:
    """Slots of all histories, each with the slot before it; `observed` are those that end a history, ascending.

    A slot stands behind its parent, siblings by position and then token, so that equal sets of histories are equal.
    """

    parents: tuple[int, ...]
    tokens: tuple[int, ...]
    positions: tuple[int, ...]
    observed: tuple[int, ...]

    def rows(self, tree: Tree) -> dict[int, int]:
        """Return the row, a place in `observed`, of every node of `tree` whose history is one of these."""
        slots = {key: slot for slot, key in enumerate(zip(self.parents, self.tokens, self.positions, strict=True))}
        row_of = {slot: row for row, slot in enumerate(self.observed)}
        found = {ROOT: TOP}
        rows = {}
        for node in range(1, len(tree.parents)):
            above = found.get(tree.parents[node])
            slot = None if above is None else slots.get((above, tree.tokens[node], tree.positions[node]))
            if slot is not None:
                found[node] = slot
                if slot in row_of:
                    rows[node] = row_of[slot]
        return rows

    def paths(self) -> tuple[Path, ...]:
        """Return every observed history, slot by slot, in the order of the rows."""
        return tuple(self._path(slot) for slot in self.observed)

    def _path(self, slot: int) -> Path:
        slots: list[int] = []
        while slot != TOP:
            slots.append(slot)
            slot = self.parents[slot]
        slots.reverse()
        return Path(tokens=tuple(self.tokens[s] for s in slots), positions=tuple(self.positions[s] for s in slots))


def arranged(tree: Tree, nodes: Iterable[int]) -> tuple[Histories, tuple[int, ...]]:
    """Return the histories that end in `nodes` of `tree`, and the node of each row."""
    wanted = set(nodes)
    kept = set(wanted)
    for node in wanted:
        above = tree.parents[node]
        while above != ROOT and above not in kept:
            kept.add(above)
            above = tree.parents[above]
    children: dict[int, list[int]] = {}
    for node in kept:
        children.setdefault(tree.parents[node], []).append(node)
    order: list[int] = []
    waiting = [ROOT]
    while waiting:
        node = waiting.pop()
        if node != ROOT:
            order.append(node)
        below = children.get(node, ())
        waiting += sorted(below, key=lambda child: (tree.positions[child], tree.tokens[child]), reverse=True)
    slot_of = {ROOT: TOP} | {node: slot for slot, node in enumerate(order)}
    ends = tuple(node for node in order if node in wanted)
    histories = Histories(
        parents=tuple(slot_of[tree.parents[node]] for node in order),
        tokens=tuple(tree.tokens[node] for node in order),
        positions=tuple(tree.positions[node] for node in order),
        observed=tuple(slot_of[node] for node in ends),
    )
    return histories, ends
