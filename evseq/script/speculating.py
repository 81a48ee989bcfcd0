"""Speculating: a draft is one forward, and the crop behind it keeps what was accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evseq.geometry import Capability
from evseq.script import events as ev
from evseq.script.desk import Desk
from evseq.script.feeding import feed, given, levelled, own
from evseq.script.noting import ImpossibleError
from evseq.script.reshaping import rolled_back
from evseq.script.sessions import SessionPlan

__all__ = ["speculate"]


def speculate(desk: Desk, event: ev.Speculate) -> None:
    """Feed a draft together, then keep the first accepted tokens of each row."""
    session = desk.live(desk.resolved(event.on))
    if event.ids is not None:
        drafts: dict[str, Sequence[int]] = given(desk, session, event.ids, session.rows)
    else:
        assert event.next is not None
        drafts = {name: own(desk, row, event.next, ("next",)) for name, row in session.rows.items()}
    if not any(drafts.values()):
        desk.refuse(("next",), "speculate: drafts no token", "draft at least 1")
    accepted = _accepted(desk, session, event.accept, drafts)
    kept = tuple(row.length + accepted.get(name, 0) for name, row in session.rows.items())
    columns = levelled(desk, session, drafts)
    if len(next(iter(columns.values()))) > 1:
        desk.needs.add(Capability.TOGETHER)
    feed(desk, session, columns, prefill=False)
    # Also where nothing is dropped: an engine rolls back by no token then, and must know how.
    rolled_back(desk, session, kept)


def _accepted(
    desk: Desk, session: SessionPlan, accept: int | str | Mapping[str, int | str], drafts: Mapping[str, Sequence[int]]
) -> dict[str, int]:
    """Return how many drafted tokens stay, by row."""
    if not isinstance(accept, Mapping):
        return {name: _count(desk, session, name, accept, drafts, ("accept",)) for name in drafts}
    names = desk.rows_of(session, accept, ("accept",), keys=True)
    bad = False
    for word, name in zip(accept, names, strict=True):
        if name not in drafts:
            bad = True
            desk.note(("accept", word), f"speculate: row {name!r} drafts nothing", "leave it out", key=True)
    for name, draft in drafts.items():
        if name not in names:
            bad = True
            message = f"speculate: row {name!r} drafts {len(draft)} tokens, and `accept` does not name it"
            desk.note(("accept",), message, f"say how many of them stay: `{name}: 0` is none")
    if bad:
        raise ImpossibleError
    return {
        name: _count(desk, session, name, accept[word], drafts, ("accept", word))
        for word, name in zip(accept, names, strict=True)
    }


def _count(
    desk: Desk,
    session: SessionPlan,
    name: str,
    number: int | str,
    drafts: Mapping[str, Sequence[int]],
    path: tuple[str, ...],
) -> int:
    row, most = session.rows[name], len(drafts[name])
    count = desk.number(number, path, {"length": most if row.exact else None})
    if count is None:
        row.exact = False
        return most
    if count > most and row.exact:
        message = f"speculate: row {name!r} drafts {most} tokens, cannot accept {count}"
        desk.refuse(path, message, f"accept at most {most}, or draft more")
    return min(count, most)
