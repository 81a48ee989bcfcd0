"""Lint: what a script does and nothing can come of."""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from typing import TypeGuard

from evseq.script import events as ev
from evseq.script.desk import Desk

__all__ = ["lint"]

_OnOne = ev.Append | ev.BeamSelect | ev.Crop | ev.Fork | ev.Serialize | ev.Probe | ev.Drop


def lint(desk: Desk) -> None:
    """Note every event of a plan that could be left out, or go wrong, without anybody noticing.

    What stands before an impossible event is not spoken of: that one may have been meant to follow it.
    """
    for session in desk.sessions.values():
        desk.vacuous(session)
    for number, _ in desk.pending:
        help = "follow it with a `reload` that expects prefix.tokens to be refused"
        _note(desk, number, "nobody asks for reuse afterwards", help)
    planned = {step.event for step in desk.steps}
    events = desk.script.events
    impossible = [number for number, event in enumerate(events) if number not in planned and _acts(event)]
    for number in range(max(impossible, default=-1) + 1, len(events)):
        if number in planned:
            _look_at(desk, number, events)
    if not impossible:
        _look_at_rows(desk)


def _acts(event: ev.Event) -> bool:
    """Tell whether an event is to do something by itself: a mutation is part of a reload, an invalid one does not."""
    return not isinstance(event, ev.MutatePrefixToken) and not _invalid(event)


def _look_at(desk: Desk, number: int, events: Sequence[ev.Event]) -> None:
    event, later = events[number], [event for event in events[number + 1 :] if not _invalid(event)]
    match event:
        case ev.BeamSelect() | ev.Crop():
            name = desk.resolved(event.on)
            follower = next((other for other in later if _is_on(other, {name}, desk)), None)
            if follower is None or (isinstance(follower, ev.Drop) and follower.keep is None):
                help = f"append to it or probe it: `append: {{next: 1, on: {name}}}`"
                _note(desk, number, f"session {name!r} is neither fed nor probed afterwards", help)
        case ev.Serialize():
            name = desk.resolved(event.to)
            asked = (other.from_ for other in events[number + 1 :] if isinstance(other, ev.Reload))
            if name not in map(desk.resolved, asked):
                help = f"ask for it: `reload: {{from: {name}, as: again}}`"
                _note(desk, number, f"nobody reloads {name!r} afterwards", help)
        case ev.Drop(keep=ev.Keep.BUFFERS):
            name = desk.resolved(event.on)
            opened = next((other for other in later if _opens(desk, other, name)), None)
            if not isinstance(opened, ev.Prefill):
                help = f"prefill {name!r} again, or drop it without `keep`"
                _note(desk, number, f"nobody prefills the buffers kept for {name!r} afterwards", help)
        case ev.Probe():
            name = desk.resolved(event.on)
            probes = itertools.takewhile(lambda other: isinstance(other, ev.Probe), reversed(events[:number]))
            if any(_is_on(other, {name}, desk) for other in probes):
                _note(desk, number, f"session {name!r} was just probed", "feed something before it, or leave it out")
        case ev.Prefill(salt=str(salt)):
            if not _saved(desk, desk.resolved(event.as_), later):
                help = "serialize and reload the session, or leave the salt out"
                _note(desk, number, f"nothing compares the salt {desk.resolved(salt)!r}", help, "salt")
        case _:
            pass


def _look_at_rows(desk: Desk) -> None:
    """Note rows that no prefill feeds, in this arm or another."""
    script = desk.script
    named = {word for event in script.events if isinstance(event, ev.Prefill) for word in event.rows}
    fed = named.union(*(map(str, arm.values) for name, arm in script.arms.items() if name in named))
    for name in script.rows:
        if name not in fed:
            place = script.place(("rows", name), key=True)
            desk.note_at(place, f"row {name!r} is fed by no prefill", "prefill it, or take it out")


def _note(desk: Desk, number: int, message: str, help: str, *path: str) -> None:
    desk.turn_to(number)
    desk.note(path, f"{desk.word}: {message}", help)


def _invalid(event: ev.Event) -> bool:
    return event.expect is not None and event.expect.invalid


def _is_on(event: ev.Event, names: Container[str], desk: Desk) -> TypeGuard[_OnOne]:
    """Tell whether an event is about a live session of one of these names."""
    return isinstance(event, _OnOne) and desk.resolved(event.on) in names


def _opens(desk: Desk, event: ev.Event, name: str) -> bool:
    """Tell whether an event opens a session of that name; a refused reload opens none."""
    refused = event.expect is not None and event.expect.refused is not None
    return isinstance(event, ev.Prefill | ev.Fork | ev.Reload) and not refused and desk.resolved(event.as_) == name


def _saved(desk: Desk, name: str, later: Sequence[ev.Event]) -> bool:
    """Tell whether a session, or a fork of it, is serialized, so that its request is compared."""
    names = {name}
    for event in later:
        if _is_on(event, names, desk):
            match event:
                case ev.Serialize():
                    return True
                case ev.Fork():
                    names.add(desk.resolved(event.as_))
                case ev.Drop():
                    names.discard(desk.resolved(event.on))
                case _:
                    pass
    return False
