"""What pydantic found wrong in a part of a script, in an author's words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from evseq.errors import nearest
from evseq.script.allowing import EXAMPLE, Allow
from evseq.script.complaints import NAME_ADVICE, Complaints, did_you_mean, show
from evseq.script.compose import Keys
from evseq.script.events import LAST, Expect, Reused
from evseq.script.syntax import MAX_NOTES

__all__ = ["keys_of", "tell"]


class _Saying(NamedTuple):
    """What is wrong, what to do, and whether the key is to be pointed at rather than the value."""

    message: str
    advice: str
    at_key: bool = False


_LIKE = "write it like `{example}`"
_SAYINGS = {
    "unknown key": _Saying("{label}: unknown key {last!r}", "{meant}", at_key=True),
    "missing": _Saying("{here} is missing", _LIKE, at_key=True),
    "none given": _Saying("{here}: none of {choices} is given", _LIKE, at_key=True),
    "none given inside": _Saying("{here}: none of {choices} is given", "give one of them", at_key=True),
    "several given": _Saying("{here}: {given} exclude each other", "keep one of them", at_key=True),
    "mixed": _Saying(
        "{here}: beams and options are mixed",
        "write them apart: `beam-select: {{rows: {{x: a, y: a}}, on: other}}`",
        at_key=True,
    ),
    "rows twice": _Saying(
        "{here}: rows are named by `row` and by a number per row", "leave out one of the two", at_key=True
    ),
    "key": _Saying("{here} is not a name", NAME_ADVICE, at_key=True),
    "name": _Saying("{here} is {value}, not a name", NAME_ADVICE),
    "out of range": _Saying("{here} is {value}, out of range", "numbers go from 0 to 1000000"),
    "number": _Saying(
        "{here} is {value}, not a number",
        "write an integer from 0 to 1000000, an arm, or a number word such as 2*window+1",
    ),
    "token": _Saying("{here} is {value}, not a token id", "token ids are integers from 0"),
    "text": _Saying("{here} is {value}, not a text", "put a text in quotes"),
    "switch": _Saying("{here} is {value}, not true or false", "write true or false"),
    "word for a switch": _Saying(
        "{here} is the word {value}, not true or false", "write {meant}; yes, no, on and off are words here"
    ),
    "choice": _Saying("{here} is {value}, not {choices}", "{meant}"),
    "expectation": _Saying(
        "{here} is {value}, not an expectation",
        "{meant}write invalid, loud, {{refused: prefix.tokens}} or {{reused: {{least: 3}}}}",
    ),
    "bound": _Saying("{here} is {value}, not a bound", "write {{most: 3}}, {{least: 3}} or {{exactly: 3}}"),
    "reason": _Saying("{here} is {value}, not a reason", "say in a sentence why it is tolerated"),
    "within": _Saying("{here} is {value}, not a limit", "write a number of allowances, or of findings"),
    "arithmetic": _Saying("{here}: arithmetic belongs to no case, so no script can allow it", "allow another check"),
    "no share": _Saying(
        "{here}: within is a number of allowances for this check, and 1 is what is right anyway", "write more than 1"
    ),
    "no count": _Saying("{here}: within is a number of findings for this check", "write an integer from 1"),
    "list": _Saying("{here} is {value}, not a list", "write a list: [a, b]"),
    "mapping": _Saying("{here} is {value}, not a mapping", _LIKE),
    "mapping inside": _Saying("{here} is {value}, not a mapping", "write one entry per row: {{a: ..., b: ...}}"),
    "nothing": _Saying("{here} has no value", "give it one, or leave it out", at_key=True),
    "empty": _Saying("{here} is empty", "put at least one entry in"),
    "other": _Saying("{here} cannot be {value}", _LIKE),
}
_KINDS = {  # by pydantic's own words
    "extra_forbidden": "unknown key",
    "unexpected_keyword_argument": "unknown key",
    "string_type": "text",
    "enum": "choice",
    "list_type": "list",
    "tuple_type": "list",
    "dict_type": "mapping",
    "model_type": "mapping",
    "dataclass_type": "mapping",
    "too_short": "empty",
    "string_too_short": "empty",
}
_ABOUT_KEYS = frozenset({"unknown key", "missing", "one of", "mixed", "rows twice"})
_TAGS = frozenset(
    {"all", "per row", "list", "one", "[key]"}
)  # branches of types in events.py; pydantic's word for a key
_ALLOWS = frozenset({"one", "list"})  # the same, of `allow`
_SWITCHES = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def tell(
    error: ValidationError, kind: type, *, data: Any, path: Keys, label: str, example: str, complaints: Complaints
) -> None:
    """Complain of every fault of `data`, which stands at `path` and should have been a `kind`."""
    found = error.errors(include_url=False, include_input=False)
    unknown = [str(entry["loc"][-1]) for entry in found if _kind(entry, None) == "unknown key"]
    for entry in found[: MAX_NOTES + 1]:
        if entry["type"] == "missing" and any(nearest(word, [str(entry["loc"][-1])]) for word in unknown):
            continue  # it is there, misspelt
        inner, name, value = _located(entry["loc"], data)
        saying = _SAYINGS[_kind(entry, value)]
        context: dict[str, Any] = entry.get("ctx", {})
        choices = re.findall(r"'([^']+)'", context.get("expected", ""))
        last = str(entry["loc"][-1]) if entry["loc"] else ""
        evidence = {
            "label": ": ".join([label, *(str(part) for part in inner[:-1])]),
            "here": f"{label}: {name}" if name else label,
            "value": show(value),
            "last": last,
            "example": EXAMPLE if "allow" in entry["loc"] else example,
            "given": context.get("given"),
            "choices": context.get("choices") or " or ".join(choices),
            "meant": _meant(entry, value, last, choices, kind),
        }
        complaints.add(
            (*path, *inner), saying.message.format(**evidence), saying.advice.format(**evidence), key=saying.at_key
        )


def keys_of(kind: type) -> list[str]:
    """Return the keys an author may write; `expect` and `allow`, which all events have, come last."""
    if is_dataclass(kind):
        return [field.name for field in fields(kind)]
    assert issubclass(kind, BaseModel)
    keys = [field.alias or name for name, field in kind.model_fields.items()]
    return sorted(keys, key=LAST.__contains__)


def _kind(entry: ErrorDetails, value: Any) -> str:
    """Return which saying fits."""
    kind = _KINDS.get(entry["type"], entry["type"])
    if entry["loc"][-1:] == ("[key]",):
        return "key"
    if value is None and kind not in _ABOUT_KEYS:
        return "nothing"
    match kind:
        case "one of" if entry["ctx"]["given"]:
            return "several given"
        case "one of":
            return "none given inside" if entry["loc"] else "none given"
        case "number" if isinstance(value, int) and not isinstance(value, bool):
            return "out of range"
        case "mapping" if entry["loc"] == ("expect",):
            return "expectation"
        case "mapping" if entry["loc"] == ("expect", "reused"):
            return "bound"
        case "mapping" if not _ALLOWS.isdisjoint(entry["loc"]):
            return "mapping"
        case "mapping" if entry["loc"]:
            return "mapping inside"
        case "switch" if str(value).lower() in _SWITCHES:
            return "word for a switch"
        case _:
            return kind if kind in _SAYINGS else "other"


def _meant(entry: ErrorDetails, value: Any, last: str, choices: Sequence[str], kind: type) -> str:
    if choices:
        return did_you_mean(str(value), choices, "known")
    if _kind(entry, value) == "unknown key":
        inner = Reused if "reused" in entry["loc"][:-1] else Expect if "expect" in entry["loc"][:-1] else kind
        owner = Allow if "allow" in entry["loc"][:-1] else inner
        return did_you_mean(last, keys_of(owner), "known")
    if _kind(entry, value) == "expectation":
        close = nearest(str(value), Expect.WORDS)
        return f"did you mean '{close}'? " if close else ""
    return _SWITCHES.get(str(value).lower(), "")


def _located(loc: Sequence[str | int], data: Any) -> tuple[Keys, str, Any]:
    """Return the way to a fault in what the author wrote, the same as text, and the value there."""
    inner: Keys = ()
    name = ""
    for part in loc:
        if (isinstance(data, dict) and part in data) or (isinstance(data, list) and isinstance(part, int)):
            data = data[part]  # type: ignore[index]  # checked just above
            inner = (*inner, part)
        elif part in _TAGS:
            continue
        name += f"[{part}]" if isinstance(part, int) else f".{part}"
    return inner, name.removeprefix("."), data
