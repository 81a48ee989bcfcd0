"""Desk: what lies on the table while a plan is made: live sessions, saved caches, numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from evseq.cache.fields import FIELDS
from evseq.geometry import Capability, Description, PositionRule, Positions
from evseq.history import Tree
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.complaints import did_you_mean
from evseq.script.compose import Keys
from evseq.script.document import Script
from evseq.script.noting import ImpossibleError, Notes
from evseq.script.number import NumberError, evaluate
from evseq.script.placing import Rules
from evseq.script.sessions import SessionPlan
from evseq.script.texts import NOMINAL_VOCAB, Greedy, RowText
from evseq.script.turns import Turn

__all__ = ["Desk"]

NO_WORDS: Mapping[str, int | None] = MappingProxyType({})

_CHANGING = (
    *("sessions", "kept", "saved", "savers", "gone", "broken", "pending", "altered", "shown", "groups", "needs"),
    *("stowed", "fed", "shaken"),
)


@dataclass(slots=True)
class _Group:
    """Sessions that share a layout: one opened by prefill, and all copies of it."""

    rows: int
    capacity: int = 0
    depth: int = 0
    positions: Positions | None = None  # where they are not those of the case
    pooled: bool = False
    within: int | None = None  # the group it is to join: room for what that one needs


class Desk(Notes):
    """The state of a plan in the making, and the small questions every event asks of it."""

    def __init__(
        self,
        script: Script,
        arms: Mapping[str, int | str],
        *,
        words: Mapping[str, int | None],
        texts: Mapping[str, RowText],
        tree: Tree,
        description: Description | None,
        greedy: Greedy | None,
    ) -> None:
        super().__init__(script)
        geometry = description.shown(str(arms.get("cache", ""))) if description else None
        positions = Positions(str(arms.get("positions", Positions.GIVEN)))
        self.arms = arms
        self.words = words
        self.texts = texts
        self.pool = description.pool if description else None
        self.keeps_whole = description is not None and description.keeps_whole(str(arms.get("cache", "")))
        self.rules = Rules.of(geometry, positions=positions, tree=tree)
        self.position_rule = geometry.position_rule if geometry else PositionRule.MASK
        self.vocab = geometry.vocab if geometry else NOMINAL_VOCAB
        self.greedy = greedy
        self.symbols = Tree()  # of tokens alone: what stands before a greedy id nobody has chosen yet
        self.steps: list[st.Step] = []
        self.needs = {Capability.POSITIONS} if positions is Positions.GIVEN else set()
        self.loud: set[int] = set()
        self.groups: list[_Group] = []
        self.sessions: dict[str, SessionPlan] = {}
        self.kept: dict[str, int] = {}  # names whose buffers were kept, with their group
        self.saved: dict[str, SessionPlan] = {}
        self.savers: dict[str, Keys] = {}  # the event that saved a name
        self.gone: dict[str, tuple[str, str]] = {}  # sessions dropped or refused: what became of them, and an advice
        self.broken: set[str] = set()  # names an impossible event would have made: no complaint twice
        self.pending: list[tuple[int, ev.MutatePrefixToken | ev.Mutate]] = []
        self.altered: dict[str, int] = {}  # fields of the engine that are changed now, with the turn
        self.stowed: list[SessionPlan] = []  # what the engine's pool was left
        self.fed: dict[str | None, set[int]] = {}  # histories by salt: whatever of them the pool holds, it may serve
        self.shaken = False  # whether the engine was ever changed: a pool may have forgotten everything then
        self.shown: set[int] = set()  # turns that changed something which was asked about since
        self.lineages: dict[object, int] = {}
        self.guessed = False  # whether the event at hand has a number that only a target knows
        self.overlong = False  # whether there are more turns than are planned

    # -- names -----------------------------------------------------------------------------------------------------

    def resolved(self, word: str) -> str:
        """Return what a word stands for: an arm its value, any other itself."""
        return word if word in self.texts else str(self.arms.get(word, word))

    def field(self, word: str) -> str:
        """Return the identity field a word stands for; `padding` is one, and an arm's name besides."""
        return word if word in FIELDS else self.resolved(word)

    def live(self, name: str) -> SessionPlan:
        """Return a live session; it is a problem if there is none of that name."""
        session = self.sessions.get(name)
        if session is None:
            if name in self.broken:
                raise ImpossibleError
            if name in self.gone:
                why, help = self.gone[name]
                self.refuse(("on",), f"{self.word}: session {name!r} {why}", help)
            help = _like(name, self.sessions, "sessions here") or "`prefill`, `fork` and `reload` open one"
            self.refuse(("on",), f"{self.word}: no live session {name!r}", help)
        return session

    def unused(self, name: str) -> None:
        """Make sure no live session has this name."""
        if name in self.sessions:
            self.refuse(
                ("as",), f"{self.word}: session {name!r} is live", "drop it first, or open this one `as` another name"
            )

    def open(self, session: SessionPlan) -> None:
        """Take in a live session; buffers kept under its name are its own now, or freed."""
        self.sessions[session.name] = session
        self.remember(session)
        self.kept.pop(session.name, None)
        self.broken.discard(session.name)

    def remember(self, session: SessionPlan) -> None:
        """Note what a session holds: an engine that pools by itself may serve it from now on."""
        histories = self.fed.setdefault(session.salt, set())
        histories.update(node for row in session.rows.values() for node in row.nodes)

    def source(self, name: str) -> SessionPlan:
        """Return what was serialized to `name`; it is a problem if nothing was."""
        if name not in self.saved:
            if name in self.broken:
                raise ImpossibleError
            help = _like(name, self.saved, "saved here") or f"put `serialize: {{to: {name}}}` before it"
            self.refuse(("from",), f"{self.word}: nothing was serialized to {name!r}", help)
        return self.saved[name]

    def rows_of(
        self, session: SessionPlan, words: Iterable[str], path: Sequence[str | int], *, keys: bool = False
    ) -> list[str]:
        """Return the rows of a session that the entries at `path` name: its keys, or a list, or one word alone.

        It is a problem if one is not there, or there twice.
        """
        names: list[str] = []
        for place, word in enumerate(words):
            name = self.resolved(word)
            here = (*path, word) if keys else (*path, place)
            if name in session.retired:
                message = f"{self.word}: row {name!r} {session.left(name)}"
                self.note(here, message, f"rows here: {', '.join(session.rows)}", key=keys)
            elif name not in session.rows:
                message = f"{self.word}: no row {name!r} in session {session.name!r}"
                self.note(here, message, _like(name, session.rows, "rows here"), key=keys)
            elif name in names:
                self.note(here, f"{self.word}: row {name!r} is named twice", "name it once", key=keys)
            names.append(name)
        if any(name not in session.rows for name in names) or len(set(names)) < len(names):
            raise ImpossibleError
        return names

    # -- numbers ---------------------------------------------------------------------------------------------------

    def number(
        self, number: int | str, path: tuple[str | int, ...], words: Mapping[str, int | None] = NO_WORDS
    ) -> int | None:
        """Return the value of a number word, None where only a target knows it; `words` have a value here only."""
        if isinstance(number, int):
            return number
        try:
            value = evaluate(number, words={**self.words, **words}, arms=self.arms)
        except NumberError as error:
            self.refuse(path, f"{self.word}: {error}", error.help)
        if value is None:
            self.guessed = True
        return value

    @property
    def chunk(self) -> int | None:
        """Columns of a prefill chunk; None where it is fed whole, and where only a target knows."""
        return self.words.get("chunk")

    @property
    def capacity(self) -> int | None:
        """The room every session gets; None where it is what the plan needs, and where only a target knows."""
        return self.words.get("capacity")

    def within_capacity(self, session: SessionPlan, *, more: int = 0) -> None:
        """Make sure a session, with so many slots more, fits the capacity arm."""
        wanted = session.width + more
        if self.capacity is not None and wanted > self.capacity and session.exact:
            why = " (one for the token that shows the damage)" if more else ""
            self.refuse(
                (),
                f"{self.word}: {wanted} slots{why} do not fit the capacity arm's {self.capacity}",
                f"give the arm at least {wanted}, or feed less",
            )

    @property
    def certain(self) -> bool:
        """Whether all that the event at hand could be refused for is known, also without a target."""
        if self.guessed or self.words.get("capacity", 0) is None:
            return False
        sessions = [*self.sessions.values(), *self.saved.values()]
        return all(row.exact and row.text.exact for session in sessions for row in session.rows.values())

    # -- what a plan is made of --------------------------------------------------------------------------------------

    @property
    def padding(self) -> str:
        """Where masked slots go in a prefill."""
        return str(self.arms.get("padding", "left"))

    def new_group(self, rows: int, *, within: int | None = None) -> int:
        """Return the number of a new group of sessions that share a layout; one that is to join has another's room."""
        self.groups.append(_Group(rows=rows, within=within))
        return len(self.groups) - 1

    def lineage(self, key: object) -> int:
        """Return the number of a computation: what was computed before, and this step."""
        return self.lineages.setdefault(key, len(self.lineages))

    def emit(self, step: st.Step) -> None:
        """Add a step."""
        self.steps.append(step)

    # -- going on, and going back ------------------------------------------------------------------------------------

    def doubt(self, name: str) -> None:
        """Take nothing for certain of a session that an impossible event was about: one fault, one problem."""
        session = self.sessions.get(name)
        if session is not None:
            session.opened_by = None
            for row in session.rows.values():
                row.exact = False

    def begin(self, turn: Turn) -> None:
        """Speak of the next event from here on."""
        super().begin(turn)
        self.guessed = False

    def vacuous(self, session: SessionPlan) -> None:
        """Note a session that was opened by reload or fork and never used."""
        if session.opened_by is None:
            return
        here = self.event
        self.turn_to(session.opened_by)
        self.note(
            (),
            f"{self.word}: session {session.name!r} is neither fed nor probed afterwards",
            f"append to it or probe it: `append: {{next: 1, on: {session.name}}}`",
        )
        self.turn_to(here)

    def snapshot(self) -> Callable[[], None]:
        """Return what brings back all that an event may change, problems and steps included.

        Numbers given to computations stay: they name the same ones again.
        """
        problems, steps = len(self.problems), len(self.steps)
        held = copy.deepcopy([getattr(self, part) for part in _CHANGING])

        def restore() -> None:
            del self.problems[problems:], self.steps[steps:]
            for part, value in zip(_CHANGING, held, strict=True):
                setattr(self, part, value)

        return restore


def _like(name: str, valid: Iterable[str], intro: str) -> str:
    """Return an advice that leads with the nearest valid name and lists them all; nothing where there are none."""
    known = tuple(valid)
    return did_you_mean(name, known, intro) if known else ""
