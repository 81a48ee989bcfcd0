"""Pooling: what sessions that end leave to the engine's pool, and what a request may get of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evseq.cache.mutations import MUTATIONS, Reach
from evseq.geometry import Capability
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.changing import asked
from evseq.script.complaints import did_you_mean
from evseq.script.desk import Desk
from evseq.script.feeding import asked_rows, fed, masked, pad
from evseq.script.forcing import prefilled
from evseq.script.placing import Row
from evseq.script.request import Asks, Bound
from evseq.script.reusing import reused_limit
from evseq.script.sessions import SessionPlan

__all__ = ["draw", "stow"]

LIVE = tuple(name for name, mutation in MUTATIONS.items() if mutation.reach is Reach.ENGINE)
"""What nothing in a pool may be reused under, once it is changed."""


def stow(desk: Desk, session: SessionPlan) -> None:
    """Let the engine's pool take what a session holds that ends here."""
    path = ("keep",)
    if session.elsewhere:
        message = f"drop: session {session.name!r} lives in another process, and the pool here never sees it"
        desk.refuse(path, message, "leave `keep` out")
    if session.tampered:
        name = next(iter(session.tampered))
        message = f"drop: {name} of session {session.name!r} is changed, and no pool can know"
        desk.refuse(path, message, f"put `restore: {{field: {name}}}` before it, or leave `keep` out")
    desk.needs.add(Capability.POOL)
    desk.groups[session.group].pooled = True
    desk.stowed.append(session.copy(session.name))
    desk.remember(session)
    desk.emit(st.Stow(event=desk.event, session=session.name, request=session.request(desk.padding)))


def draw(desk: Desk, event: ev.Reuse) -> None:
    """Ask the engine's pool for the beginning of a request; open a session with it, and feed the rest."""
    pending, desk.pending = desk.pending, []
    name = desk.resolved(event.as_)
    desk.unused(name)
    if event.rows is None:
        message = "reuse: what is asked of a pool is in no session"
        desk.refuse((), message, "say which rows, as a prefill does: `rows: {a: 7}`")
    if not desk.stowed:
        message = "reuse: nothing was left to the pool before it"
        desk.refuse(("pool",), message, "put a `drop: {keep: pool}` before it")
    rows, grid = asked_rows(desk, event.rows)
    salt = desk.resolved(event.salt) if event.salt is not None else None
    group = desk.new_group(len(rows))
    asking = SessionPlan(name=name, group=group, lineage=desk.lineage(("draw", desk.event)), rows=rows, salt=salt)
    columns = pad(grid, desk.padding)
    fed(desk, asking, columns, prefill=True)
    desk.within_capacity(asking)
    changed = asked(desk, asking, pending)
    if changed.asks != Asks():
        field = next(field for field in changed.fields if field in ("position.rule", "cache.kind", "cache.shapes"))
        message = f"reuse: a pool answers sessions of the case's own layout, and {field} was changed"
        desk.refuse((), message, "ask a saved or a live session so")
    refused = _refused(desk, event)
    whole = prefilled(desk, changed, name=name, group=group)
    session = changed.session.copy(name)
    _needs(desk, session, whole)
    bounds = tuple(_bound(desk, row, session.salt) for row in session.rows.values())
    exact = all(row.exact for one in (session, *desk.stowed) for row in one.rows.values())
    reused = event.expect.reused if event.expect else None
    most = sum(bound.tokens for bound in bounds)
    limit = None
    if reused is not None:
        limit = reused_limit(desk, reused, changed.request, most, exact=exact, stand="may come from a pool")
    desk.emit(
        st.Draw(
            event=desk.event,
            session=name,
            group=group,
            request=changed.request,
            whole=whole,
            changed=tuple(changed.fields),
            bounds=bounds,
            least=_least(desk, session, whole) if refused is None else 0,
            reused=reused,
            reused_limit=limit,
            refused=refused,
        )
    )
    if refused is not None:
        advice = "use another session, or expect no refusal"
        desk.gone[name] = (f"was refused in line {desk.line}, so nothing was opened", advice)
        return
    session.lineage = asking.lineage
    desk.open(session)


