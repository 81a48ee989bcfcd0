"""Sessions as a plan sees them: rows side by side, and where each is cut, copied or joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from evseq.script.placing import Row, Rules
from evseq.script.request import Request, State

__all__ = ["SessionPlan"]


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
    elsewhere: bool = False  # in another process
    tampered: dict[str, str | None] = field(default_factory=dict)  # fields whose hold on it was changed, with the row
    retired: dict[str, int] = field(default_factory=dict)  # rows that left, with the line

    @property
    def width(self) -> int:
        """Slots per row; every row has as many."""
        return next(iter(self.rows.values())).width

    @property
    def exact(self) -> bool:
        """Whether the number of tokens is known for every row, also without a target."""
        return all(row.exact for row in self.rows.values())

    def copy(self, name: str) -> SessionPlan:
        """Return an independent session with the same contents."""
        return SessionPlan(
            name=name,
            group=self.group,
            lineage=self.lineage,
            rows={key: row.copy() for key, row in self.rows.items()},
            salt=self.salt,
            peak_width=self.peak_width,
            elsewhere=self.elsewhere,
            tampered=dict(self.tampered),
            retired=dict(self.retired),
        )

    def left(self, name: str) -> str:
        """Return how a message tells that a row was retired."""
        return f"left session {self.name!r} in line {self.retired[name]}"

    def take_in(self, other: SessionPlan) -> None:
        """Add the rows of another session; the narrower one gets masked slots in front."""
        width = max(self.width, other.width)
        peaks = [max(one.peak_width, one.width) + width - one.width for one in (self, other)]
        for one in (self, other):
            short = width - one.width
            for row in one.rows.values() if short else ():
                row.push(short)
        self.rows |= other.rows
        self.peak_width = max(peaks)

    def crop(self, lengths: Sequence[int]) -> bool:
        """Keep the first tokens of each row; cut columns behind the last kept one.

        Returns whether a dropped token lay before that column, so that its slot is masked now.
        """
        self.peak_width = max(self.peak_width, self.width)
        pairs = list(zip(self.rows.values(), lengths, strict=True))
        width = max(row.reach(length) for row, length in pairs)
        uneven = any(column < width for row, length in pairs for column in row.columns[length:])
        for row, length in pairs:
            row.crop(length, width)
        return uneven

    def state(self, rules: Rules) -> State:
        """Return what a probe must read now."""
        rows, width = self.rows.values(), self.width
        return State(
            lengths=tuple([len(row.tokens) for row in rows]),
            next_positions=tuple([row.next_position(rules) for row in rows]),
            visible=tuple([tuple([row.visible(layer, rules) for row in rows]) for layer in rules.layers]),
            columns=width,
            furthest=max(width, self.peak_width),
        )

    def request(self, padding: str) -> Request:
        """Return the path this session claims."""
        return Request(rows=tuple(row.requested() for row in self.rows.values()), salt=self.salt, padding=padding)
