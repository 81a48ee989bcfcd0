"""Reusing: serialize and reload, and what a mutated request must show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evseq.geometry import Capability
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.desk import Desk, ImpossibleError
from evseq.script.feeding import fed
from evseq.script.sessions import Row, SessionPlan

__all__ = ["reload", "serialize"]


def serialize(desk: Desk, event: ev.Serialize) -> None:
    """Save the session as it stands, with the request it answers."""
    session = desk.live(event.on)
    if event.to in desk.saved:
        desk.refuse(("to",), f"serialize: {event.to!r} is already taken", "serialize to another name")
    desk.saved[event.to] = session.copy(event.to)
    desk.needs.add(Capability.SERIALIZE)
    desk.emit(
        st.Save(
            event=desk.event,
            session=event.on,
            to=event.to,
            group=session.group,
            request=session.request(desk.padding()),
            after=session.state(desk.rules),
        )
    )


def reload(desk: Desk, event: ev.Reload) -> None:
    """Ask for a saved session; open it, or plan what must show that refusing it was right."""
    pending, desk.pending = desk.pending, []
    if event.from_ not in desk.saved:
        if event.from_ in desk.broken:
            raise ImpossibleError
        help = desk.did_you_mean(event.from_, desk.saved) if desk.saved else "serialize a session to it first"
        desk.refuse(("from",), f"reload: nothing was serialized to {event.from_!r}", help)
    source = desk.saved[event.from_]
    expect = event.expect
    desk.unused(event.as_)
    if event.process is ev.Process.FRESH:
        desk.needs.add(Capability.FRESH)
    refused = expect.refused if expect else None
    changed, place = _mutated(desk, source, pending)
    damage = None
    if refused is None and pending:
        desk.refuse(
            (),
            "reload: the request was mutated, but no refusal is expected",
            "add `expect: {refused: prefix.tokens}`",
        )
    if refused is not None:
        if place is None or refused != "prefix.tokens":
            changes = "nothing was changed before it" if place is None else "only prefix.tokens was changed"
            desk.refuse(
                ("expect",),
                f"reload: expects {refused!r} to be refused, but {changes}",
                "change that field before the reload: mutate-prefix-token changes prefix.tokens",
            )
        damage = _damage(desk, source, changed, event.as_)
    request = changed.request(desk.padding())
    desk.emit(
        st.Load(
            event=desk.event,
            session=event.as_,
            source=event.from_,
            group=source.group,
            process=event.process,
            request=request,
            state=source.state(desk.rules),
            refused=refused,
            place=place,
            reused=expect.reused if expect else None,
            reused_limit=_reused_limit(desk, expect, request, source),
            damage=damage,
        )
    )
    if refused is None:
        session = desk.sessions[event.as_] = source.copy(event.as_)
        session.opened_by = desk.event


def _mutated(
    desk: Desk, source: SessionPlan, pending: Iterable[tuple[int, ev.MutatePrefixToken]]
) -> tuple[SessionPlan, tuple[str, int] | None]:
    changed = source.copy(source.name)
    touched: dict[str, int] = {}
    reload_event = (desk.event, desk.word)
    for desk.event, event in pending:
        desk.word = event.word
        name = desk.resolved(event.row)
        row = changed.rows.get(name)
        if row is None:
            desk.refuse(("row",), f"{desk.word}: no row {name!r} in the request", desk.did_you_mean(name, changed.rows))
        index = desk.number(event.index, ("index",), row=row, length=row.length)
        token = desk.number(event.token, ("token",), row=None, length=None)
        if index >= row.length and row.exact:
            desk.refuse(
                ("index",),
                f"{desk.word}: row {name!r} holds {row.length} tokens, no index {index}",
                f"the last index is {row.length - 1}; `length-1` always names it",
            )
        index = min(index, row.length - 1)
        if row.tokens[index] == token and row.text.exact:
            desk.refuse(
                ("token",),
                f"{desk.word}: token {token} is already at index {index} of row {name!r}",
                "change it to another token",
            )
        row.change(index, token, desk.rules)
        touched[name] = min(index, touched.get(name, index))
    desk.event, desk.word = reload_event
    first = next(((name, touched[name]) for name in changed.rows if name in touched), None)
    return changed, first


def _damage(desk: Desk, source: SessionPlan, changed: SessionPlan, name: str) -> st.Damage:
    touched = tuple(
        place
        for place, (old, new) in enumerate(zip(source.rows.values(), changed.rows.values(), strict=True))
        if old.tokens != new.tokens
    )
    group = desk.new_group(len(changed.rows))
    scratch = SessionPlan(
        name=f"{name}, changed",
        group=group,
        lineage=desk.lineage(("open", group)),
        rows={key: Row(name=key, text=row.text) for key, row in changed.rows.items()},
    )
    slots = {row.name: row.slots for row in changed.request(desk.padding()).rows}
    prefix = {key: [None if slot == -1 else slot for slot in cells] for key, cells in slots.items()}
    probe: dict[str, Sequence[int | None]] = {key: [_probe_token(desk, row)] for key, row in source.rows.items()}
    right = (fed(desk, scratch, prefix, prefill=True), fed(desk, scratch, probe, prefill=False))
    stale = source.copy(name)
    fed(desk, stale, probe, prefill=False)
    return st.Damage(group=group, right=right, stale=tuple(row.node for row in stale.rows.values()), touched=touched)


def _probe_token(desk: Desk, row: Row) -> int:
    if row.taken < len(row.text.tokens):
        return row.text.tokens[row.taken]
    return (max(row.tokens[-1], 0) + 1) % desk.vocab if row.tokens else 0


def _reused_limit(desk: Desk, expect: ev.Expect | None, request: st.Request, source: SessionPlan) -> int | None:
    if expect is None or expect.reused is None:
        return None
    word, number = next((w, n) for w, n in expect.reused if n is not None)
    limit = desk.number(number, ("expect", "reused", word), row=None, length=None)
    total = request.tokens
    empty = (word == "least" and limit == 0) or (word == "most" and limit >= total)
    if empty:
        desk.refuse(
            ("expect", "reused", word),
            f"reload: `{word}: {limit}` of {total} tokens cannot fail",
            "give a bound that a wrong engine would miss",
        )
    if word != "most" and limit > total and all(row.exact for row in source.rows.values()):
        desk.refuse(
            ("expect", "reused", word),
            f"reload: `{word}: {limit}`, but the request has {total} tokens",
            f"expect at most {total}",
        )
    return limit
