"""The JSON Schema of a script, from the classes that parse it: an editor completes words and marks mistakes by it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema

from evseq.check import Check
from evseq.geometry import Capability
from evseq.script.allowing import SHARES
from evseq.script.arms import BUILT_IN, Arm, value_schema
from evseq.script.events import EVENTS, BeamSelect, Event, Expect, Reused
from evseq.script.kinds import NAME, Name
from evseq.script.number import NUMBER_WORDS
from evseq.script.rows import SOURCES, Ids
from evseq.script.sections import ARM_NAME, KEYS, LAYERS, REQUIRED, VERSION

__all__ = ["editor_schema"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_KEYS = {
    "evseq": "The version of the script language.",
    "name": "What reports and goldens call the script.",
    "about": "What the script shows, in a sentence.",
    "needs": "Only targets that can do this play the script; `window`: a layer has a window, `full`: none has.",
    "targets": "The models the script is about, where it is about some.",
    "rows": "Each row owns its tokens; events feed it piece by piece.",
    "arms": "The dimensions of the cases: each combination of values is one.",
    "allow": "Findings tolerated at every event, and why.",
    "events": "What is done, in order.",
}

Schema = dict[str, Any]


def editor_schema() -> Schema:
    """Return the schema of a whole script, JSON Schema 2020-12.

    It says all that holds without looking at other parts of the script; whether a name is known, a length possible or a
    file there, only `evseq check` can tell.
    """
    properties: dict[str, Schema] = {
        "evseq": {"const": VERSION},
        "name": TypeAdapter(Name).json_schema(),
        "about": {"type": "string", "pattern": r"\S"},
        "needs": _list({"enum": [*Capability, *LAYERS]}, uniqueItems=True),
        "targets": _list({"type": "string", "pattern": r"\S"}),
        "rows": _mapping(NAME, {"$ref": "#/$defs/Row"}, without=NUMBER_WORDS),
        "arms": _arms(),
        "allow": _allow(),
        "events": _list(_event()),
    }
    return {
        "$schema": _DIALECT,
        "title": "evseq script",
        "type": "object",
        "properties": {key: {"description": _KEYS[key], **properties[key]} for key in KEYS},
        "required": list(REQUIRED),
        "additionalProperties": False,
        "$defs": {**_definitions(), "Row": _row(), "Event": _event()},
    }


def _allow() -> Schema:
    one = {"$ref": "#/$defs/Allow"}
    return {"anyOf": [one, _list(one)]}


def _event() -> Schema:
    """Return what stands behind a dash: a word with what it takes, or a word alone."""
    events = {word: {"description": inspect.getdoc(kind), **_body(kind)} for word, kind in EVENTS.items()}
    alone = [word for word, kind in EVENTS.items() if _stands_alone(kind)]
    one = {
        "type": "object",
        "properties": events,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    return {"anyOf": [one, {"enum": alone}]}


def _body(kind: type[Event]) -> Schema:
    """Return what stands behind an event's word: its keys, or its short form."""
    keys: Schema = {"$ref": f"#/$defs/{kind.__name__}"}
    rows = {"$ref": f"#/$defs/{kind.__name__}/properties/rows"}
    match kind.word:
        case "prefill":
            return {"anyOf": [{"type": "array", **rows}, keys]}
        case "beam-select":
            short = {**rows, "propertyNames": {"not": {"enum": sorted(BeamSelect.RESERVED)}}}
            return {"anyOf": [short, keys]}
        case _:
            return {"anyOf": [keys, {"type": "null"}]} if _stands_alone(kind) else keys


def _stands_alone(kind: type[Event]) -> bool:
    return not kind.ways and not any(field.is_required() for field in kind.model_fields.values())


def _definitions() -> dict[str, Schema]:
    """Return the schemas of all events and of what stands inside them."""
    kinds = [*EVENTS.values(), Expect, Reused]
    _, shared = models_json_schema([(kind, "validation") for kind in kinds], by_alias=True)
    definitions: dict[str, Schema] = {name: _tidy(schema) for name, schema in shared["$defs"].items()}
    for kind in kinds:
        if kind.ways:
            definitions[kind.__name__]["oneOf"] = [{"required": [way]} for way in kind.ways]
    definitions["Repeat"]["properties"]["events"]["items"] = {"$ref": "#/$defs/Event"}
    counts = [check.value for check in Check if check not in (*SHARES, Check.ARITHMETIC)]
    definitions["Allow"]["oneOf"] = [
        {"properties": {"check": {"enum": list(SHARES)}, "within": {"exclusiveMinimum": 1}}},
        {"properties": {"check": {"enum": counts}, "within": {"type": "integer"}}},
    ]
    definitions["Expect"] = {"anyOf": [{"enum": list(Expect.WORDS)}, definitions["Expect"]]}
    return definitions


def _row() -> Schema:
    sources = {word: TypeAdapter(kind).json_schema() for word, kind in SOURCES.items()}
    keys = {word: _tidy(schema if word == "random" else schema["properties"][word]) for word, schema in sources.items()}
    described = {word: {"description": inspect.getdoc(SOURCES[word]), **schema} for word, schema in keys.items()}
    one = {
        "type": "object",
        "properties": described,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    ids = {"description": inspect.getdoc(Ids), **_tidy(TypeAdapter(Ids).json_schema()["properties"]["ids"])}
    return {"anyOf": [ids, one]}


def _arms() -> Schema:
    own = [name for name in NUMBER_WORDS if name not in BUILT_IN]
    names = _mapping(f"^(?:{ARM_NAME})$", _arm(""), without=own)
    return {**names, "properties": {name: _arm(name) for name in BUILT_IN}}


def _arm(name: str) -> Schema:
    values = _list(value_schema(name), uniqueItems=True)
    if name == "cache":
        values = {"anyOf": [{"const": "all"}, values]}
    when = _list({"enum": list(Capability)}, uniqueItems=True)
    keys = {"type": "object", "properties": {"values": values, "when": when}}
    return {
        "description": inspect.getdoc(Arm),
        "anyOf": [values, {**keys, "required": ["values"], "additionalProperties": False}],
    }


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, "minItems": 1, **more}


def _mapping(pattern: str, values: Schema, *, without: Iterable[str]) -> Schema:
    names = {"pattern": pattern, "maxLength": 64, "not": {"enum": list(without)}}
    return {"type": "object", "propertyNames": names, "additionalProperties": values, "minProperties": 1}


def _tidy(schema: Any) -> Any:
    """Close mappings by name, and drop what an author does not write: null for a key left out, derived titles."""
    if isinstance(schema, list):
        return [_tidy(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {key: _tidy(part) for key, part in schema.items() if not (key == "title" and isinstance(part, str))}
    if "patternProperties" in tidy:
        tidy["additionalProperties"] = False
    if {"type": "null"} in tidy.get("anyOf", ()):
        ways = [way for way in tidy.pop("anyOf") if way != {"type": "null"}]
        del tidy["default"]
        tidy = {**tidy, **(ways[0] if len(ways) == 1 else {"anyOf": ways})}
    return tidy
