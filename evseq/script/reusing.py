"""Reusing: serialize, reload and reuse, and what a changed request, engine or session must show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from evseq.cache.mutations import MUTATIONS
from evseq.geometry import Capability
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.changing import Asking, asked, following, place
from evseq.script.complaints import did_you_mean
from evseq.script.damaging import reload_damaged, undamaged
from evseq.script.desk import Desk
from evseq.script.feeding import asked_rows, fed, masked, pad
from evseq.script.forcing import damage, prefilled
from evseq.script.forging import reload_forged
from evseq.script.mutating import CHANGEABLE
from evseq.script.placing import Row
from evseq.script.request import Held, Request
from evseq.script.sessions import SessionPlan

__all__ = ["append_refused", "reload", "reuse", "reused_limit", "serialize"]

OWN_INDEX = frozenset({"prefix.tokens", "prefix.mask", "position.ids"})
"""Fields that differ at a token of their own; all others differ at index 0."""

LENGTHS = ("prefix.mask", "position.ids", "padding", "cache.shapes", "cache.length", "cache.visible", "cache.eviction")
"""What may differ, besides its tokens, in a request of other rows."""


def serialize(desk: Desk, event: ev.Serialize) -> None:
    """Save the session as it stands, with the request it answers."""
    session = desk.live(desk.resolved(event.on))
    name = desk.resolved(event.to)
    if name in desk.saved and desk.savers[name] != desk.turn.path:  # a later round of a repeat saves anew
        desk.refuse(("to",), f"serialize: {name!r} is already taken", "serialize to another name")
    desk.saved[name], desk.savers[name] = session.copy(name), desk.turn.path
    desk.needs.add(Capability.SERIALIZE)
    desk.emit(
        st.Save(
            event=desk.event,
            session=session.name,
            to=name,
            group=session.group,
            request=session.request(desk.padding),
            after=session.state(desk.rules),
            tampered=bool(session.tampered),
        )
    )


def reload(desk: Desk, event: ev.Reload) -> None:
    """Ask for a saved session; open it, or plan what must show that refusing it was right."""
    if event.forged is not None:
        reload_forged(desk, event, event.forged)
        return
    if event.damage is not None:
        reload_damaged(desk, event, event.damage)
        return
    undamaged(desk, event)
    pending, desk.pending = desk.pending, []
    source = desk.source(desk.resolved(event.from_))
    name = desk.resolved(event.as_)
    desk.unused(name)
    if event.process is ev.Process.FRESH:
        desk.needs.add(Capability.FRESH)
        if desk.altered:
            changed = next(iter(desk.altered))
            message = f"reload: {changed} is changed in this process, a fresh one knows nothing of it"
            desk.refuse(("process",), message, "leave `process` out, or restore it first")
    asking = asked(desk, source, pending)
    if _asks(desk, event, source, asking, name=name, process=event.process):
        session = source.copy(name)
        session.opened_by = desk.event
        session.elsewhere = event.process is ev.Process.FRESH
        desk.open(session)


def reuse(desk: Desk, event: ev.Reuse) -> None:
    """Ask for a live session's cache with its own request or another; open what comes of it."""
    pending, desk.pending = desk.pending, []
    assert event.from_ is not None
    if event.salt is not None:
        message = "reuse: a live session has its salt already"
        desk.refuse(("salt",), message, "change what is asked for: `mutate: {field: salt, to: other}` before it")
    source = desk.live(desk.resolved(event.from_))
    name = desk.resolved(event.as_)
    desk.unused(name)
    desk.needs.add(Capability.FORK)
    before = source if event.rows is None else _other_rows(desk, source, event.rows)
    asking = asked(desk, before, pending)
    asking.fields |= dict.fromkeys(("prefix.tokens",) if place("prefix.tokens", source, before) else ())
    if _asks(desk, event, source, asking, name=name, live=True):
        session = asking.session.copy(name)
        session.opened_by = desk.event
        if asking.fields:
            session.lineage = desk.lineage(("reuse", desk.event))
        desk.open(session)


