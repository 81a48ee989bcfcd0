"""Placing: one row's tokens in their slots, with positions and place in the tree of histories."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from evseq.geometry import Geometry, Layer, PositionRule, Positions, WindowCounts
from evseq.history import MASKED, ROOT, Tree
from evseq.script.request import RequestedRow
from evseq.script.texts import RowText

__all__ = ["Row", "Rules", "Taken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How this plan numbers tokens, and which masked slots belong to a history.

    `by_slot`: a token's position is its slot, pads and holes included. `gaps_matter`: inner masked slots belong to a
    history. `layers` are none without a geometry; `window_counts` is what their windows count.
    """

    positions: Positions
    tree: Tree
    by_slot: bool = False
    gaps_matter: bool = False
    layers: tuple[Layer, ...] = ()
    window_counts: WindowCounts = WindowCounts.POSITIONS

    @classmethod
    def of(cls, geometry: Geometry | None, *, positions: Positions, tree: Tree) -> Rules:
        """Return the rules of a decoder when tokens are numbered as `positions` says; the plainest without one."""
        if geometry is None:
            return cls(positions=positions, tree=tree)
        return cls(
            positions=positions,
            tree=tree,
            by_slot=positions is Positions.ENGINE and geometry.position_rule is PositionRule.SLOT,
            gaps_matter=geometry.gaps_matter,
            layers=geometry.layers,
            window_counts=geometry.window_counts,
        )


