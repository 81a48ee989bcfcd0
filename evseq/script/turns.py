"""Turn: one event as it is done, repeats unrolled: where it stands, and in which round."""

from __future__ import annotations

from dataclasses import dataclass

from evseq.script.compose import Keys
from evseq.script.events import Event

__all__ = ["MAX_TURNS", "Turn"]

MAX_TURNS = 5_000
"""Events of one case, repeats unrolled; what takes longer shows nothing new, and would be worked on for minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An event at `path` of its script; `rounds` are those of the repeats around it, the outermost first."""

    event: Event
    path: Keys
    rounds: tuple[int, ...] = ()

    @property
    def word(self) -> Keys:
        """The path of the event's word."""
        return (*self.path, self.event.word)

    @property
    def round(self) -> str | None:
        """The round as a person counts it, `3.2` being the second round within the third; None outside of repeats."""
        return ".".join(map(str, self.rounds)) or None
