"""Allowed: what a script tolerates in writing is taken from the findings, and counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evseq.check import Check
from evseq.script.allowing import SHARES, Allow, listed
from evseq.script.compose import Keys
from evseq.script.events import Event, Repeat
from evseq.verdict.evidence import Evidence
from evseq.verdict.result import Allowed, Case, Finding, Outcome

__all__ = ["idle", "tolerated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """An `allow` at `path` of the script; `event` is that of the event it stands at, None where it is for all."""

    allow: Allow
    path: Keys
    event: Keys | None


def tolerated(evidence: Evidence, findings: Sequence[Finding]) -> tuple[list[Finding], tuple[Allowed, ...]]:
    """Return the findings that are not tolerated, and of every `allow` of the script what it tolerated.

    The allowances of an event come before those of the script; each finding counts for one of them. Of checks with
    allowances each finding within them is tolerated; of another check all at once, or none where they are more.
    """
    left = list(findings)
    told: list[Allowed] = []
    for place in _places(evidence):
        meant = [finding for finding in left if _is_for(evidence, place, finding)]
        if place.allow.check in SHARES:
            meant = [finding for finding in meant if finding.share is not None and finding.share <= place.allow.within]
        elif len(meant) > place.allow.within:
            meant = []
        left = [finding for finding in left if not any(finding is other for other in meant)]
        shares = [finding.share for finding in meant if finding.share is not None]
        told.append(
            Allowed(
                check=place.allow.check,
                place=str(evidence.script.place(place.path, key=True)),
                because=place.allow.because,
                within=place.allow.within,
                findings=len(meant),
                share=max(shares, default=None),
            )
        )
    return left, tuple(told)


def idle(cases: Iterable[Case]) -> tuple[Finding, ...]:
    """Find every `allow` that tolerated nothing in any of the judged cases of its script: it is to be taken out."""
    used: dict[tuple[str, Check], int] = {}
    for case in cases:
        if case.outcome is not Outcome.UNSUPPORTED:
            for allowed in case.allowed:
                key = (allowed.place, allowed.check)
                used[key] = used.get(key, 0) + allowed.findings
    return tuple(
        Finding(
            check=check,
            place=place,
            event="allow",
            step=0,
            row=None,
            index=None,
            message="tolerates nothing in any case: take it out",
        )
        for (place, check), findings in used.items()
        if not findings
    )


def _places(evidence: Evidence) -> list[_Place]:
    script = evidence.script
    everywhere = [
        _Place(allow=allow, path=("allow", *(() if len(script.allow) == 1 else (index,))), event=None)
        for index, allow in enumerate(script.allow)
    ]
    return [*_of_events(script.events, ("events",)), *everywhere]


def _of_events(events: Iterable[Event], path: Keys) -> Iterable[_Place]:
    for number, event in enumerate(events):
        here = (*path, number)
        if isinstance(event, Repeat):
            yield from _of_events(event.events, (*here, event.word, "events"))
        else:
            for rest, allow in listed(event.allow):
                yield _Place(allow=allow, path=(*here, event.word, "allow", *rest), event=here)


def _is_for(evidence: Evidence, place: _Place, finding: Finding) -> bool:
    at = evidence.turn(evidence.step(finding.step)).path
    return finding.check is place.allow.check and place.event in (None, at)
