"""What a row has seen: paths, and the tree in which equal histories are one node.

The first law groups observations by history. Paths are therefore interned in a tree while a script is
planned: two observations have the same history exactly when they carry the same node number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["MASKED", "ROOT", "Path", "Tree"]

MASKED = -1
"""The token of a masked slot (a pad or a hole) inside a path. Symbolic tokens are below it."""

ROOT = 0
"""The node of the empty history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One row's slots in order: a token and its position each; a masked slot is (MASKED, position)."""

    tokens: tuple[int, ...]
    positions: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(slots=True)
class Tree:
    """Every history of one script on one target; node 0 is the empty one.

    `parents`, `tokens`, `positions` and `depths` are parallel lists indexed by node. A masked slot is a node
    too where it shapes what follows (where a window counts slots); it is never observed.
    """

    parents: list[int] = field(default_factory=lambda: [ROOT])
    tokens: list[int] = field(default_factory=lambda: [MASKED])
    positions: list[int] = field(default_factory=lambda: [-1])
    depths: list[int] = field(default_factory=lambda: [0])
    children: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def extend(self, node: int, token: int, position: int) -> int:
        """Return the node reached from `node` by one more slot, made once."""
        key = (node, token, position)
        found = self.children.get(key)
        if found is None:
            found = self.children[key] = len(self.parents)
            self.parents.append(node)
            self.tokens.append(token)
            self.positions.append(position)
            self.depths.append(self.depths[node] + 1)
        return found

    def ancestry(self, node: int) -> list[int]:
        """Return the nodes from the first slot to `node`, so that slot i of its path is element i."""
        nodes: list[int] = []
        while node != ROOT:
            nodes.append(node)
            node = self.parents[node]
        nodes.reverse()
        return nodes

    def path(self, node: int) -> Path:
        """Return the slots from the first to `node`."""
        nodes = self.ancestry(node)
        return Path(
            tokens=tuple(self.tokens[n] for n in nodes),
            positions=tuple(self.positions[n] for n in nodes),
        )

    def leaves(self, nodes: Iterable[int]) -> tuple[int, ...]:
        """Return those of `nodes` that no other of them continues, in the order they were made."""
        wanted = set(nodes)
        inner: set[int] = set()
        for node in wanted:
            above = self.parents[node]
            while above != ROOT and above not in inner:
                inner.add(above)
                above = self.parents[above]
        return tuple(sorted(wanted - inner))
