"""Reshaping: beam-select, crop, fork and drop change which rows and tokens a session holds, without a forward."""

from __future__ import annotations

from evseq.geometry import Capability
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.complaints import did_you_mean
from evseq.script.desk import Desk
from evseq.script.noting import ImpossibleError
from evseq.script.placing import Row
from evseq.script.pooling import stow
from evseq.script.sessions import SessionPlan
from evseq.script.texts import NOMINAL_LENGTH

__all__ = ["beam_select", "crop", "drop", "fork", "rolled_back"]


def beam_select(desk: Desk, event: ev.BeamSelect) -> None:
    """Replace rows by copies of their parents."""
    session = desk.live(desk.resolved(event.on))
    names = list(session.rows)
    chosen = {new: desk.resolved(parent) for new, parent in event.rows.items()}
    bad = False
    for new, parent in chosen.items():
        if desk.resolved(new) != new:
            bad = True
            message = f"beam-select: beam {new!r} has the name of an arm"
            desk.note(("rows", new), message, "give it another name", key=True)
        if new in session.retired:
            bad = True
            desk.note(("rows", new), f"beam-select: row {new!r} {session.left(new)}", "give it another name", key=True)
        if parent not in session.rows:
            bad = True
            message = f"beam-select: no row {parent!r} in session {session.name!r}"
            desk.note(("rows", new), message, did_you_mean(parent, names, "rows here"))
    if bad:
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
            session=session.name,
            parents=parents,
            rows=tuple(event.rows),
            after=session.state(desk.rules),
        )
    )


def crop(desk: Desk, event: ev.Crop) -> None:
    """Roll rows back."""
    session = desk.live(desk.resolved(event.on))
    word, asked = ("by", event.by) if event.by is not None else ("to", event.to)
    assert asked is not None
    lengths = {name: row.length for name, row in session.rows.items()}
    if isinstance(asked, dict):
        names = desk.rows_of(session, asked, (word,), keys=True)
        for name, (key, number) in zip(names, asked.items(), strict=True):
            lengths[name] = _kept(desk, session.rows[name], number, (word, key), word=word)
    else:
        for name in session.rows if event.row is None else desk.rows_of(session, [event.row], ("row",)):
            lengths[name] = _kept(desk, session.rows[name], asked, (word,), word=word)
    if session.exact and all(lengths[name] == row.length for name, row in session.rows.items()):
        desk.refuse((word,), "crop: drops no token", "drop at least 1")
    rolled_back(desk, session, tuple(lengths.values()))


def rolled_back(desk: Desk, session: SessionPlan, kept: tuple[int, ...]) -> None:
    """Keep the first tokens of each row."""
    rolled = max(row.peak - keep for row, keep in zip(session.rows.values(), kept, strict=True))
    if session.crop(kept):
        desk.needs.add(Capability.RAGGED)
    group = desk.groups[session.group]
    group.depth = max(group.depth, rolled, session.peak_width - session.width)
    session.lineage = desk.lineage((session.lineage, "crop", kept))
    if desk.event not in desk.loud:  # an engine that cannot, and says so, is what `loud` asks for
        desk.needs.add(Capability.CROP)
    desk.emit(st.Crop(event=desk.event, session=session.name, lengths=kept, after=session.state(desk.rules)))


def fork(desk: Desk, event: ev.Fork) -> None:
    """Copy a session."""
    session = desk.live(desk.resolved(event.on))
    name = desk.resolved(event.as_)
    desk.unused(name)
    twin = session.copy(name)
    twin.opened_by = desk.event
    desk.open(twin)
    desk.needs.add(Capability.FORK)
    desk.emit(st.Fork(event=desk.event, session=name, source=session.name, after=twin.state(desk.rules)))


def drop(desk: Desk, event: ev.Drop) -> None:
    """Free a session, only what its buffers hold, or what it holds to the engine's pool."""
    session = desk.live(desk.resolved(event.on))
    desk.vacuous(session)
    if event.keep is ev.Keep.POOL:
        stow(desk, session)
    del desk.sessions[session.name]
    desk.gone[session.name] = (f"was dropped in line {desk.line}", "drop it later, or open it again")
    if event.keep is ev.Keep.BUFFERS:
        desk.needs.add(Capability.RESET)
        desk.kept[session.name] = session.group
        desk.emit(st.Reset(event=desk.event, session=session.name))
    elif event.keep is None:
        desk.emit(st.Drop(event=desk.event, session=session.name))


def _kept(desk: Desk, row: Row, number: int | str, path: tuple[str | int, ...], *, word: str) -> int:
    """Return how many tokens a row keeps of those it holds."""
    count = desk.number(number, path, row.words)
    if count is None:
        row.exact = False
        count = NOMINAL_LENGTH
    keep = row.length - count if word == "by" else count
    if row.exact and not 0 <= keep <= row.length:
        done, limit = ("drop", "drop at most") if word == "by" else ("keep", "keep at most")
        desk.refuse(
            path,
            f"{desk.word}: row {row.name!r} holds {row.length} tokens, cannot {done} {count}",
            f"{limit} {row.length}, or feed {row.name!r} more tokens first",
        )
    # Of a row whose length only a target knows something is left, so that later events have what they speak of.
    return min(max(0 if row.exact else 1, keep), row.length)
