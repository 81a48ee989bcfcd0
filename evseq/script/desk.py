"""Desk: what lies on the table while a plan is made: live sessions, saved caches, problems, numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from evseq.errors import Problem, nearest
from evseq.geometry import Capability, Description, Positions
from evseq.history import Tree
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.document import Script
from evseq.script.number import NumberError, evaluate
from evseq.script.sessions import Row, Rules, SessionPlan
from evseq.script.texts import NOMINAL_LENGTH, NOMINAL_VOCAB, Greedy, RowText

__all__ = ["Desk", "ImpossibleError"]


class ImpossibleError(Exception):
    """The event at hand is impossible; its problem is already noted."""


@dataclass(slots=True)
class _Group:
    """Sessions that share a layout: one opened by prefill, and all copies of it."""

    rows: int
    capacity: int = 0
    depth: int = 0


class Desk:
    """The state of a plan in the making, and the small questions every event asks of it."""

    def __init__(
        self,
        script: Script,
        arms: Mapping[str, int | str],
        *,
        texts: Mapping[str, RowText],
        tree: Tree,
        description: Description | None,
        greedy: Greedy | None,
    ) -> None:
        self.script = script
        self.arms = arms
        self.texts = texts
        self.description = description
        geometry = description.geometry if description else None
        self.rules = Rules(
            geometry=geometry, positions=Positions(str(arms.get("positions", Positions.GIVEN))), tree=tree
        )
        self.vocab = geometry.vocab if geometry else NOMINAL_VOCAB
        self.greedy = greedy or _symbolic()
        self.problems: list[Problem] = []
        self.steps: list[st.Step] = []
        self.needs: set[Capability] = set()
        self.loud: set[int] = set()
        self.groups: list[_Group] = []
        self.sessions: dict[str, SessionPlan] = {}
        self.kept: dict[str, int] = {}  # names whose buffers were kept, with their group
        self.saved: dict[str, SessionPlan] = {}
        self.broken: set[str] = set()  # names an impossible event would have made: no complaint twice
        self.pending: list[tuple[int, ev.MutatePrefixToken]] = []
        self.lineages: dict[object, int] = {}
        self.event = 0
        self.word = ""

    def live(self, name: str) -> SessionPlan:
        """Return a live session; it is a problem if there is none of that name."""
        session = self.sessions.get(name)
        if session is None:
            if name in self.broken:
                raise ImpossibleError
            live = ", ".join(self.sessions) or "none"
            self.refuse(
                ("on",),
                f"{self.word}: no live session {name!r}",
                f"live here: {live}; `prefill`, `fork` and `reload` open one",
            )
        return session

    def unused(self, name: str) -> None:
        """Make sure no live session has this name."""
        if name in self.sessions:
            self.refuse(
                ("as",), f"{self.word}: session {name!r} is live", "drop it first, or open this one `as` another name"
            )

    def rows_of(self, session: SessionPlan, names: Sequence[str] | None, key: str) -> list[str]:
        """Return the rows an event names, all if it names none."""
        if names is None:
            return list(session.rows)
        names = [self.resolved(name) for name in names]
        unknown = [name for name in names if name not in session.rows]
        for name in unknown:
            self.note(
                (key,),
                f"{self.word}: no row {name!r} in session {session.name!r}",
                self.did_you_mean(name, session.rows),
            )
        if unknown:
            raise ImpossibleError
        return names

    def resolved(self, word: str) -> str:
        """Return what a word stands for: an arm its value, any other itself."""
        return str(self.arms.get(word, word))

    def number(self, number: int | str, key: tuple[str | int, ...], *, row: Row | None, length: int | None) -> int:
        """Return the value of a number word; nominal where only a target knows it: `row` is no longer exact then."""
        words = self._window()
        if length is not None:
            words["length"] = length
        if (chunk := self.chunk()) is not None:
            words["chunk"] = chunk
        if "capacity" in self.arms:
            words["capacity"] = self.capacity()
        try:
            value = evaluate(number, words=words, arms=self.arms)
        except NumberError as error:
            self.refuse(key, f"{self.word}: {error}", error.help)
        if value is None:
            if row is not None:
                row.exact = False
            return NOMINAL_LENGTH
        if value < 0:
            self.refuse(key, f"{self.word}: {number!r} is {value} here", "a count cannot be below 0")
        return value

    def chunk(self) -> int | None:
        """Return the columns of a prefill chunk, None where it is fed whole."""
        if self.arms.get("chunk", "whole") == "whole":
            return None
        value = self._arm("chunk")
        return NOMINAL_LENGTH if value is None else max(1, value)

    def capacity(self) -> int | None:
        """Return the room every session gets, None where it is what the plan needs."""
        return self._arm("capacity") if "capacity" in self.arms else None

    def _arm(self, name: str) -> int | None:
        try:
            return evaluate(self.arms[name], words=self._window(), arms={})
        except NumberError as error:
            self._put(("arms", name), f"arms: {name}: {error}", error.help)
            raise ImpossibleError from error

    def _window(self) -> dict[str, int | None]:
        geometry = self.rules.geometry
        return {"window": geometry.window if geometry else None} if geometry is None or geometry.window else {}

    def within_capacity(self, session: SessionPlan) -> None:
        """Make sure a session fits the capacity arm."""
        capacity = self.capacity()
        if capacity is not None and session.width > capacity:
            self.refuse(
                (),
                f"{self.word}: {session.width} slots do not fit the capacity arm's {capacity}",
                f"give the arm at least {session.width}, or feed less",
            )

    def padding(self) -> str:
        """Return where masked slots go in a prefill."""
        return str(self.arms.get("padding", "left"))

    def new_group(self, rows: int) -> int:
        """Return the number of a new group of sessions that share a layout."""
        self.groups.append(_Group(rows=rows))
        return len(self.groups) - 1

    def lineage(self, key: object) -> int:
        """Return the number of a computation: what was computed before, and this step."""
        return self.lineages.setdefault(key, len(self.lineages))

    def emit(self, step: st.Step) -> None:
        """Add a step."""
        self.steps.append(step)

    def did_you_mean(self, name: str, valid: Iterable[str]) -> str:
        """Return an advice that leads with the nearest valid name."""
        known = list(valid)
        close = nearest(name, known)
        listed = f"rows here: {', '.join(known)}" if known else "there are none here"
        return f"did you mean {close!r}? {listed}" if close else listed

    def refuse(self, path: tuple[str | int, ...], message: str, help: str) -> NoReturn:
        """Note a problem and give the event up."""
        self.note(path, message, help)
        raise ImpossibleError

    def note(self, path: tuple[str | int, ...], message: str, help: str, *, key: bool = False) -> None:
        """Note a problem at a part of the event."""
        self._put(("events", self.event, self.word, *path), message, help, key=key)

    def _put(self, path: tuple[str | int, ...], message: str, help: str, *, key: bool = False) -> None:
        place = self.script.place(path, key=key)
        self.problems.append(
            Problem(place=place, message=message, help=help, excerpt=self.script.source.excerpt(place))
        )

    def vacuous(self, session: SessionPlan) -> None:
        """Note a session that was opened by reload or fork and never used."""
        if session.opened_by is None:
            return
        here = (self.event, self.word)
        self.event = session.opened_by
        self.word = self.script.events[self.event].word
        self.note(
            (),
            f"{self.word}: session {session.name!r} is neither fed nor probed afterwards",
            f"append to it or probe it: `append: {{next: 1, on: {session.name}}}`",
        )
        self.event, self.word = here


def _symbolic() -> Greedy:
    chosen: dict[tuple[int, ...], int] = {}
    return lambda held: chosen.setdefault(held, -2 - len(chosen))
