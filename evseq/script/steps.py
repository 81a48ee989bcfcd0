"""Steps: a script lowered to what is done to sessions, every count known before a model loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from evseq.cache.regions import Region
from evseq.geometry import Capability, Dtype, Layout
from evseq.script.events import Process, Reused
from evseq.script.request import Asks, Bound, Held, Request, State
from evseq.script.turns import Turn

__all__ = [
    "Alter",
    "Crop",
    "Damage",
    "Draw",
    "Drop",
    "Feed",
    "Fork",
    "Grid",
    "Join",
    "Load",
    "LoadDamaged",
    "Open",
    "Plan",
    "Read",
    "Reset",
    "Restore",
    "Retire",
    "Save",
    "Select",
    "Step",
    "Stow",
    "World",
]

Grid = tuple[tuple[int, ...], ...]
"""Integers by row and column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    event: int  # index into the plan's turns
    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Open(_Step):
    """Open an empty session of one lineage group (sessions of a group share a layout).

    One that is to join the session `beside` is opened on the engine that one runs on.
    """

    group: int
    beside: str | None = None


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
class Retire(_Step):
    """Rows leave; those at `parents` stay, untouched."""

    parents: tuple[int, ...]
    rows: tuple[str, ...]
    after: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(_Step):
    """The rows of `other` enter behind those of `session`; `other` is gone then. `rows` are all of them."""

    other: str
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
    tampered: bool = False  # what it holds was changed, and is not what `after` says


class World(StrEnum):
    """Which engine makes a refused cache and which takes it."""

    SAME = "same"  # the request or the cache was changed, the engine never
    ALTERED = "altered"  # the engine as it was made the cache, the changed one takes it
    MIRRORED = "mirrored"  # the changed engine makes one, the engine as it was takes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What shows that a refusal was needed.

    The changed request is prefilled in a scratch session and one probe column appended (`right`); the stale cache is
    forced into another and fed the same column. `stale` are the nodes the forced copy really is at, none where it is at
    no history of this engine. Only the `touched` rows must come out wrong.
    """

    group: int
    right: tuple[Feed, ...]
    stale: tuple[int, ...]
    touched: tuple[int, ...]
    world: World = World.SAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(_Step):
    """Ask for the sealed cache `source`, or for that of the live session which is `held` to its own, with `request`.

    `refused` is the field that must refuse, or None; those in `also` may with it. `whole` feeds what is not reused,
    of which at least the tokens behind the first `legal` ones of each row.
    """

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
    also: tuple[str, ...] = ()
    forged: bool = False  # a copy of the file is asked for that says another value of the field `refused`
    asks: Asks = field(default_factory=Asks)
    held: Held | None = None
    whole: Feed | None = None
    legal: tuple[int, ...] | None = None

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """The forwards that are made, or may be, while the question is answered."""
        right = self.damage.right if self.damage is not None and self.damage.world is World.SAME else ()
        return (*right, *([self.whole] if self.whole is not None else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class Alter(_Step):
    """Change a field of the engine for real, or of what `session` holds; `session` is empty for the engine."""

    field: str
    operand: tuple[tuple[str, str | int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore(_Step):
    """Put a field back."""

    field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadDamaged(_Step):
    """Ask for copies of the sealed cache `source` damaged in `region`, each of which must be told as `malformed`."""

    source: str
    group: int
    process: Process
    request: Request
    state: State
    region: Region
    malformed: str


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stow(_Step):
    """End the session and leave what it holds, which is what `request` claims, to the engine's pool."""

    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw(_Step):
    """Ask the engine's pool for the beginning of `request`, and feed the rest: `whole` less what is reused.

    `changed` are the fields mutated of the request, `bounds` those of each row. At least `least` tokens over all rows
    must come from the pool, unless `reused` says otherwise. Where a field is `refused`, nothing may come from it, and
    nothing is opened.
    """

    group: int
    request: Request
    whole: Feed
    changed: tuple[str, ...]
    bounds: tuple[Bound, ...]
    least: int
    reused: Reused | None
    reused_limit: int | None
    refused: str | None


Step = (
    Open
    | Feed
    | Select
    | Retire
    | Join
    | Crop
    | Fork
    | Save
    | Load
    | LoadDamaged
    | Alter
    | Restore
    | Read
    | Reset
    | Drop
    | Stow
    | Draw
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One script in one arm on one geometry."""

    arms: Mapping[str, int | str]
    steps: tuple[Step, ...]
    layouts: tuple[Layout, ...]  # by lineage group
    needs: frozenset[Capability]
    turns: tuple[Turn, ...]  # the script's events in the order they are done, repeats unrolled
    loud: frozenset[int]  # turns that may raise

    @property
    def dtype(self) -> Dtype:
        """The dtype arm; only a plan made for a target has one."""
        return Dtype(str(self.arms["dtype"]))

    @property
    def cache(self) -> str:
        """The cache kind; only a plan made for a target has one."""
        return str(self.arms["cache"])
