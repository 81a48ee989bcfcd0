"""Sessions as a plan sees them: rows with their slots, positions and place in the tree of histories."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from evseq.geometry import Geometry, PositionRule, Positions, WindowCounts
from evseq.history import MASKED, ROOT, Tree
from evseq.script.steps import Request, RequestedRow, State
from evseq.script.texts import RowText

__all__ = ["Row", "Rules", "SessionPlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How this plan numbers tokens, and which masked slots belong to a history."""

    geometry: Geometry | None
    positions: Positions
    tree: Tree

    @property
    def by_slot(self) -> bool:
        """Whether a token's position is its slot, pads and holes included."""
        return (
            self.positions is Positions.ENGINE
            and self.geometry is not None
            and self.geometry.position_rule is PositionRule.SLOT
        )

    @property
    def gaps_matter(self) -> bool:
        """Whether inner masked slots belong to a history."""
        return self.geometry is not None and self.geometry.gaps_matter

    @property
    def windows(self) -> tuple[int | None, ...]:
        """The window of every layer; empty without a geometry."""
        return tuple(layer.window for layer in self.geometry.layers) if self.geometry else ()


@dataclass(slots=True, kw_only=True)
class Row:
    """One row: its own text and the place in it, then its real tokens in parallel lists, then its width in slots.

    `due` tokens of its own text are about to be taken; `places` is the place in the text after each token held.
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

    @property
    def length(self) -> int:
        """Real tokens held."""
        return len(self.tokens)

    @property
    def node(self) -> int:
        """The history so far."""
        return self.nodes[-1] if self.nodes else ROOT

    def copy(self, name: str | None = None) -> Row:
        """Return an independent row with the same contents."""
        return replace(
            self,
            name=name or self.name,
            tokens=list(self.tokens),
            positions=list(self.positions),
            columns=list(self.columns),
            nodes=list(self.nodes),
            places=list(self.places),
        )

    def next_position(self, rules: Rules) -> int:
        """Return the position the next token gets."""
        return self.width if rules.by_slot else self.length

    def take(self, token: int | None, rules: Rules) -> int:
        """Take one slot, masked if `token` is None; return the real token's position, else 0."""
        column, self.width = self.width, self.width + 1
        if token is None:
            return 0
        position = column if rules.by_slot else self.length
        if self.due:
            self.due, self.taken = self.due - 1, self.taken + 1
        self.places.append(self.taken)
        self.tokens.append(token)
        self.positions.append(position)
        self.columns.append(column)
        self._trace(rules)
        self.peak = max(self.peak, self.length)
        return position

    def change(self, index: int, token: int, rules: Rules) -> None:
        """Put another token at `index`; what follows becomes another history."""
        self.tokens[index] = token
        del self.nodes[index:]
        self._trace(rules)

    def _trace(self, rules: Rules) -> None:
        for index in range(len(self.nodes), self.length):
            node = self.node
            if rules.gaps_matter and index:
                for _ in range(self.columns[index] - self.columns[index - 1] - 1):
                    node = rules.tree.extend(node, MASKED, 0)
            self.nodes.append(rules.tree.extend(node, self.tokens[index], self.positions[index]))

    def reach(self, length: int) -> int:
        """Return how many slots the first `length` real tokens reach over."""
        return self.columns[length - 1] + 1 if length else 0

    def crop(self, length: int, width: int) -> None:
        """Keep the first `length` real tokens within `width` slots; dropped tokens before that are masked slots."""
        for held in (self.tokens, self.positions, self.columns, self.nodes, self.places):
            del held[length:]
        self.taken = self.places[-1] if self.places else 0
        self.width = width

    def visible(self, window: int | None, rules: Rules) -> int:
        """Return how many held tokens the next query attends to in a layer of this window."""
        if window is None:
            return self.length
        slots = rules.geometry is not None and rules.geometry.window_counts is WindowCounts.SLOTS
        here, held = (self.width, self.columns) if slots else (self.next_position(rules), self.positions)
        return sum(1 for _ in itertools.takewhile(lambda place: here - place < window, reversed(held)))

    def requested(self) -> RequestedRow:
        """Return this row as a request claims it."""
        slots = [MASKED] * self.width
        for token, column in zip(self.tokens, self.columns, strict=True):
            slots[column] = token
        return RequestedRow(name=self.name, slots=tuple(slots), positions=tuple(self.positions), text=self.text.text)


@dataclass(slots=True, kw_only=True)
class SessionPlan:
    """One session: rows in batch order, its group (who shares its layout), its lineage (what was computed)."""

    name: str
    group: int
    lineage: int
    rows: dict[str, Row]
    salt: str | None = None
    opened_by: int | None = None  # the event that must be followed by a feed or probe
    peak_width: int = 0

    @property
    def width(self) -> int:
        """Slots per row."""
        return max((row.width for row in self.rows.values()), default=0)

    def copy(self, name: str) -> SessionPlan:
        """Return an independent session with the same contents."""
        return replace(self, name=name, rows={key: row.copy() for key, row in self.rows.items()}, opened_by=None)

    def crop(self, lengths: Sequence[int]) -> bool:
        """Keep the first tokens of each row; cut columns behind the last kept one.

        Returns whether a dropped token lay before that column, so that its slot is masked now.
        """
        pairs = list(zip(self.rows.values(), lengths, strict=True))
        width = max(row.reach(length) for row, length in pairs)
        uneven = any(column < width for row, length in pairs for column in row.columns[length:])
        for row, length in pairs:
            row.crop(length, width)
        return uneven

    def state(self, rules: Rules) -> State:
        """Return what a probe must read now."""
        rows = self.rows.values()
        return State(
            lengths=tuple(row.length for row in rows),
            next_positions=tuple(row.next_position(rules) for row in rows),
            visible=tuple(tuple(row.visible(window, rules) for row in rows) for window in rules.windows),
            columns=self.width,
            furthest=max(self.width, self.peak_width),
        )

    def request(self, padding: str) -> Request:
        """Return the path this session claims."""
        return Request(rows=tuple(row.requested() for row in self.rows.values()), salt=self.salt, padding=padding)
