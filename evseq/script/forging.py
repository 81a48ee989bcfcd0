"""Forging: reloads of a sound file that says another value of one identity field, which only that field refuses."""

from __future__ import annotations

from evseq.cache.fields import FIELDS
from evseq.geometry import Capability
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.complaints import did_you_mean
from evseq.script.desk import Desk

__all__ = ["reload_forged"]

REFUSED = ("expect", "refused")


def reload_forged(desk: Desk, event: ev.Reload, word: str) -> None:
    """Ask for a copy of a saved session that says another value of one field; nothing is opened."""
    pending, desk.pending = desk.pending, []
    source = desk.source(desk.resolved(event.from_))
    name = desk.resolved(event.as_)
    desk.unused(name)
    field = desk.field(word)
    if field not in FIELDS:
        desk.refuse(("forged",), f"reload: no identity field {field!r}", did_you_mean(field, tuple(FIELDS), "fields"))
    refused = event.expect.refused if event.expect else None
    if refused is None:
        message = f"reload: the file says another {field}, but no refusal is expected"
        desk.refuse(("forged",), message, f"add `expect: {{refused: {field}}}`")
    told = desk.field(refused)
    if told != field:
        message = f"reload: expects {told} to be refused, but the file says another {field}"
        desk.refuse(REFUSED, message, f"expect {field}, or forge {told}")
    if event.damage is not None:
        message = "reload: a damaged file is refused before anything it says is compared"
        desk.refuse(("damage",), message, "leave `damage` or `forged` out")
    changed = "the request" if pending else next(iter([*desk.altered, *source.tampered]), None)
    if changed is not None:
        message = f"reload: {changed} was changed too, so nobody could tell what {field} alone does"
        desk.refuse(("forged",), message, "leave `forged` out, or forge a file where nothing else differs")
    desk.needs.add(Capability.SERIALIZE)
    if event.process is ev.Process.FRESH:
        desk.needs.add(Capability.FRESH)
    desk.emit(
        st.Load(
            event=desk.event,
            session=name,
            source=source.name,
            group=source.group,
            process=event.process,
            request=source.request(desk.padding),
            state=source.state(desk.rules),
            refused=field,
            place=None,
            reused=None,
            reused_limit=None,
            damage=None,
            forged=True,
        )
    )
    desk.gone[name] = (
        f"was forged in line {desk.line}, so nothing was opened",
        "use another session, or reload the file as it was written",
    )
