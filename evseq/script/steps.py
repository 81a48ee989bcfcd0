"""Steps: a script lowered to what is done to sessions, every count known before a model loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evseq.geometry import Capability, Dtype, Layout
from evseq.script.events import Process, Reused

__all__ = [
    "Crop",
    "Damage",
    "Drop",
    "Feed",
    "Fork",
    "Grid",
    "Load",
    "Open",
    "Plan",
    "Read",
    "Request",
    "RequestedRow",
    "Reset",
    "Save",
    "Select",
    "State",
    "Step",
]

Grid = tuple[tuple[int, ...], ...]
"""Integers by row and column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What an engine's probe must read after a step.

    `lengths` real tokens per row, `next_positions` per row, `visible[layer][row]` cached tokens the next query attends
    to (empty without a geometry), `columns` slots fed and not cut, pads and holes included, `furthest` the most there
    ever were.
    """

    lengths: tuple[int, ...]
    next_positions: tuple[int, ...]
    visible: Grid
    columns: int
    furthest: int


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
class _Step:
    event: int  # index into the script's events
    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Open(_Step):
    """Open an empty session of one lineage group (sessions of a group share a layout)."""

    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed(_Step):
    """One forward. `nodes` is -1 in masked columns; `indices` counts a row's own tokens.

    Feeds with the same `lineage` are the same computation on copies of one cache.
    """

    prefill: bool
    rows: tuple[str, ...]
    tokens: Grid
    positions: Grid
    nodes: Grid
    indices: Grid
    lineage: int
    after: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(_Step):
    """Rows become copies of their parents."""

    parents: tuple[int, ...]
    rows: tuple[str, ...]
    after: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Crop(_Step):
    """Rows keep their first `lengths` tokens."""

    lengths: tuple[int, ...]
    after: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork(_Step):
    """Open `session` as a copy of `source`."""

    source: str
    after: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Save(_Step):
    """Seal the session's cache under the name `to`."""

    to: str
    group: int
    request: Request
    after: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What shows that a refusal was needed.

    The changed request is prefilled in a scratch session and one probe column appended (`right`); the stale cache is
    forced into another and fed the same column. `stale` are the nodes the forced copy really is at. Only the `touched`
    rows must come out wrong.
    """

    group: int
    right: tuple[Feed, ...]
    stale: tuple[int, ...]
    touched: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(_Step):
    """Ask for the sealed cache `source` with `request`. `refused` is the field that must refuse, or None."""

    source: str
    group: int
    process: Process
    request: Request
    state: State  # of the cache the file holds
    refused: str | None
    place: tuple[str, int] | None  # row and index that must be named
    reused: Reused | None
    reused_limit: int | None
    damage: Damage | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(_Step):
    """Probe without a forward."""

    after: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(_Step):
    """Forget the rows, keep the buffers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(_Step):
    """Free the session."""


Step = Open | Feed | Select | Crop | Fork | Save | Load | Read | Reset | Drop


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One script in one arm on one geometry."""

    arms: Mapping[str, int | str]
    steps: tuple[Step, ...]
    layouts: tuple[Layout, ...]  # by lineage group
    needs: frozenset[Capability]
    loud: frozenset[int]  # events that may raise

    @property
    def dtype(self) -> Dtype:
        """The dtype arm; only a plan made for a target has one."""
        return Dtype(str(self.arms["dtype"]))

    @property
    def cache(self) -> str:
        """The cache kind; only a plan made for a target has one."""
        return str(self.arms["cache"])
