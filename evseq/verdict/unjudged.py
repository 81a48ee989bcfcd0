"""Unjudged: cases of which nothing was played."""

from __future__ import annotations

from dataclasses import replace

from evseq.script.cases import CaseArms
from evseq.script.document import Script
from evseq.verdict.label import Label
from evseq.verdict.result import Case, Check, Finding, Outcome

__all__ = ["unreferenced", "unsupported"]


def unreferenced(script: Script, case: CaseArms, label: Label, broken: str) -> Case:
    """Fail a case that has nothing to be compared with, at its first event."""
    event = script.events[0].word
    finding = Finding(
        check=Check.REFERENCE,
        place=str(script.place(("events", 0, event), key=True)),
        event=event,
        step=0,
        row=None,
        index=None,
        message=broken,
    )
    return replace(unsupported(script, case, label, ""), outcome=Outcome.FAILED, reason=None, findings=(finding,))


def unsupported(script: Script, case: CaseArms, label: Label, reason: str) -> Case:
    """Set a case aside that the target cannot play."""
    return Case(
        id=label.id,
        script=script.name,
        file=script.source.file,
        target=label.target,
        arms=case.arms,
        outcome=Outcome.UNSUPPORTED,
        reason=reason,
        replay=label.replay,
    )
