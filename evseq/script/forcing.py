"""Forcing: what must show, by numbers, that a refusal was right."""

from __future__ import annotations

from evseq.cache.fields import FIELDS, Kind
from evseq.cache.mutations import MUTATIONS, Mutation, Reach
from evseq.geometry import Positions
from evseq.history import MASKED
from evseq.script import steps as st
from evseq.script.changing import Asking
from evseq.script.desk import Desk
from evseq.script.feeding import fed, masked
from evseq.script.placing import Row
from evseq.script.sessions import SessionPlan

__all__ = ["damage", "prefilled"]


def prefilled(desk: Desk, asking: Asking, *, name: str, group: int) -> st.Feed:
    """Return the forward that feeds the whole request to an empty session."""
    return _prefilled(desk, asking, name=name, group=group)[0]


def damage(desk: Desk, source: SessionPlan, asking: Asking, name: str, refused: str) -> st.Damage | None:
    """Plan the changed request in a scratch session, and one more token there and in the stale cache.

    None for a field of policy: no number shows it.
    """
    if FIELDS[refused].kind is Kind.POLICY:
        return None
    mutation = MUTATIONS[refused]
    desk.within_capacity(source, more=1)
    group = desk.new_group(len(asking.session.rows))
    desk.groups[group].positions = asking.asks.positions
    prefix, scratch = _prefilled(desk, asking, name=f"{name}, changed", group=group)
    probe = {key: [_probe_token(desk, row)] for key, row in source.rows.items()}
    right = (prefix, fed(desk, scratch, probe, prefill=False))
    room = desk.groups[source.group]
    room.capacity = max(room.capacity, source.width + 1)
    probes = _probes(desk, source, right[-1])
    stale: tuple[int, ...] = ()
    if mutation.reach is Reach.REQUEST:
        rows = zip(source.rows.values(), right[-1].tokens, probes, strict=True)
        stale = tuple(row.went_on(tokens[-1], position, desk.rules) for row, tokens, position in rows)
    return st.Damage(
        group=group,
        right=right,
        stale=stale,
        touched=tuple(
            number
            for number in _touched(source, asking, mutation)
            if _sees(desk, list(source.rows.values())[number])
            if refused != "position.rule" or not _moved_alike(source, asking, number, right[-1], probes[number])
        ),
        world=_world(mutation),
    )


def _prefilled(desk: Desk, asking: Asking, *, name: str, group: int) -> tuple[st.Feed, SessionPlan]:
    rows = {
        key: Row(name=key, text=row.text, jump=row.jump, flipped=row.flipped)
        for key, row in asking.session.rows.items()
    }
    scratch = SessionPlan(name=name, group=group, lineage=desk.lineage(("open", name, desk.event)), rows=rows)
    slots = {row.name: row.slots for row in asking.request.rows}
    prefix = {key: [None if slot == MASKED else slot for slot in cells] for key, cells in slots.items()}
    desk.needs |= masked(prefix)
    return fed(desk, scratch, prefix, prefill=True), scratch


def _probes(desk: Desk, source: SessionPlan, right: st.Feed) -> tuple[int, ...]:
    """Return the position the stale cache gets the last column at: the one it is given, or its own."""
    given = desk.rules.positions is Positions.GIVEN
    rows = enumerate(source.rows.values())
    return tuple(right.positions[number][-1] if given else row.next_position(desk.rules) for number, row in rows)


def _moved_alike(source: SessionPlan, asking: Asking, number: int, right: st.Feed, probe: int) -> bool:
    """Tell whether all tokens of a row moved, and by as much: a code of distances cannot show it."""
    old, new = (list(session.rows.values())[number].positions for session in (source, asking.session))
    moves = {after - before for before, after in zip(old, new, strict=True)} | {right.positions[number][-1] - probe}
    return len(moves) == 1 and moves != {0}


def _sees(desk: Desk, row: Row) -> bool:
    """Tell whether the next query of a row attends to anything cached: else no number shows what that is."""
    layers = desk.rules.layers
    return not layers or any(row.visible(layer, desk.rules) or layer.recurrent for layer in layers)


def _touched(source: SessionPlan, asking: Asking, mutation: Mutation) -> tuple[int, ...]:
    """Return the rows whose logits must come out wrong."""
    rows = list(source.rows)
    if mutation.field == "cache.eviction":  # a row whose first slot is masked lost nothing
        return tuple(number for number, row in enumerate(source.rows.values()) if 0 in row.columns)
    if (row := source.tampered.get(mutation.field)) is not None:
        return (rows.index(row),)
    pairs = zip(source.rows.values(), asking.session.rows.values(), strict=True)
    touched = tuple(number for number, (old, new) in enumerate(pairs) if old.nodes != new.nodes)
    return touched or tuple(range(len(rows)))


def _world(mutation: Mutation) -> st.World:
    if mutation.reach is not Reach.ENGINE:
        return st.World.SAME
    return st.World.MIRRORED if mutation.mirrored else st.World.ALTERED


def _probe_token(desk: Desk, row: Row) -> int:
    if row.taken < len(row.text.tokens):
        return row.text.tokens[row.taken]
    return (max(row.tokens[-1], 0) + 1) % desk.vocab if row.tokens else 0
