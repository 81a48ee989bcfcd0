"""Sections: what stands behind each key of a script, read into its classes or complained of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from evseq.geometry import Capability
from evseq.script.allowing import EXAMPLE, Allow, Allows, listed
from evseq.script.arms import BUILT_IN, Arm, parse_arm
from evseq.script.complaints import LONGEST_NAME, NAME_ADVICE, Complaints, did_you_mean, show
from evseq.script.compose import Keys, Value
from evseq.script.events import EVENTS, Event, Prefill, Repeat
from evseq.script.kinds import NAME
from evseq.script.number import NUMBER_WORDS
from evseq.script.rows import RowSource, parse_row
from evseq.script.source import Source
from evseq.script.wording import tell

__all__ = [
    "ARM_NAME",
    "KEYS",
    "LAYERS",
    "MAX_REPEATS",
    "REQUIRED",
    "VERSION",
    "read_about",
    "read_allow",
    "read_arms",
    "read_events",
    "read_name",
    "read_needs",
    "read_rows",
    "read_targets",
    "read_top",
]

VERSION = 1
"""The version of the script language this package reads."""

KEYS = ("evseq", "name", "about", "rows", "arms", "needs", "targets", "allow", "events")
"""The keys of a script, in the order of the normal form."""

LAYERS = ("window", "full")
"""What `needs` may say of a target's layers: one of them has a window (and none one of 1 token), or none has."""

REQUIRED = ("evseq", "name", "about", "rows", "events")
"""The keys every script has."""

ARM_NAME = r"[A-Za-z_][A-Za-z0-9_]*|[A-Za-z_][A-Za-z0-9_.-]*\.[A-Za-z_][A-Za-z0-9_-]*"
"""An arm is a word that a number may hold, or `engine.option`."""

MAX_REPEATS = 2
"""How deep repeats nest."""

_ARM_ADVICE = "use letters, digits and _, so that a number may hold it; an engine's own option is engine.option"
_ALLOWS: TypeAdapter[Allow | list[Allow]] = TypeAdapter(Allows, config=ConfigDict(defer_build=True))
_NAME = re.compile(NAME)
_ARM = re.compile(ARM_NAME)


def read_top(source: Source, complaints: Complaints) -> dict[str, Value]:
    """Return the mapping a script is, of this version, with known keys."""
    data = source.data
    if not isinstance(data, dict):
        message = "there is no script here" if data is None else f"a script is a mapping, not {show(data)}"
        complaints.add((), message, f"begin with `evseq: {VERSION}` and go on with {', '.join(REQUIRED[1:])}")
        complaints.done()
        return {}
    version = data.get("evseq", VERSION)
    if not isinstance(version, int) or isinstance(version, bool):
        complaints.add(("evseq",), f"evseq is {show(version)}, not a version", f"write `evseq: {VERSION}`")
    elif version != VERSION:
        advice = f"install the evseq that reads it, or write the script in version {VERSION}"
        complaints.add(("evseq",), f"version {version} of the language is not known here, only {VERSION}", advice)
        complaints.done()
    complaints.keys((), data, KEYS, label="script", needed=REQUIRED)
    return data


def read_name(data: Mapping[str, Value], complaints: Complaints) -> str:
    """Return the name."""
    if "name" not in data:
        return ""
    value = data["name"]
    if isinstance(value, str) and _NAME.fullmatch(value) and len(value) <= LONGEST_NAME:
        return value
    complaints.add(("name",), f"name is {show(value)}, not a name", NAME_ADVICE)
    return ""


def read_about(data: Mapping[str, Value], complaints: Complaints) -> str:
    """Return what the script shows."""
    if "about" not in data:
        return ""
    value = data["about"]
    if isinstance(value, str) and value.strip():
        return value
    complaints.add(("about",), f"about is {show(value)}, not a text", "say in a sentence what the script shows")
    return ""


def read_rows(data: Mapping[str, Value], complaints: Complaints) -> dict[str, RowSource]:
    """Return the rows by name, in order."""
    if "rows" not in data:
        return {}
    value = data["rows"]
    rows: dict[str, RowSource] = {}
    for name, source in _entries("rows", value, "rows: {a: [17, 4, 59]}", complaints):
        if _named("row", name, _NAME, complaints) and (row := parse_row(name, source, complaints)):
            rows[name] = row
    return rows


def read_arms(data: Mapping[str, Value], complaints: Complaints) -> dict[str, Arm]:
    """Return the arms by name, in order."""
    if "arms" not in data:
        return {}
    value = data["arms"]
    arms: dict[str, Arm] = {}
    for name, values in _entries("arms", value, "arms: {padding: [left, right]}", complaints):
        if _named("arm", name, _ARM, complaints) and (arm := parse_arm(name, values, complaints)):
            arms[name] = arm
    return arms


def _entries(key: str, value: Value, example: str, complaints: Complaints) -> Iterator[tuple[str, Value]]:
    if not isinstance(value, dict) or not value:
        wrong = "is empty" if value in (None, {}) else f"is {show(value)}, not a mapping of names"
        complaints.add((key,), f"{key} {wrong}", f"write it like `{example}`", key=True)
        return
    yield from value.items()


