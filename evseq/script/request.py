"""Request: what a session claims when it asks for reuse, and what is known of the session or the pool it asks."""

from __future__ import annotations

from dataclasses import dataclass

from evseq.geometry import Positions

__all__ = ["Asks", "Bound", "Held", "Request", "RequestedRow", "State"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedRow:
    """One row of a request: its slots in order, MASKED where a pad or hole lies, and the positions of real tokens."""

    name: str
    slots: tuple[int, ...]
    positions: tuple[int, ...]
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The path a session claims, row by row."""

    rows: tuple[RequestedRow, ...]
    salt: str | None
    padding: str

    @property
    def tokens(self) -> int:
        """Real tokens over all rows."""
        return sum(len(row.positions) for row in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What an engine's probe must read after a step.

    `lengths` real tokens per row, `next_positions` per row, `visible[layer][row]` cached tokens the next query attends
    to (empty without a geometry), `columns` slots fed and not cut, pads and holes included, `furthest` the most there
    ever were.
    """

    lengths: tuple[int, ...]
    next_positions: tuple[int, ...]
    visible: tuple[tuple[int, ...], ...]
    columns: int
    furthest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a live session holds: its own request, and the most columns it ever held."""

    request: Request
    furthest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """How the session that asks differs from the one that was filled: its cache kind, more room, who numbers tokens."""

    cache: str | None = None
    room: int = 0
    positions: Positions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """At most so many `tokens` of a row may come from a pool, and `why` not more; `field` is what differs there."""

    tokens: int
    why: str
    field: str | None = None
