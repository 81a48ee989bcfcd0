"""Noting: the event that is spoken of, and what is wrong with it, told at its place in the script."""

from __future__ import annotations

from typing import NoReturn

from evseq.errors import Place, Problem
from evseq.script.document import Script
from evseq.script.turns import Turn

__all__ = ["ImpossibleError", "Notes"]


class ImpossibleError(Exception):
    """The event at hand is impossible; its problem is already noted."""


class Notes:
    """The problems of a script, and the event at hand, which they are told of."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.problems: list[Problem] = []
        self.turns: list[Turn] = []
        self.event = 0  # index into the turns
        self.turn = Turn(event=script.events[0], path=("events", 0))

    def begin(self, turn: Turn) -> None:
        """Speak of the next event from here on."""
        self.turns.append(turn)
        self.turn_to(len(self.turns) - 1)

    def turn_to(self, number: int) -> None:
        """Speak of another event from here on."""
        self.event, self.turn = number, self.turns[number]

    @property
    def line(self) -> int:
        """The line of the event at hand."""
        return self.script.place(self.turn.word, key=True).line

    @property
    def word(self) -> str:
        """The word of the event at hand."""
        return self.turn.event.word

    def refuse(self, path: tuple[str | int, ...], message: str, help: str, *, key: bool = False) -> NoReturn:
        """Note a problem and give the event up."""
        self.note(path, message, help, key=key)
        raise ImpossibleError

    def note(self, path: tuple[str | int, ...], message: str, help: str, *, key: bool = False) -> None:
        """Note a problem at a part of the event."""
        place = self.script.place((*self.turn.word, *path), key=key)
        if any(later > 1 for later in self.turn.rounds):
            if any(problem.place == place for problem in self.problems):
                return  # told of an earlier round
            message = f"{message} in round {self.turn.round}"
        self.note_at(place, message, help)

    def note_at(self, place: Place, message: str, help: str) -> None:
        """Note a problem anywhere in the script."""
        excerpt = self.script.source.excerpt(place)
        self.problems.append(Problem(place=place, message=message, help=help, excerpt=excerpt))

    def possible(self) -> None:
        """Note that an event was expected to be invalid and is not."""
        self.note((), f"{self.word}: expected to be invalid, but this event is possible", "drop the expectation")
