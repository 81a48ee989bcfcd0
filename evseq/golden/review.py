"""Review: what a candidate changes, event by event, from files alone: no model, no device, no script."""

from __future__ import annotations

from dataclasses import dataclass

from evseq.golden.before import compared_with
from evseq.golden.candidate import Candidate, Use, load
from evseq.golden.drift import Drift, Flip, Moved, drift
from evseq.golden.golden import Golden
from evseq.golden.ledger import Ledger
from evseq.golden.root import Place, Root
from evseq.verdict.result import Outcome

__all__ = ["EventReview", "Review", "Token", "review"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token of a script: a row's name, and the index of the token in it."""

    row: str
    index: int

    def __str__(self) -> str:
        return f"row {self.row!r} index {self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReview:
    """What one event fed, in any arm. Of a history that several rows share, the first is named.

    `agree` and `differ` are the cases in which other checks found nothing, or something, at this event.
    """

    event: str
    place: str
    histories: int
    moved: int
    worst: tuple[Token, Moved] | None
    flips: tuple[tuple[Token, Flip], ...]
    agree: tuple[str, ...]
    differ: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One candidate, and what it is `against`: a golden and its drift from it, or neither.

    There is no drift from a golden whose file is not the one that was accepted.
    """

    candidate: Candidate
    golden: Golden
    against: Place | None
    drift: Drift | None
    events: tuple[EventReview, ...]

    @property
    def place(self) -> Place:
        """What the golden will be called."""
        return self.candidate.place


def review(root: Root, place: Place, *, parent: str | None = None) -> Review:
    """Read a candidate and compare it as its acceptance will.

    Raises CacheError for a file that cannot be read, LedgerError for a ledger, Refused for a `parent` never accepted.
    """
    candidate, golden = load(root, place)
    before = compared_with(root, Ledger.read(root.ledger(place.model)), place, parent=parent)
    found = None if before is None or before.golden is None else drift(golden, before.golden)
    return Review(
        candidate=candidate,
        golden=golden,
        against=None if before is None else before.place,
        drift=found,
        events=tuple(_event(use, found, candidate) for use in candidate.uses),
    )


def _event(use: Use, found: Drift | None, candidate: Candidate) -> EventReview:
    tokens: dict[int, Token] = {}
    for row, index, history in use.rows:
        tokens.setdefault(history, Token(row=row, index=index))
    moved = [] if found is None else [one for one in found.moved if one.row in tokens]
    worst = max(moved, key=lambda one: one.share, default=None)
    flips = [] if found is None else [one for one in found.flips if one.row in tokens]
    ran = [case for case in candidate.cases if case.outcome != Outcome.UNSUPPORTED]
    told = {case.id for case in ran if any(one.place == use.place for one in case.told)}
    return EventReview(
        event=use.event,
        place=use.place,
        histories=len(tokens),
        moved=len(moved),
        worst=None if worst is None else (tokens[worst.row], worst),
        flips=tuple((tokens[one.row], one) for one in flips),
        agree=tuple(case.id for case in ran if case.id not in told),
        differ=tuple(case.id for case in ran if case.id in told),
    )
