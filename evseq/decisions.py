"""Decisions: candidates are told to a person, who accepts, rejects or leaves them."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum

import click

from evseq.errors import CacheError
from evseq.golden import acceptance
from evseq.golden.candidate import read_sidecar
from evseq.golden.ledger import LedgerError
from evseq.golden.refusals import Refused, alone, by_a_person
from evseq.golden.review import Review, review
from evseq.golden.root import Place, Root
from evseq.golden.telling import whole
from evseq.golden.terms import Limits, Relation

__all__ = ["accept", "on_terminal", "reject", "today", "told", "travel", "walk"]


class Key(StrEnum):
    """What may be pressed at a candidate."""

    ACCEPT = "a"
    REJECT = "r"
    SKIP = "s"
    QUIT = "q"


def on_terminal() -> bool:
    """Return whether a person reads and types."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def told(root: Root, place: Place, tell: Callable[[Review], str], *, parent: str | None) -> tuple[str, bool]:
    """Return a candidate in words, or why it cannot be read; and whether it can. Raises what `review` refuses."""
    try:
        return tell(review(root, place, parent=parent)), True
    except (CacheError, LedgerError) as error:
        return f"{place}: cannot be reviewed\n{error}", False


def walk(root: Root, places: Sequence[Place], *, parent: str | None) -> None:
    """Tell candidates one at a time and ask for a key; what was marked until the end, or `q`, is then done.

    One that cannot be read is not to be accepted, and none where nothing may be accepted here and now, which is said
    first. Raises what `acceptance` does; then nothing is rejected either.
    """
    may = _acceptable(root)
    marked: dict[Key, list[Place]] = {key: [] for key in Key}
    for number, place in enumerate(places, start=1):
        text, read = told(root, place, whole, parent=parent)
        click.echo(f"{text}\n")
        key = _pressed(f"[{number}/{len(places)}]", [key for key in Key if (may and read) or key is not Key.ACCEPT])
        marked[key].append(place)
        if key is Key.QUIT:
            break
    if marked[Key.ACCEPT]:
        reason = click.prompt("Why are the accepted right now? Reason")
        accept(root, marked[Key.ACCEPT], reason=reason, parent=parent)
    if marked[Key.REJECT]:
        reject(root, marked[Key.REJECT])
    left = sum(1 for _ in root.candidates())
    click.echo(f"{left} left\n  help: evseq golden review" if left else "none left")


def accept(
    root: Root,
    places: Sequence[Place],
    *,
    reason: str,
    parent: str | None = None,
    relation: Relation | None = None,
    limits: Limits | None = None,
) -> None:
    """Make goldens of candidates and say which, and how many cases each is judged in. Raises what `acceptance` does."""
    few = {place: _judged(root, place) for place in places}
    acceptance.accept(
        root,
        places,
        reason=reason,
        parent=parent,
        relation=relation,
        limits=limits,
        environment=os.environ,
        today=today(),
    )
    for place in places:
        click.echo(f"{place}: accepted{few[place]}")
    click.echo(f"  help: {travel(root)}")


def reject(root: Root, places: Sequence[Place]) -> None:
    """Remove candidates and say which."""
    for place in acceptance.reject(root, places):
        click.echo(f"{place}: rejected")


def travel(root: Root) -> str:
    """Return the next step after goldens changed."""
    return f"commit {root.folder} and nothing else: golden changes travel alone"


def today() -> dt.date:
    """Return the date that a ledger writes, in one time zone for all."""
    return dt.datetime.now(dt.UTC).date()


def _acceptable(root: Root) -> bool:
    """Return whether anything may be accepted here and now; say why not."""
    try:
        by_a_person(os.environ)
        alone(root)
    except Refused as refused:
        click.echo(f"nothing can be accepted: {refused}\n")
        return False
    return True


def _judged(root: Root, place: Place) -> str:
    try:
        told = read_sidecar(root.sidecar(place)).judged
    except CacheError:  # acceptance says what is wrong with it
        return ""
    return f", {told}" if told else ""


def _pressed(where: str, keys: Sequence[Key]) -> Key:
    words = ", ".join(f"{key} {key.name.lower()}" for key in keys)
    while True:
        click.echo(f"{where} {words}: ", nl=False)
        pressed = click.getchar().lower()
        key = next((key for key in keys if key == (pressed or Key.QUIT)), None)  # nothing: the input has ended
        click.echo(key.name.lower() if key else "")
        if key:
            return key
