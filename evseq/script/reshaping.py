"""Reshaping: beam-select, crop, fork and drop change which rows and tokens a session holds, without a forward."""

from __future__ import annotations

from evseq.geometry import Capability
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.desk import Desk, ImpossibleError
from evseq.script.sessions import Row

__all__ = ["beam_select", "crop", "drop", "fork"]


def beam_select(desk: Desk, event: ev.BeamSelect) -> None:
    """Replace rows by copies of their parents."""
    session = desk.live(event.on)
    names = list(session.rows)
    chosen = {new: desk.resolved(parent) for new, parent in event.rows.items()}
    unknown = {new: parent for new, parent in chosen.items() if parent not in session.rows}
    for new, parent in unknown.items():
        desk.note(("rows", new), f"beam-select: no row {parent!r}", desk.did_you_mean(parent, names))
    if unknown:
        raise ImpossibleError
    parents = tuple(names.index(parent) for parent in chosen.values())
    session.rows = {new: session.rows[parent].copy(new) for new, parent in chosen.items()}
    session.lineage = desk.lineage((session.lineage, "select", parents))
    desk.needs.add(Capability.BEAM)
    if len(parents) > 1:
        desk.needs.add(Capability.BATCH)
    desk.emit(
        st.Select(
            event=desk.event,
            session=event.on,
            parents=parents,
            rows=tuple(event.rows),
            after=session.state(desk.rules),
        )
    )


def crop(desk: Desk, event: ev.Crop) -> None:
    """Roll rows back."""
    session = desk.live(event.on)
    word, count = ("by", event.by) if event.by is not None else ("to", event.to)
    assert count is not None
    only = [event.row] if event.row is not None else list(count) if isinstance(count, dict) else None
    names = desk.rows_of(session, only, "row" if event.row is not None else word)
    kept: dict[str, int] = {}
    for name, row in session.rows.items():
        kept[name] = row.length
        if name not in names:
            continue
        key = (word, name) if isinstance(count, dict) else (word,)
        number = desk.number(count[name] if isinstance(count, dict) else count, key, row=row, length=row.length)
        kept[name] = _kept(desk, row, number, word, key)
    if all(kept[name] == row.length for name, row in session.rows.items()):
        desk.refuse((word,), "crop: drops no token", "drop at least 1")
    rolled = max(row.peak - kept[name] for name, row in session.rows.items())
    session.peak_width = max(session.peak_width, session.width)
    if session.crop(list(kept.values())):
        desk.needs.add(Capability.RAGGED)
    group = desk.groups[session.group]
    group.depth = max(group.depth, rolled, session.peak_width - session.width)
    lengths = tuple(kept.values())
    session.lineage = desk.lineage((session.lineage, "crop", lengths))
    desk.needs.add(Capability.CROP)
    desk.emit(st.Crop(event=desk.event, session=event.on, lengths=lengths, after=session.state(desk.rules)))


def fork(desk: Desk, event: ev.Fork) -> None:
    """Copy a session."""
    session = desk.live(event.on)
    desk.unused(event.as_)
    twin = desk.sessions[event.as_] = session.copy(event.as_)
    twin.opened_by = desk.event
    desk.needs.add(Capability.FORK)
    desk.emit(st.Fork(event=desk.event, session=event.as_, source=event.on, after=twin.state(desk.rules)))


def drop(desk: Desk, event: ev.Drop) -> None:
    """Free a session, or only what its buffers hold."""
    session = desk.live(event.on)
    desk.vacuous(session)
    del desk.sessions[event.on]
    if event.keep is ev.Keep.BUFFERS:
        desk.needs.add(Capability.RESET)
        desk.kept[event.on] = session.group
        desk.emit(st.Reset(event=desk.event, session=event.on))
    else:
        desk.emit(st.Drop(event=desk.event, session=event.on))


def _kept(desk: Desk, row: Row, number: int, word: str, key: tuple[str | int, ...]) -> int:
    """Return how many tokens a row keeps of those it holds."""
    keep = row.length - number if word == "by" else number
    if 0 <= keep <= row.length or not row.exact:
        return max(0, min(keep, row.length))
    done = f"drop {number}" if word == "by" else f"keep {number}"
    limit = "drop at most" if word == "by" else "keep at most"
    desk.refuse(
        key,
        f"crop: row {row.name!r} holds {row.length} tokens, cannot {done}",
        f"{limit} {row.length}, or feed {row.name!r} more tokens first",
    )