class Taken(NamedTuple):
    """What one row is fed, column by column: in masked columns token and position are 0, node and index -1."""

    tokens: tuple[int, ...]
    positions: tuple[int, ...]
    nodes: tuple[int, ...]
    indices: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class Row:
    """One row: its own text and the place in it, then its real tokens in parallel lists, then its width in slots.

    `due` tokens of its own text are about to be taken; `places` is the place in the text after each token held. Where
    `exact` is False only a target knows how many tokens it holds.
    """

    name: str
    text: RowText
    taken: int = 0
    due: int = 0
    exact: bool = True
    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)  # the slot of each real token
    nodes: list[int] = field(default_factory=list)  # the history after each real token
    places: list[int] = field(default_factory=list)
    width: int = 0
    peak: int = 0  # the longest it has been since it was opened
    pushed: list[tuple[int, int]] = field(default_factory=list)  # at each join: tokens held, slots put in front of them
    jump: tuple[int, int] = (0, 0)  # tokens from this index on stand so many positions further back
    flipped: bool = False  # numbered by the other rule: by slot where tokens are counted, or the other way round

    @property
    def length(self) -> int:
        """Real tokens held."""
        return len(self.tokens)

    @property
    def node(self) -> int:
        """The history so far."""
        return self.nodes[-1] if self.nodes else ROOT

    @property
    def words(self) -> dict[str, int | None]:
        """The number word `length` where the tokens held are meant."""
        return {"length": self.length if self.exact else None}

    def copy(self, name: str | None = None) -> Row:
        """Return an independent row with the same contents."""
        return Row(
            name=name or self.name,
            text=self.text,
            taken=self.taken,
            due=self.due,
            exact=self.exact,
            tokens=self.tokens[:],
            positions=self.positions[:],
            columns=self.columns[:],
            nodes=self.nodes[:],
            places=self.places[:],
            width=self.width,
            peak=self.peak,
            pushed=self.pushed[:],
            jump=self.jump,
            flipped=self.flipped,
        )

    def next_position(self, rules: Rules) -> int:
        """Return the position the next token gets."""
        return self.position(self.length, self.width, rules)

    def position(self, index: int, column: int, rules: Rules) -> int:
        """Return the position of the token at `index`, which lies in slot `column`."""
        at, by = self.jump
        slot = column - sum(slots for held, slots in self.pushed if index < held)  # its slot when it was fed
        return (slot if rules.by_slot != self.flipped else index) + (by if index >= at else 0)

    def take(self, cells: Sequence[int | None], rules: Rules) -> Taken:
        """Take one slot per cell, masked where it is None."""
        fed: list[tuple[int, int, int, int]] = []
        for column, token in enumerate(cells, start=self.width):
            if token is None:
                fed.append((0, 0, -1, -1))
                continue
            index = len(self.tokens)
            position = self.position(index, column, rules)
            if self.due:
                self.due, self.taken = self.due - 1, self.taken + 1
            self.places.append(self.taken)
            self.tokens.append(token)
            self.positions.append(position)
            self.columns.append(column)
            node = self._follow(index, rules)
            fed.append((token, position, node, index))
        self.width += len(cells)
        self.peak = max(self.peak, len(self.tokens))
        return Taken(*zip(*fed, strict=True))

    def change(self, index: int, token: int, rules: Rules) -> None:
        """Put another token at `index`; what follows becomes another history."""
        self.tokens[index] = token
        self._renumber(index, rules)

    def hide(self, index: int, rules: Rules) -> int:
        """Mask the token at `index` and return its slot; those after it are numbered as if it had never been there."""
        column = self.columns.pop(index)
        del self.tokens[index], self.places[index]
        self._renumber(index, rules)
        return column

    def shift(self, index: int, by: int, rules: Rules) -> None:
        """Let the token at `index` and all behind it stand further back."""
        self.jump = (index, by)
        self._renumber(index, rules)

    def lay(self, columns: Sequence[int], width: int, rules: Rules) -> None:
        """Put the tokens into other slots."""
        self.columns, self.width = list(columns), width
        self._renumber(0, rules)

    def flip(self, rules: Rules) -> None:
        """Give the tokens the positions of the other rule."""
        self.flipped = not self.flipped
        self._renumber(0, rules)

    def went_on(self, token: int, position: int, rules: Rules) -> int:
        """Return the history after one more token at `position`, and forget it."""
        more = self.copy()
        more.tokens.append(token)
        more.positions.append(position)
        more.columns.append(more.width)
        return more._follow(self.length, rules)  # noqa: SLF001 - its own copy

    def _renumber(self, index: int, rules: Rules) -> None:
        """Give the tokens from `index` on their positions anew; they become another history."""
        self.positions[index:] = [
            self.position(later, self.columns[later], rules) for later in range(index, self.length)
        ]
        del self.nodes[index:]
        for later in range(index, self.length):
            self._follow(later, rules)

    def _follow(self, index: int, rules: Rules) -> int:
        """Add the node of the token at `index` to those before it and return it."""
        tree, node = rules.tree, self.node
        if rules.gaps_matter and index:
            for _ in range(self.columns[index] - self.columns[index - 1] - 1):
                node = tree.extend(node, MASKED, 0)
        node = tree.extend(node, self.tokens[index], self.positions[index])
        self.nodes.append(node)
        return node

    def reach(self, length: int) -> int:
        """Return how many slots the first `length` real tokens reach over."""
        return self.columns[length - 1] + 1 if length else 0

    def crop(self, length: int, width: int) -> None:
        """Keep the first `length` real tokens within `width` slots; dropped tokens before that are masked slots."""
        for held in (self.tokens, self.positions, self.columns, self.nodes, self.places):
            del held[length:]
        self.taken = self.places[-1] if self.places else 0
        self.width = width
        self.pushed = [(min(held, length), slots) for held, slots in self.pushed]

    def push(self, slots: int) -> None:
        """Put masked slots in front; the tokens keep the positions they were fed with."""
        self.columns = [column + slots for column in self.columns]
        self.width += slots
        self.pushed.append((self.length, slots))

    def visible(self, layer: Layer, rules: Rules) -> int:
        """Return how many held tokens the next query attends to in `layer`."""
        if layer.window is None:
            return self.length if layer.attends else 0
        slots = rules.window_counts is WindowCounts.SLOTS
        here, held = (self.width, self.columns) if slots else (self.next_position(rules), self.positions)
        first = held[0] if held else here
        if layer.sinks:
            return sum(layer.sees(place, here=here, first=first) for place in held)
        return sum(
            1 for _ in itertools.takewhile(lambda place: layer.sees(place, here=here, first=first), reversed(held))
        )

    def requested(self) -> RequestedRow:
        """Return this row as a request claims it."""
        slots = [MASKED] * self.width
        for token, column in zip(self.tokens, self.columns, strict=True):
            slots[column] = token
        return RequestedRow(name=self.name, slots=tuple(slots), positions=tuple(self.positions), text=self.text.text)
