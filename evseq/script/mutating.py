"""Mutating: fields of the engine, or of what a session holds, are changed for real and put back."""

from __future__ import annotations

from typing import assert_never

from evseq.cache.mutations import MUTATIONS, Mutation, Reach
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.complaints import did_you_mean
from evseq.script.desk import Desk

__all__ = ["CHANGEABLE", "mutate", "of_request", "permitted", "restore", "unasked"]

CHANGEABLE = tuple(name for name, mutation in MUTATIONS.items() if mutation.reach is not Reach.RECORD)
"""The identity fields an event can change, and that can therefore be expected to be refused."""

OPERANDS = ("row", "index", "by", "text", "to")
"""What may be said beside the field, besides the session."""


def of_request(desk: Desk, event: ev.Event) -> bool:
    """Tell whether an event changes the request that asks next, and says all that this takes."""
    match event:
        case ev.MutatePrefixToken():
            return True
        case ev.Mutate():
            known = MUTATIONS.get(desk.field(event.field))
            return known is not None and known.reach is Reach.REQUEST and not _misfit(known, event)
        case _:
            return False


def mutate(desk: Desk, event: ev.Mutate) -> None:
    """Change the engine, or what a session holds; that of a request waits for the next to ask."""
    name = desk.field(event.field)
    known = _known(desk, name)
    for path, message, help in _misfit(known, event):
        desk.refuse(path, message, help)
    match known.reach:
        case Reach.ENGINE:
            _alter(desk, event, name)
        case Reach.SESSION:
            _tamper(desk, event, name)
        case Reach.REQUEST | Reach.RECORD:  # the first waits, the second is not known here
            raise AssertionError(name)
        case _:
            assert_never(known.reach)


def restore(desk: Desk, event: ev.Restore) -> None:
    """Put a field back."""
    name = desk.field(event.field)
    if name in desk.altered:
        _asked_about(desk, desk.altered.pop(name), name)
        desk.emit(st.Restore(event=desk.event, session="", field=name))
        return
    session = next((session for session in desk.sessions.values() if name in session.tampered), None)
    if session is None:
        changed = [*desk.altered, *(field for session in desk.sessions.values() for field in session.tampered)]
        help = did_you_mean(name, changed, "changed now") if changed else "put a `mutate` before it"
        desk.refuse(("field",), f"restore: {name!r} is not changed", help)
    del session.tampered[name]
    desk.emit(st.Restore(event=desk.event, session=session.name, field=name))


def permitted(desk: Desk, event: ev.Event) -> None:
    """Make sure that nothing is judged of an engine or session that is not what it was."""
    refused = event.expect is not None and event.expect.refused is not None
    asks = isinstance(event, ev.Reload | ev.Reuse) or (isinstance(event, ev.Append) and refused)
    if desk.altered and not (asks or isinstance(event, ev.Mutate | ev.Restore | ev.Drop)):
        name = next(iter(desk.altered))
        message = f"{desk.word}: {name} is changed, and until it is restored only requests for reuse are judged"
        desk.refuse((), message, f"put `restore: {{field: {name}}}` before it")
    on = event.from_ if isinstance(event, ev.Reuse) else getattr(event, "on", None)
    session = desk.sessions.get(desk.resolved(on)) if isinstance(on, str) else None
    if session and session.tampered and not isinstance(event, ev.Serialize | ev.Drop | ev.Mutate):
        name = next(iter(session.tampered))
        message = f"{desk.word}: {name} of session {session.name!r} is changed, so it can only be serialized"
        desk.refuse((), message, f"put `restore: {{field: {name}}}` before it")


def unasked(desk: Desk) -> None:
    """Note what is still changed at the end and was never asked about."""
    for name, turn in desk.altered.items():
        _asked_about(desk, turn, name)


def _known(desk: Desk, name: str) -> Mutation:
    known = MUTATIONS.get(name)
    if name == "prefix.tokens":
        desk.refuse(("field",), "mutate: prefix.tokens has its own word", "write `mutate-prefix-token`")
    if known is None:
        desk.refuse(("field",), f"mutate: no identity field {name!r}", did_you_mean(name, CHANGEABLE, "fields"))
    if known.reach is Reach.RECORD:
        help = "leave it out; its case is a file that says otherwise, and every run of the tests makes one"
        desk.refuse(("field",), f"mutate: nothing alive has another {name}: {known.how}", help)
    return known


def _misfit(known: Mutation, event: ev.Mutate) -> list[tuple[tuple[str, ...], str, str]]:
    """Return what is said and should not be, or should be and is not: path, message, help."""
    given = [key for key in OPERANDS if getattr(event, key) is not None]
    given += ["on"] if event.on != ev.MAIN else []
    most = (*known.operands, *known.optional)
    takes = f"it takes {', '.join(f'`{key}`' for key in most)}" if most else "leave it out"
    strange = [((key,), f"mutate: {known.field} takes no `{key}`", takes) for key in given if key not in most]
    lacking = [key for key in known.operands if key not in given]
    missing = [
        ((), f"mutate: {known.field} needs `{key}`", "say all of " + ", ".join(known.operands)) for key in lacking
    ]
    return [*strange, *missing]


def _alter(desk: Desk, event: ev.Mutate, name: str) -> None:
    if name in desk.altered:
        desk.refuse(("field",), f"mutate: {name} is changed already", f"put `restore: {{field: {name}}}` before it")
    desk.altered[name], desk.shaken = desk.event, True
    operand = () if event.to is None else (("to", desk.resolved(event.to)),)
    desk.emit(st.Alter(event=desk.event, session="", field=name, operand=operand))


def _tamper(desk: Desk, event: ev.Mutate, name: str) -> None:
    session = desk.live(desk.resolved(event.on))
    if name in session.tampered:
        message = f"mutate: {name} of session {session.name!r} is changed already"
        desk.refuse(("field",), message, f"put `restore: {{field: {name}}}` before it")
    row = desk.rows_of(session, [event.row], ("row",))[0] if event.row is not None else None
    number = list(session.rows).index(row) if row is not None else 0
    if session.exact and row is not None and session.rows[row].length < 2:  # noqa: PLR2004 - one is left
        message = f"mutate: row {row!r} holds {session.rows[row].length} tokens, and none would be left"
        desk.refuse(("row",), message, "feed it more first")
    session.tampered[name] = row
    desk.emit(st.Alter(event=desk.event, session=session.name, field=name, operand=(("row", number),)))


def _asked_about(desk: Desk, turn: int, name: str) -> None:
    """Note a change of the engine that nobody asked about."""
    if turn in desk.shown:
        return
    here = desk.event
    desk.turn_to(turn)
    help = f"follow it with a `reload` that expects {name} to be refused"
    desk.note((), f"mutate: nobody asks for reuse while {name} is changed", help)
    desk.turn_to(here)
