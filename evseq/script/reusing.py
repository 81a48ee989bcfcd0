"""Reusing: serialize and reload, and what a mutated request must show."""

from __future__ import annotations

from collections.abc import Sequence

from evseq.geometry import Capability
from evseq.history import MASKED
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.complaints import did_you_mean
from evseq.script.desk import Desk, ImpossibleError
from evseq.script.feeding import fed, masked
from evseq.script.sessions import Row, SessionPlan

__all__ = ["CHANGEABLE", "reload", "serialize"]

_OTHER = -(1 << 50)
"""A symbol that no row has."""

CHANGEABLE = ("prefix.tokens",)
"""The identity fields an event can change, and a reload therefore expect to be refused."""


def serialize(desk: Desk, event: ev.Serialize) -> None:
    """Save the session as it stands, with the request it answers."""
    session = desk.live(desk.resolved(event.on))
    name = desk.resolved(event.to)
    if name in desk.saved:
        desk.refuse(("to",), f"serialize: {name!r} is already taken", "serialize to another name")
    desk.saved[name] = session.copy(name)
    desk.needs.add(Capability.SERIALIZE)
    desk.emit(
        st.Save(
            event=desk.event,
            session=session.name,
            to=name,
            group=session.group,
            request=session.request(desk.padding),
            after=session.state(desk.rules),
        )
    )


def reload(desk: Desk, event: ev.Reload) -> None:
    """Ask for a saved session; open it, or plan what must show that refusing it was right."""
    pending, desk.pending = desk.pending, []
    source = desk.source(desk.resolved(event.from_))
    name = desk.resolved(event.as_)
    desk.unused(name)
    if event.process is ev.Process.FRESH:
        desk.needs.add(Capability.FRESH)
    changed, mutations = _changed(desk, source, pending)
    place = _first_difference(source, changed)
    refused = desk.resolved(event.expect.refused) if event.expect and event.expect.refused else None
    reused = event.expect.reused if event.expect else None
    if refused is not None:
        _must_differ(desk, refused, mutations=mutations, changed=place is not None)
    elif mutations:
        desk.refuse(
            (),
            "reload: the request was mutated, but no refusal is expected",
            "add `expect: {refused: prefix.tokens}`",
        )
    request = changed.request(desk.padding)
    limit = _reused_limit(desk, reused, request, exact=source.exact) if reused is not None else None
    desk.emit(
        st.Load(
            event=desk.event,
            session=name,
            source=source.name,
            group=source.group,
            process=event.process,
            request=request,
            state=source.state(desk.rules),
            refused=refused,
            place=place,
            reused=reused,
            reused_limit=limit,
            damage=_damage(desk, source, changed, name) if refused is not None else None,
        )
    )
    if refused is not None:
        advice = "use another session, or expect no refusal"
        desk.gone[name] = (f"was refused in line {desk.line}, so nothing was opened", advice)
        return
    session = source.copy(name)
    session.opened_by = desk.event
    desk.open(session)


def _changed(
    desk: Desk, source: SessionPlan, pending: Sequence[tuple[int, ev.MutatePrefixToken]]
) -> tuple[SessionPlan, int]:
    """Return the request of `source` after the pending mutations, and their number; those `invalid` change nothing."""
    changed = source.copy(source.name)
    here, made, bad = desk.event, 0, False
    for number, event in pending:
        desk.turn_to(number)
        invalid = event.expect is not None and event.expect.invalid
        before, attempt = len(desk.problems), changed.copy(source.name)
        try:
            _mutate(desk, attempt, event)
        except ImpossibleError:
            if invalid:
                del desk.problems[before:]
            bad = bad or not invalid
            continue
        if not invalid:
            changed, made = attempt, made + 1
        elif desk.certain:
            bad = True
            desk.possible()
    desk.turn_to(here)
    if bad:
        raise ImpossibleError
    return changed, made