def append_refused(desk: Desk, event: ev.Append) -> None:
    """Feed a session whose engine was changed under it: nothing may be fed."""
    session = desk.live(desk.resolved(event.on))
    desk.needs.add(Capability.FORK)
    asking = Asking(session=session.copy(session.name), padding=desk.padding)
    _asks(desk, event, session, asking, name=session.name, live=True)


def _asks(
    desk: Desk,
    event: ev.Reload | ev.Reuse | ev.Append,
    source: SessionPlan,
    asking: Asking,
    *,
    name: str,
    process: ev.Process = ev.Process.HERE,
    live: bool = False,
) -> bool:
    """Plan the question; return whether a session comes of it."""
    desk.shown |= set(desk.altered.values())
    fields: dict[str, object] = {**dict.fromkeys(desk.altered), **asking.fields, **source.tampered}
    refused = desk.field(event.expect.refused) if event.expect and event.expect.refused else None
    reused = event.expect.reused if event.expect else None
    if refused is not None:
        _must_differ(desk, refused, fields, source, asking)
    elif fields and not (live and reused is not None and asking.fields):
        _unexpected(desk, fields, asking)
    request, tokens = asking.request, _legal(source, asking, fields)
    legal = tokens if fields else None
    most = sum(legal) if legal is not None else None
    limit = reused_limit(desk, reused, request, most, exact=source.exact) if reused is not None else None
    shown = damage(desk, source, asking, name, refused) if refused is not None else None
    asks = live and isinstance(event, ev.Reuse) and refused is None
    whole = _whole(desk, source, asking, name=name, changed=bool(fields)) if asks else None
    also = following(fields, refused) if refused is not None else ()
    desk.emit(
        st.Load(
            event=desk.event,
            session=name,
            source=source.name,
            group=source.group,
            process=process,
            request=request,
            state=(asking.session if live else source).state(desk.rules),
            refused=refused,
            place=_place(refused, source, asking),
            reused=reused,
            reused_limit=limit,
            damage=shown,
            also=(*also, *(LENGTHS if isinstance(event, ev.Reuse) and event.rows is not None else ())),
            asks=asking.asks,
            held=_held(desk, source) if live else None,
            whole=whole,
            legal=legal,
        )
    )
    if refused is not None and not isinstance(event, ev.Append):
        advice = "use another session, or expect no refusal"
        desk.gone[name] = (f"was refused in line {desk.line}, so nothing was opened", advice)
    return refused is None


def _other_rows(desk: Desk, source: SessionPlan, words: object) -> SessionPlan:
    """Return the rows a reuse asks for, in a session of its own."""
    assert isinstance(words, list | dict)
    rows, grid = asked_rows(desk, words)
    if list(rows) != list(source.rows):
        had = ", ".join(source.rows)
        message = f"reuse: asks for rows {', '.join(rows)}, session {source.name!r} has {had}"
        desk.refuse(("rows",), message, f"name {had}, in this order")
    session = SessionPlan(
        name=source.name, group=source.group, lineage=desk.lineage(("reuse", desk.event)), rows=rows, salt=source.salt
    )
    columns = pad(grid, desk.padding)
    desk.needs |= masked(columns)
    fed(desk, session, columns, prefill=True)
    desk.within_capacity(session)
    return session


def _unexpected(desk: Desk, fields: Iterable[str], asking: Asking) -> NoReturn:
    """Refuse a question that nothing answers as the script says: a field differs, and nobody expects a refusal."""
    first = next(iter(fields))
    what = "the request was mutated" if first in asking.fields else f"{first} is changed"
    message = f"{desk.word}: {what}, but no refusal is expected"
    desk.refuse((), message, f"add `expect: {{refused: {first}}}`")