def _named(kind: str, name: str, pattern: re.Pattern[str], complaints: Complaints) -> bool:
    """Return whether a row or arm may have that name."""
    path = (f"{kind}s", name)
    if not pattern.fullmatch(name) or len(name) > LONGEST_NAME:
        advice = NAME_ADVICE if kind == "row" else _ARM_ADVICE
        complaints.add(
            path, f"{show(name)} is not a name for {'a row' if kind == 'row' else 'an arm'}", advice, key=True
        )
    elif name in NUMBER_WORDS and not (kind == "arm" and name in BUILT_IN):
        complaints.add(path, f"{kind} {name!r} has the name of a number word", "give it another name", key=True)
    else:
        return True
    return False


def read_needs(data: Mapping[str, Value], complaints: Complaints) -> tuple[str, ...]:
    """Return what a target must be able to do."""
    if "needs" not in data:
        return ()
    value = data["needs"]
    needs = complaints.words(("needs",), value, (*Capability, *LAYERS), label="needs")
    if set(LAYERS) <= set(needs):
        complaints.add(("needs",), "needs: window and full exclude each other", "keep one of them")
    return needs


def read_targets(data: Mapping[str, Value], complaints: Complaints) -> tuple[str, ...]:
    """Return the targets the script is about."""
    if "targets" not in data:
        return ()
    value = data["targets"]
    if not isinstance(value, list) or not value:
        complaints.add(("targets",), f"targets is {show(value)}, not a list", "write a list: [reference:window]")
        return ()
    for index, target in enumerate(value):
        if not isinstance(target, str) or not target.strip():
            complaints.add(
                ("targets", index), f"targets: {show(target)} is not a target", "write it as one word: reference:window"
            )
    return tuple(str(target) for target in value)


def read_allow(data: Mapping[str, Value], complaints: Complaints) -> tuple[Allow, ...]:
    """Return what is tolerated at every event."""
    if "allow" not in data:
        return ()
    value = data["allow"]
    try:
        return tuple(allow for _, allow in listed(_ALLOWS.validate_python(value)))
    except ValidationError as error:
        tell(error, Allow, data=value, path=("allow",), label="allow", example=EXAMPLE, complaints=complaints)
    return ()


def read_events(data: Mapping[str, Value], complaints: Complaints) -> tuple[Event, ...]:
    """Return the events, in order."""
    if "events" not in data:
        return ()
    value = data["events"]
    if not isinstance(value, list) or not value:
        wrong = "is empty" if value in (None, []) else f"is {show(value)}, not a list"
        complaints.add(("events",), f"events {wrong}", "write a list that begins with `- prefill: [a]`", key=True)
        return ()
    return tuple(_events(value, ("events",), complaints))


def _events(written: Iterable[Value], path: Keys, complaints: Complaints) -> list[Event]:
    events: list[Event] = []
    for index, one in enumerate(written):
        if not complaints.full and (event := _event(one, (*path, index), complaints)):
            events.append(event)
    return events


def _listed(words: Iterable[str]) -> str:
    *first, last = map(show, words)
    return f"{', '.join(first)} and {last}"


def _event(data: Value, path: Keys, complaints: Complaints) -> Event | None:
    match data:
        case str():
            word, body = data, None
        case dict() if len(data) == 1:
            word, body = next(iter(data.items()))
        case dict() if data:
            first, *rest = data
            advice = f"begin each event with '- '; indent {rest[0]!r} further if it belongs to {first!r}"
            complaints.add(path, f"one event has one word, here are {_listed(data)}", advice)
            return None
        case _:
            advice = f"an event is a word and what it takes, like `{Prefill.example}`"
            complaints.add(path, f"{show(data)} is not an event", advice)
            return None
    kind = EVENTS.get(word)
    if kind is None:
        complaints.add((*path, word), f"unknown event {show(word)}", did_you_mean(word, EVENTS, "events"), key=True)
        return None
    body = {} if body is None else body
    held = _held(body, (*path, word), complaints) if kind is Repeat else body
    try:
        return kind.model_validate(held, by_alias=True, by_name=False)
    except ValidationError as error:
        where: Keys = (*path, word)
        tell(error, kind, data=body, path=where, label=word, example=kind.example, complaints=complaints)
    return None


def _held(body: Value, path: Keys, complaints: Complaints) -> Value | dict[str, Any]:
    """Return what a repeat is made of, its events read; the rest is for the class to look at."""
    inner = body.get("events") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(inner, list):
        return body
    here = (*path, "events")
    if path.count(Repeat.word) > MAX_REPEATS:
        advice = "write the events out, or take them out of the outer ones"
        complaints.add(path, f"repeat: nested more than {MAX_REPEATS} deep", advice, key=True)
        return {**body, "events": []}
    if not inner:
        complaints.add(here, "repeat: events is empty", "put at least one entry in")
    return {**body, "events": _events(inner, here, complaints)}
