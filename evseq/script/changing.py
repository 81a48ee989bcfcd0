"""Changing: what mutations before it make of the request that asks for reuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import assert_never

from evseq.cache.fields import FIELDS
from evseq.cache.mutations import MUTATIONS
from evseq.geometry import PositionRule, Positions
from evseq.history import MASKED
from evseq.script import events as ev
from evseq.script.complaints import did_you_mean
from evseq.script.desk import Desk
from evseq.script.feeding import pad
from evseq.script.noting import ImpossibleError
from evseq.script.placing import Row
from evseq.script.request import Asks, Request
from evseq.script.sessions import SessionPlan

__all__ = ["Asking", "Pending", "asked", "following", "place"]

OTHER = -(1 << 50)
"""A symbol that no row has."""

Pending = tuple[int, ev.MutatePrefixToken | ev.Mutate]
"""A mutation of the request that asks next, and its place among the turns."""


@dataclass(slots=True, kw_only=True)
class Asking:
    """A request in the making: the rows that ask, how their session differs, and which fields were changed."""

    session: SessionPlan
    padding: str
    asks: Asks = field(default_factory=Asks)
    fields: dict[str, None] = field(default_factory=dict)

    def copy(self) -> Asking:
        """Return an independent request of the same contents."""
        session = self.session.copy(self.session.name)
        return Asking(session=session, padding=self.padding, asks=self.asks, fields=dict(self.fields))

    @property
    def request(self) -> Request:
        """The path it claims."""
        return self.session.request(self.padding)


def asked(desk: Desk, source: SessionPlan, pending: Sequence[Pending]) -> Asking:
    """Return the request of `source` after the pending mutations; those `invalid` change nothing."""
    made = Asking(session=source.copy(source.name), padding=desk.padding)
    here, bad = desk.event, False
    for number, event in pending:
        desk.turn_to(number)
        invalid = event.expect is not None and event.expect.invalid
        before, attempt = len(desk.problems), made.copy()
        try:
            _change(desk, attempt, event)
        except ImpossibleError:
            if invalid:
                del desk.problems[before:]
            bad = bad or not invalid
            continue
        if not invalid:
            made = attempt
        elif desk.certain:
            bad = True
            desk.possible()
    desk.turn_to(here)
    if bad:
        raise ImpossibleError
    return made


def following(fields: Mapping[str, object], refused: str) -> tuple[str, ...]:
    """Return the fields that may be refused together with `refused` where all these were changed."""
    also = [name for changed in fields for name in (changed, *MUTATIONS[changed].also)]
    return tuple(name for name in dict.fromkeys(also) if name != refused)


def place(name: str, source: SessionPlan, changed: SessionPlan) -> tuple[str, int] | None:
    """Return row and index of the first difference in a field that has a value per row, rows in batch order."""
    if name not in FIELDS or not FIELDS[name].per_row:
        return None
    for old, new in zip(source.rows.values(), changed.rows.values(), strict=True):
        pairs = zip_longest(_values(name, old), _values(name, new), fillvalue=OTHER)
        for index, (before, after) in enumerate(pairs):
            if before != after:
                return old.name, index
    return None


def _values(name: str, row: Row) -> Sequence[object]:
    match name:
        case "prefix.tokens":
            return row.tokens
        case "prefix.mask":
            return [slot != MASKED for slot in row.requested().slots]
        case "position.ids":
            return row.positions
        case "prefix.text":
            return row.text.text or ""
        case _:  # counts of the cache, which the request does not hold
            return ()


def _change(desk: Desk, asking: Asking, event: ev.MutatePrefixToken | ev.Mutate) -> None:
    match event:
        case ev.MutatePrefixToken():
            _token(desk, asking.session, event)
            asking.fields["prefix.tokens"] = None
        case ev.Mutate():
            name = desk.field(event.field)
            _CHANGES[name](desk, asking, event)
            asking.fields[name] = None
        case _:
            assert_never(event)


def _row(desk: Desk, session: SessionPlan, word: str | None) -> Row:
    assert word is not None
    name = desk.resolved(word)
    row = session.rows.get(name)
    if row is None:
        message = f"{desk.word}: no row {name!r} in the request"
        desk.refuse(("row",), message, did_you_mean(name, tuple(session.rows), "rows here"))
    return row


def _index(desk: Desk, row: Row, number: int | str | None) -> int:
    """Return the index meant; the last one, which is there, where only a target knows."""
    assert number is not None
    index = desk.number(number, ("index",), row.words)
    if not row.exact or index is None:
        return row.length - 1
    if index >= row.length:
        message = f"{desk.word}: row {row.name!r} holds {row.length} tokens, no index {index}"
        help = f"the last index is {row.length - 1}; `length-1` always names it" if row.length else "feed it first"
        desk.refuse(("index",), message, help)
    return index


def _token(desk: Desk, session: SessionPlan, event: ev.MutatePrefixToken) -> None:
    row = _row(desk, session, event.row)
    token = desk.number(event.token, ("token",))
    index = _index(desk, row, event.index)
    if row.tokens[index] == token and row.exact:
        message = f"{desk.word}: token {token} is already at index {index} of row {row.name!r}"
        desk.refuse(("token",), message, "change it to another token")
    row.change(index, OTHER if token is None else token, desk.rules)


def _text(desk: Desk, asking: Asking, event: ev.Mutate) -> None:
    row = _row(desk, asking.session, event.row)
    if row.text.text is None:
        desk.refuse(("row",), f"mutate: row {row.name!r} has no text", "change that of a row given as `text`")
    if row.text.text == event.text:
        desk.refuse(("text",), f"mutate: that is the text of row {row.name!r} already", "give it another")
    row.text = replace(row.text, text=event.text)


def _mask(desk: Desk, asking: Asking, event: ev.Mutate) -> None:
    row = _row(desk, asking.session, event.row)
    index = _index(desk, row, event.index)
    if row.exact and row.length == 1:
        message = f"mutate: row {row.name!r} holds 1 token, and nothing would be left"
        desk.refuse(("row",), message, "feed it another token first")
    row.hide(index, desk.rules)


def _positions(desk: Desk, asking: Asking, event: ev.Mutate) -> None:
    assert event.by is not None
    row = _row(desk, asking.session, event.row)
    index, by = _index(desk, row, event.index), desk.number(event.by, ("by",))
    if by == 0:
        desk.refuse(("by",), "mutate: moves nothing", "move it by at least 1")
    row.shift(index, by or 1, desk.rules)


def _rule(desk: Desk, asking: Asking, event: ev.Mutate) -> None:
    del event
    given = desk.rules.positions is Positions.GIVEN
    asking.asks = replace(asking.asks, positions=Positions.ENGINE if given else Positions.GIVEN)
    if desk.position_rule is PositionRule.SLOT:
        for row in asking.session.rows.values():
            row.flip(desk.rules)


def _padding(desk: Desk, asking: Asking, event: ev.Mutate) -> None:
    assert event.to is not None
    to, known = desk.resolved(event.to), ("left", "right", "holes")
    if to not in known:
        desk.refuse(("to",), f"mutate: no padding {to!r}", did_you_mean(to, known, "paddings"))
    if to == asking.padding:
        desk.refuse(("to",), f"mutate: the padding is {to} already", "name another")
    asking.padding = to
    columns = pad({name: row.tokens for name, row in asking.session.rows.items()}, to)
    for name, row in asking.session.rows.items():
        cells = columns[name]
        row.lay([column for column, cell in enumerate(cells) if cell is not None], len(cells), desk.rules)


def _salt(desk: Desk, asking: Asking, event: ev.Mutate) -> None:
    assert event.to is not None
    to = desk.resolved(event.to)
    if to == asking.session.salt:
        desk.refuse(("to",), f"mutate: the salt is {to!r} already", "name another")
    asking.session.salt = to


def _kind(desk: Desk, asking: Asking, event: ev.Mutate) -> None:
    assert event.to is not None
    asking.asks = replace(asking.asks, cache=desk.resolved(event.to))


def _room(desk: Desk, asking: Asking, event: ev.Mutate) -> None:
    assert event.by is not None
    by = desk.number(event.by, ("by",))
    if by == 0:
        desk.refuse(("by",), "mutate: asks for no more room", "ask for at least 1 slot more")
    asking.asks = replace(asking.asks, room=by or 1)


_CHANGES = {
    "prefix.text": _text,
    "prefix.mask": _mask,
    "position.ids": _positions,
    "position.rule": _rule,
    "padding": _padding,
    "salt": _salt,
    "cache.kind": _kind,
    "cache.shapes": _room,
}
"""What each change of a request is made by."""