def _whole(desk: Desk, source: SessionPlan, asking: Asking, *, name: str, changed: bool) -> st.Feed:
    """Return the forward of a whole request, of which a live session's cache may spare the beginning."""
    whole = prefilled(desk, asking, name=name, group=source.group)
    desk.needs |= {Capability.TOGETHER} if changed and len(whole.tokens[0]) > 1 else set()
    group = desk.groups[source.group]
    group.depth = max(group.depth, *(_cut(old, new) for old, new in _pairs(source, asking)))
    return whole


def _held(desk: Desk, source: SessionPlan) -> Held:
    return Held(request=source.request(desk.padding), furthest=source.state(desk.rules).furthest)


def _place(refused: str | None, source: SessionPlan, asking: Asking) -> tuple[str, int] | None:
    return place(refused, source, asking.session) if refused is not None else None


def _pairs(source: SessionPlan, asking: Asking) -> list[tuple[Row, Row]]:
    return list(zip(source.rows.values(), asking.session.rows.values(), strict=True))


def _common(old: Row, new: Row) -> int:
    """Return how many first tokens stand at the same position, in the same slot."""
    held = zip(old.tokens, old.positions, old.columns, strict=True)
    claimed = zip(new.tokens, new.positions, new.columns, strict=True)
    common = 0
    for one, two in zip(held, claimed, strict=False):
        if one != two:
            break
        common += 1
    return common


def _cut(old: Row, new: Row) -> int:
    return old.length - _common(old, new)


def _legal(source: SessionPlan, asking: Asking, fields: dict[str, object]) -> tuple[int, ...]:
    """Return how many tokens of each row stand before its first difference."""
    own = fields.keys() <= OWN_INDEX
    return tuple(_common(old, new) if own else 0 for old, new in _pairs(source, asking))


def _must_differ(desk: Desk, refused: str, fields: dict[str, object], source: SessionPlan, asking: Asking) -> None:
    """Make sure the field that must be refused was changed."""
    path = ("expect", "refused")
    if refused not in CHANGEABLE:
        what = f"nothing changes {refused!r} before it" if refused in MUTATIONS else f"no identity field {refused!r}"
        desk.refuse(path, f"{desk.word}: {what}", did_you_mean(refused, CHANGEABLE, "what events can change"))
    if refused not in fields:
        what = "nothing was changed before it" if not fields else f"what was changed is {', '.join(fields)}"
        word = "mutate-prefix-token" if refused == "prefix.tokens" else "mutate"
        desk.refuse(
            path,
            f"{desk.word}: expects {refused!r} to be refused, but {what}",
            f"put a `{word}` before it, or expect no refusal",
        )
    if refused in OWN_INDEX and place(refused, source, asking.session) is None:
        desk.refuse(
            path,
            f"{desk.word}: expects {refused!r} to be refused, but the mutations before it undo each other",
            "mutate to a token that differs from the saved one, or expect no refusal",
        )


def reused_limit(
    desk: Desk,
    reused: ev.Reused,
    request: Request,
    legal: int | None,
    *,
    exact: bool,
    stand: str = "stand before the first difference",
) -> int | None:
    """Return the bound on the tokens that come from the cache; it must be one that a wrong engine would miss.

    `stand` says of the `legal` ones why there are no more.
    """
    word, number = next((word, number) for word, number in reused if number is not None)
    path = ("expect", "reused", word)
    limit, total = desk.number(number, path), request.tokens
    if word == "least" and limit == 0:
        desk.refuse(path, f"{desk.word}: `least: 0` cannot fail", "expect at least 1, or leave it out")
    if limit is None or not exact:
        return limit
    if word == "most" and limit >= total:
        message = f"{desk.word}: `most: {limit}` of {total} tokens cannot fail"
        desk.refuse(path, message, f"expect at most {total - 1}, or leave it out")
    if word != "most" and limit > total:
        message = f"{desk.word}: `{word}: {limit}`, but the request has {total} tokens"
        desk.refuse(path, message, f"expect no more than {total}")
    if legal is not None and limit > legal:
        message = f"{desk.word}: `{word}: {limit}`, but only {legal} tokens {stand}"
        desk.refuse(path, message, f"expect no more than {legal}")
    return limit
