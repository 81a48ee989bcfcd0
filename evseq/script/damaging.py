"""Damaging: reloads of a file that was damaged after it was written, which no reader may admit."""

from __future__ import annotations

from evseq.cache.regions import ERRORS, Region
from evseq.geometry import Capability
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.complaints import did_you_mean
from evseq.script.desk import Desk

__all__ = ["reload_damaged", "undamaged"]

MALFORMED = ("expect", "malformed")


def reload_damaged(desk: Desk, event: ev.Reload, region: Region) -> None:
    """Ask for damaged copies of a saved session; nothing is opened."""
    pending, desk.pending = desk.pending, []
    source = desk.source(desk.resolved(event.from_))
    name = desk.resolved(event.as_)
    desk.unused(name)
    right = ERRORS[region].__name__
    malformed = event.expect.malformed if event.expect else None
    if malformed is None:
        message = f"reload: the file is damaged ({region}), but no error is expected"
        desk.refuse(("damage",), message, f"add `expect: {{malformed: {right}}}`")
    told = desk.resolved(malformed)
    known = sorted({error.__name__ for error in ERRORS.values()})
    if told not in known:
        desk.refuse(MALFORMED, f"reload: no error {told!r}", did_you_mean(told, known, "errors of files"))
    if told != right:
        message = f"reload: expects {told}, but damage to {region} is a {right}"
        desk.refuse(MALFORMED, message, f"expect {right}, or damage another region")
    if pending:
        message = "reload: the request was mutated, but a damaged file is refused before any request is compared"
        desk.refuse(("damage",), message, "leave the damage out, or put the mutation before another reload")
    desk.needs.add(Capability.SERIALIZE)
    if event.process is ev.Process.FRESH:
        desk.needs.add(Capability.FRESH)
    desk.emit(
        st.LoadDamaged(
            event=desk.event,
            session=name,
            source=source.name,
            group=source.group,
            process=event.process,
            request=source.request(desk.padding),
            state=source.state(desk.rules),
            region=region,
            malformed=told,
        )
    )
    desk.gone[name] = (
        f"was damaged in line {desk.line}, so nothing was opened",
        "use another session, or reload the file undamaged",
    )


def undamaged(desk: Desk, event: ev.Reload) -> None:
    """Make sure that a reload of a sound file expects no error of it."""
    if event.expect is not None and event.expect.malformed is not None:
        named = next((region for region, error in ERRORS.items() if error.__name__ == event.expect.malformed), None)
        example = f"`damage: {named or Region.TENSOR}`"
        desk.refuse(
            MALFORMED, "reload: expects an error of the file, but nothing damages it", f"add {example}, or expect none"
        )