def _refused(desk: Desk, event: ev.Reuse) -> str | None:
    """Return the live field under which nothing may be reused; it is a problem if that is not what is expected."""
    desk.shown |= set(desk.altered.values())
    word = event.expect.refused if event.expect else None
    if word is None:
        if desk.altered:
            first = next(iter(desk.altered))
            message = f"reuse: {first} is changed, but no refusal is expected"
            desk.refuse((), message, f"add `expect: {{refused: {first}}}`")
        return None
    path, field = ("expect", "refused"), desk.field(word)
    if field not in LIVE:
        message = f"reuse: a pool serves what stands before the first difference, and refuses nothing for {field!r}"
        help = "expect `reused: {most: n}`" if field in MUTATIONS else did_you_mean(field, LIVE, "what a pool refuses")
        desk.refuse(path, message, help)
    if field not in desk.altered:
        message = f"reuse: expects {field!r} to be refused, but it is not changed"
        desk.refuse(path, message, f"put `mutate: {{field: {field}}}` before it, or expect no refusal")
    return field


def _needs(desk: Desk, session: SessionPlan, whole: st.Feed) -> None:
    cells = {
        name: [None if node < 0 else node for node in nodes]
        for name, nodes in zip(whole.rows, whole.nodes, strict=True)
    }
    desk.needs |= {Capability.POOL} | masked(cells)
    desk.needs |= {Capability.BATCH} if len(session.rows) > 1 else set()
    desk.needs |= {Capability.TOGETHER} if len(whole.tokens[0]) > 1 else set()


def _bound(desk: Desk, row: Row, salt: str | None) -> Bound:
    """Return how many tokens of a row were fed before with the same history: none under another salt or model."""
    if desk.altered:
        field = next(iter(desk.altered))
        return Bound(tokens=0, why=f"{field} differs", field=field)
    known = desk.fed.get(salt, set())
    if salt not in {stowed.salt for stowed in desk.stowed} and row.nodes[0] not in known:
        return Bound(tokens=0, why="salt differs", field="salt")
    common = _run(node in known for node in row.nodes)
    if common >= row.length:
        return Bound(tokens=row.length - 1, why="the last token must be fed for its logits")
    held = [old for stowed in desk.stowed if stowed.salt == salt for old in stowed.rows.values()]
    nearest = max(held, key=lambda old: _common(old, row), default=None)
    if nearest is None or _common(nearest, row) < common or nearest.length <= common:
        return Bound(tokens=common, why=f"nothing was fed before from index {common} on")
    field = "prefix.tokens" if nearest.tokens[common] != row.tokens[common] else "position.ids"
    return Bound(tokens=common, why=f"{field} differs at index {common}", field=field)


def _run(held: Iterator[bool]) -> int:
    """Return how many come before the first that does not hold."""
    return next((count for count, one in enumerate([*held, False]) if not one), 0)


def _common(old: Row, new: Row) -> int:
    return _run(one == other for one, other in zip(old.nodes, new.nodes, strict=False))


def _least(desk: Desk, session: SessionPlan, whole: st.Feed) -> int:
    """Return how many tokens a pool must serve that keeps whole blocks: none where it may have forgotten them."""
    shape = desk.pool
    stored = sum(row.length // shape.block for stowed in desk.stowed for row in stowed.rows.values()) if shape else 0
    if shape is None or desk.shaken or stored > shape.blocks or not desk.keeps_whole:
        return 0
    held = [old for stowed in desk.stowed if stowed.salt == session.salt for old in stowed.rows.values()]
    blocks = []
    for row in session.rows.values():
        common = max((min(_common(old, row), row.length - 1) for old in held), default=0)
        blocks.append(common // shape.block * shape.block)
    cut = min(_column(nodes, count) for nodes, count in zip(whole.nodes, blocks, strict=True))
    return sum(node >= 0 for nodes in whole.nodes for node in nodes[:cut])


def _column(nodes: Sequence[int], count: int) -> int:
    """Return the column of the token behind the first `count`."""
    return [column for column, node in enumerate(nodes) if node >= 0][count]
