"""Batching: rows leave a running batch, and others enter it."""

from __future__ import annotations

from evseq.geometry import Capability
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.desk import Desk
from evseq.script.feeding import asked_rows, pour
from evseq.script.noting import ImpossibleError
from evseq.script.sessions import SessionPlan

__all__ = ["join", "retire"]


def retire(desk: Desk, event: ev.Retire) -> None:
    """Let rows go; the others stay as they are, in their order."""
    session = desk.live(desk.resolved(event.on))
    leaving = desk.rows_of(session, event.rows, ("rows",))
    if len(leaving) == len(session.rows):
        message = f"retire: no row of session {session.name!r} would be left"
        desk.refuse(("rows",), message, "leave one, or drop the session")
    parents = tuple(place for place, name in enumerate(session.rows) if name not in leaving)
    for name in leaving:
        del session.rows[name]
        session.retired[name] = desk.line
    session.lineage = desk.lineage((session.lineage, "select", parents))
    desk.needs.add(Capability.BEAM)
    desk.emit(
        st.Retire(
            event=desk.event,
            session=session.name,
            parents=parents,
            rows=tuple(session.rows),
            after=session.state(desk.rules),
        )
    )


def join(desk: Desk, event: ev.Join) -> None:
    """Prefill rows in a session of their own, then let them enter; the narrower side gets masked slots in front."""
    session = desk.live(desk.resolved(event.on))
    rows, grid = asked_rows(desk, event.rows)
    bad = False
    for place, (word, name) in enumerate(zip(event.rows, rows, strict=True)):
        path = ("rows", word if isinstance(event.rows, dict) else place)
        if name in session.rows:
            bad = True
            desk.note(path, f"join: row {name!r} is in session {session.name!r} already", "join another row", key=True)
        elif name in session.retired:
            bad = True
            desk.note(path, f"join: row {name!r} {session.left(name)}", "give the row another name", key=True)
    if bad:
        raise ImpossibleError
    group = desk.new_group(len(rows), within=session.group)
    lineage = desk.lineage(("open", group))
    entering = SessionPlan(name=f"{session.name}, joining", group=group, lineage=lineage, rows=rows)
    desk.emit(st.Open(event=desk.event, session=entering.name, group=group, beside=session.name))
    pour(desk, entering, grid)
    session.take_in(entering)
    session.lineage = desk.lineage((session.lineage, "join", entering.lineage))
    desk.needs |= {Capability.BATCH, Capability.JOIN}
    desk.within_capacity(session)
    room = desk.groups[session.group]
    room.capacity = max(room.capacity, session.width)
    desk.emit(
        st.Join(
            event=desk.event,
            session=session.name,
            other=entering.name,
            rows=tuple(session.rows),
            after=session.state(desk.rules),
        )
    )