def _mutate(desk: Desk, changed: SessionPlan, event: ev.MutatePrefixToken) -> None:
    name = desk.resolved(event.row)
    row = changed.rows.get(name)
    if row is None:
        message = f"{desk.word}: no row {name!r} in the request"
        desk.refuse(("row",), message, did_you_mean(name, tuple(changed.rows), "rows here"))
    index = desk.number(event.index, ("index",), row.words)
    token = desk.number(event.token, ("token",))
    if not row.exact or index is None:
        # Only a target knows which token this is: take it for the last, which is there.
        row.change(row.length - 1, _OTHER, desk.rules)
        return
    if index >= row.length:
        message = f"{desk.word}: row {name!r} holds {row.length} tokens, no index {index}"
        help = f"the last index is {row.length - 1}; `length-1` always names it" if row.length else "feed it first"
        desk.refuse(("index",), message, help)
    if row.tokens[index] == token:
        message = f"{desk.word}: token {token} is already at index {index} of row {name!r}"
        desk.refuse(("token",), message, "change it to another token")
    row.change(index, _OTHER if token is None else token, desk.rules)


def _first_difference(source: SessionPlan, changed: SessionPlan) -> tuple[str, int] | None:
    """Return row and index of the first difference, rows in batch order."""
    for old, new in zip(source.rows.values(), changed.rows.values(), strict=True):
        for index, (before, after) in enumerate(zip(old.tokens, new.tokens, strict=True)):
            if before != after:
                return old.name, index
    return None


def _must_differ(desk: Desk, refused: str, *, mutations: int, changed: bool) -> None:
    """Make sure the field that must be refused was changed, and nothing else."""
    path = ("expect", "refused")
    if refused not in CHANGEABLE:
        from evseq.cache.fields import FIELDS

        what = f"nothing changes {refused!r} before it" if refused in FIELDS else f"no identity field {refused!r}"
        desk.refuse(path, f"reload: {what}", did_you_mean(refused, CHANGEABLE, "what events can change"))
    if not mutations:
        desk.refuse(
            path,
            f"reload: expects {refused!r} to be refused, but nothing was changed before it",
            "put a `mutate-prefix-token` before it, or expect no refusal",
        )
    if not changed:
        desk.refuse(
            path,
            f"reload: expects {refused!r} to be refused, but the mutations before it undo each other",
            "mutate to a token that differs from the saved one, or expect no refusal",
        )


def _damage(desk: Desk, source: SessionPlan, changed: SessionPlan, name: str) -> st.Damage:
    """Plan the changed request in a scratch session, and one more token there and in the stale cache."""
    desk.within_capacity(source, more=1)
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
    slots = {row.name: row.slots for row in changed.request(desk.padding).rows}
    prefix = {key: [None if slot == MASKED else slot for slot in cells] for key, cells in slots.items()}
    desk.needs |= masked(prefix)
    probe = {key: [_probe_token(desk, row)] for key, row in source.rows.items()}
    right = (fed(desk, scratch, prefix, prefill=True), fed(desk, scratch, probe, prefill=False))
    stale = source.copy(name)
    fed(desk, stale, probe, prefill=False)
    return st.Damage(group=group, right=right, stale=tuple(row.node for row in stale.rows.values()), touched=touched)


def _probe_token(desk: Desk, row: Row) -> int:
    if row.taken < len(row.text.tokens):
        return row.text.tokens[row.taken]
    return (max(row.tokens[-1], 0) + 1) % desk.vocab if row.tokens else 0


def _reused_limit(desk: Desk, reused: ev.Reused, request: st.Request, *, exact: bool) -> int | None:
    """Return the bound on the tokens that come from the cache; it must be one that a wrong engine would miss."""
    word, number = next((word, number) for word, number in reused if number is not None)
    path = ("expect", "reused", word)
    limit, total = desk.number(number, path), request.tokens
    if word == "least" and limit == 0:
        desk.refuse(path, "reload: `least: 0` cannot fail", "expect at least 1, or leave it out")
    if limit is None or not exact:
        return limit
    if word == "most" and limit >= total:
        message = f"reload: `most: {limit}` of {total} tokens cannot fail"
        desk.refuse(path, message, f"expect at most {total - 1}, or leave it out")
    if word != "most" and limit > total:
        message = f"reload: `{word}: {limit}`, but the request has {total} tokens"
        desk.refuse(path, message, f"expect no more than {total}")
    return limit
