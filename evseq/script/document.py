"""Script: what a file says, as data; parse and unparse are inverses of each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from evseq.errors import Place
from evseq.script.allowing import Allow
from evseq.script.arms import BUILT_IN, Arm, arm_data
from evseq.script.comments import Margin
from evseq.script.complaints import Complaints, did_you_mean
from evseq.script.compose import Keys, Value
from evseq.script.events import BeamSelect, Event, Expect, Prefill, Repeat
from evseq.script.normal import flow, item
from evseq.script.picks import Pick
from evseq.script.rows import Each, Ids, Random, RowSource, Text, TextFile, row_data
from evseq.script.sections import (
    VERSION,
    read_about,
    read_allow,
    read_arms,
    read_events,
    read_name,
    read_needs,
    read_rows,
    read_targets,
    read_top,
)
from evseq.script.source import NOWHERE, Source

__all__ = [
    "Arm",
    "Each",
    "Ids",
    "Random",
    "RowSource",
    "Script",
    "Text",
    "TextFile",
    "event_data",
    "parse",
    "unparse",
]

_WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One parsed script; `place` finds any part of it in the file. `picks` are the cases wanted of it; all, if none."""

    name: str
    about: str
    rows: Mapping[str, RowSource]
    arms: Mapping[str, Arm]
    events: tuple[Event, ...]
    needs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    allow: tuple[Allow, ...] = ()
    source: Source = field(default=NOWHERE, compare=False, repr=False)
    picks: tuple[Pick, ...] = ()

    def place(self, path: Keys, *, key: bool = False) -> Place:
        """Return where the value at `path` begins, or its key; the nearest part that is there if it is left out."""
        return self.source.place(path, key=key)


def parse(source: Source) -> Script:
    """Read a script. Raises ScriptError with every problem of the file, those of its text included."""
    complaints = Complaints(source)
    data = read_top(source, complaints)
    script = Script(
        name=read_name(data, complaints),
        about=read_about(data, complaints),
        rows=read_rows(data, complaints),
        arms=read_arms(data, complaints),
        events=read_events(data, complaints),
        needs=read_needs(data, complaints),
        targets=read_targets(data, complaints),
        allow=read_allow(data, complaints),
        source=source,
    )
    _check_arms(script, data, complaints)
    complaints.done()
    return script


def unparse(script: Script) -> str:
    """Return the normal form: `parse` of it gives an equal script, `unparse` of that the same text.

    Comments of the script's source stay with their item; `lost_comments` tells if one could not.
    """
    margin = Margin(script.source)
    body: list[str] = []
    for path, lines, indent in _layout(script):
        body += margin.wrap(path, lines, indent=indent)
    return "\n".join([*margin.head, *body, *margin.rest(), ""])


def event_data(event: Event) -> Value:
    """Return what an author writes behind the event's word, in the shortest form; an empty mapping for nothing."""
    if isinstance(event, Repeat):
        return {"times": event.times, "events": [_written(one) for one in event.events]}
    body: dict[str, Any] = event.model_dump(by_alias=True, exclude_defaults=True)
    if expect := body.pop("expect", None):
        body["expect"] = next((word for word in Expect.WORDS if word in expect), expect)
    if allow := body.pop("allow", None):
        body["allow"] = allow
    short = isinstance(event, Prefill) and isinstance(event.rows, list)
    short = short or (isinstance(event, BeamSelect) and not BeamSelect.RESERVED & event.rows.keys())
    rows: Value = body["rows"] if short and len(body) == 1 else body
    return rows


def _written(event: Event) -> Value:
    """Return an event as an entry of a list."""
    body = event_data(event)
    return {event.word: body} if body else event.word


def _layout(script: Script) -> Iterator[tuple[Keys, list[str], int]]:
    """Yield path, lines and indent of every item in the order of the normal form."""
    head: dict[str, Value] = {"evseq": VERSION, "name": script.name, "about": script.about}
    for key, value in head.items():
        yield (key,), item(f"{key}:", value, indent=0), 0
    rows = {name: row_data(row) for name, row in script.rows.items()}
    arms = {name: arm_data(name, arm) for name, arm in script.arms.items()}
    for section, entries in (("rows", rows), ("arms", arms)):
        if entries:
            yield (section,), [f"{section}:"], 0
        for name, value in entries.items():
            yield (section, name), item(f"{flow(name)}:", value, indent=2), 2
    for key, words in (("needs", script.needs), ("targets", script.targets)):
        if words:
            yield (key,), item(f"{key}:", list(words), indent=0), 0
    if script.allow:
        allows = [allow.model_dump() for allow in script.allow]
        yield ("allow",), item("allow:", allows[0] if len(allows) == 1 else list(allows), indent=0), 0
    yield ("events",), ["events:"], 0
    yield from _events(script.events, ("events",), 2)


def _events(events: Iterable[Event], path: Keys, indent: int) -> Iterator[tuple[Keys, list[str], int]]:
    margin = " " * indent
    for index, event in enumerate(events):
        here = (*path, index)
        if isinstance(event, Repeat):
            head = item("times:", event.times, indent=indent + 4)
            yield here, [f"{margin}- {event.word}:", *head, f"{margin}    events:"], indent
            yield from _events(event.events, (*here, event.word, "events"), indent + 6)
            continue
        body = event_data(event)
        yield here, item(f"- {event.word}:", body, indent=indent) if body else [f"{margin}- {event.word}"], indent


def _check_arms(script: Script, data: Mapping[str, Value], complaints: Complaints) -> None:
    """Complain of arms named like rows, and of arms that nothing uses: misspelt ones, mostly."""
    used = {word for part in ("rows", "events", "arms") for word in _words(data.get(part), keys=part != "arms")}
    for name in script.arms:
        if name in script.rows:
            complaints.add(("arms", name), f"arm {name!r} has the name of a row", "rename one of them", key=True)
        elif name not in (*BUILT_IN, *used) and "." not in name:
            message = f"arm {name!r} is used by no event and is none of evseq's own"
            complaints.add(("arms", name), message, did_you_mean(name, BUILT_IN, "evseq's own"), key=True)


def _words(value: Value, *, keys: bool) -> Iterator[str]:
    """Yield every word in the texts of `value`, and in its keys."""
    match value:
        case str():
            yield from _WORDS.findall(value)
        case list():
            for part in value:
                yield from _words(part, keys=True)
        case dict():
            for key, part in value.items():
                yield from _WORDS.findall(key) if keys else ()
                yield from _words(part, keys=True)
        case _:
            pass
