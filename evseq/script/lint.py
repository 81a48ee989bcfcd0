"""Lint: what a script does and nothing can come of."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TypeGuard, assert_never

from evseq.cache.regions import Region
from evseq.script import events as ev
from evseq.script.desk import Desk
from evseq.script.mutating import of_request, unasked

__all__ = ["lint"]

_OnOne = (
    ev.Append
    | ev.BeamSelect
    | ev.Crop
    | ev.Speculate
    | ev.Retire
    | ev.Join
    | ev.Fork
    | ev.Serialize
    | ev.Probe
    | ev.Drop
)


def lint(desk: Desk) -> None:
    """Note every event of a plan that could be left out, or go wrong, without anybody noticing.

    What stands before an impossible event is not spoken of: that one may have been meant to follow it.
    """
    for session in desk.sessions.values():
        desk.vacuous(session)
    unasked(desk)
    for number, event in desk.pending:
        field = event.field if isinstance(event, ev.Mutate) else "prefix.tokens"
        help = f"follow it with a `reload` that expects {field} to be refused"
        _note(desk, number, "nobody asks for reuse afterwards", help)
    planned = {step.event for step in desk.steps}
    events = [turn.event for turn in desk.turns]
    impossible = [number for number, event in enumerate(events) if number not in planned and _acts(desk, event)]
    for number in range(max(impossible, default=-1) + 1, len(events)):
        if number in planned:
            _look_at(desk, number, events)
    if not impossible:
        _look_at_rows(desk)


def _acts(desk: Desk, event: ev.Event) -> bool:
    """Tell whether an event is to do something by itself: a mutation is part of a reload, an invalid one does not."""
    return not of_request(desk, event) and not _invalid(event)


def _look_at(desk: Desk, number: int, events: Sequence[ev.Event]) -> None:
    event = events[number]
    after = (events[place] for place in range(number + 1, len(events)))  # lazily: most ask for the next one only
    later = (event for event in after if not _invalid(event))
    match event:
        case ev.BeamSelect() | ev.Crop() | ev.Speculate() | ev.Retire() | ev.Join():
            name = desk.resolved(event.on)
            follower = next((one for one in later if _is_on(one, {name}, desk) or _takes(one, name, desk)), None)
            if follower is None or (isinstance(follower, ev.Drop) and follower.keep is None):
                help = f"append to it or probe it: `append: {{next: 1, on: {name}}}`"
                _note(desk, number, f"session {name!r} is neither fed nor probed afterwards", help)
        case ev.Serialize():
            name = desk.resolved(event.to)
            asked = (other.from_ for other in after if isinstance(other, ev.Reload))
            if name not in map(desk.resolved, asked):
                help = f"ask for it: `reload: {{from: {name}, as: again}}`"
                _note(desk, number, f"nobody reloads {name!r} afterwards", help)
        case ev.Reload(damage=Region()) | ev.Reload(forged=str()):
            name = desk.resolved(event.from_)
            if name not in {desk.resolved(other.from_) for other in events if _admits(other)}:
                help = f"show that it is admitted as it is: `reload: {{from: {name}, as: again}}`"
                as_it_was = "undamaged" if event.damage is not None else "as it is"
                _note(desk, number, f"nobody reloads {name!r} {as_it_was}, so what takes nothing passes", help)
        case ev.Drop():
            _look_at_kept(desk, number, event, later)
        case ev.Probe():
            name = desk.resolved(event.on)
            probes = itertools.takewhile(lambda other: isinstance(other, ev.Probe), _back(events, number))
            if any(_is_on(other, {name}, desk) for other in probes):
                _note(desk, number, f"session {name!r} was just probed", "feed something before it, or leave it out")
        case ev.Prefill(salt=str(salt)):
            if not _saved(desk, desk.resolved(event.as_), later):
                help = "serialize and reload the session, or leave the salt out"
                _note(desk, number, f"nothing compares the salt {desk.resolved(salt)!r}", help, "salt")
        case _:
            pass


def _look_at_kept(desk: Desk, number: int, event: ev.Drop, later: Iterable[ev.Event]) -> None:
    name = desk.resolved(event.on)
    match event.keep:
        case ev.Keep.BUFFERS:
            opened = next((other for other in later if _opens(desk, other, name)), None)
            if not isinstance(opened, ev.Prefill):
                help = f"prefill {name!r} again, or drop it without `keep`"
                _note(desk, number, f"nobody prefills the buffers kept for {name!r} afterwards", help)
        case ev.Keep.POOL:
            if not any(isinstance(other, ev.Reuse) and other.pool for other in later):
                help = "ask it: `reuse: {pool: true, rows: {a: 7}, as: again}`, or drop the session without `keep`"
                _note(desk, number, "nobody asks the pool afterwards", help)
        case None:
            pass
        case _:
            assert_never(event.keep)


def _look_at_rows(desk: Desk) -> None:
    """Note rows that no prefill, join or request for reuse feeds, in this arm or another."""
    script = desk.script
    feeding = (turn.event for turn in desk.turns if isinstance(turn.event, ev.Prefill | ev.Join | ev.Reuse))
    named = {word for event in feeding for word in event.rows or ()}
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


def _takes(event: ev.Event, name: str, desk: Desk) -> bool:
    """Tell whether an event asks for reuse of the live session of that name."""
    return isinstance(event, ev.Reuse) and event.from_ is not None and desk.resolved(event.from_) == name


def _opens(desk: Desk, event: ev.Event, name: str) -> bool:
    """Tell whether an event opens a session of that name; a refused reload opens none."""
    match event:
        case ev.Prefill() | ev.Fork():
            return desk.resolved(event.as_) == name
        case ev.Reload() | ev.Reuse():
            sound = isinstance(event, ev.Reuse) or event.damage is None
            return sound and _taken(event) and desk.resolved(event.as_) == name
        case _:
            return False


def _admits(event: ev.Event) -> TypeGuard[ev.Reload]:
    """Tell whether an event is a reload of a sound file that must be admitted."""
    return isinstance(event, ev.Reload) and event.damage is None and _taken(event)


def _taken(event: ev.Event) -> bool:
    return event.expect is None or (event.expect.refused is None and not event.expect.invalid)


def _back(events: Sequence[ev.Event], number: int) -> Iterator[ev.Event]:
    return (events[before] for before in range(number - 1, -1, -1))


def _saved(desk: Desk, name: str, later: Iterable[ev.Event]) -> bool:
    """Tell whether a session, or a fork of it, is saved, reused or left to a pool, so that its request is compared."""
    names = {name}
    for event in later:
        if any(_takes(event, one, desk) for one in names):
            return True
        if _is_on(event, names, desk):
            match event:
                case ev.Serialize():
                    return True
                case ev.Fork():
                    names.add(desk.resolved(event.as_))
                case ev.Drop(keep=ev.Keep.POOL):
                    return True
                case ev.Drop():
                    names.discard(desk.resolved(event.on))
                case _:
                    pass
    return False
