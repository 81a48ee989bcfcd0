"""Refusals: the cases of the second law, one script a field, made from the registries and a decoder's description."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from evseq.cache.fields import FIELDS
from evseq.cache.mutations import MUTATIONS, Mutation, Reach
from evseq.cache.regions import ERRORS, Region
from evseq.geometry import Capability, Description
from evseq.script.document import Script, parse
from evseq.script.events import Event, Repeat
from evseq.script.source import parse_yaml

__all__ = ["damaged", "refusals", "refused"]

LONG, SHORT = 7, 3
"""Tokens of two unequal rows, so that padding is there; more where a window has to be passed."""

TOKENS = MappingProxyType(
    {
        "row": "a",
        "index": "2",
        "token": "other",
        "by": "2",
        "text": "ONCE UPON A TIME",
    }
)
"""What the operands of a mutation are, the word of `to` aside."""


def refusals(description: Description) -> Mapping[str, Script]:
    """Return by field the script that changes it for real, and shows control, refusal, damage and restoration.

    Every field that anything alive has is there; whether this decoder can change it, its cases tell.
    """
    return {name: _script(mutation, description) for name, mutation in MUTATIONS.items() if _lives(mutation)}


def damaged(description: Description) -> Mapping[Region, Script]:
    """Return by region of a sealed file the script that damages it, beside a reload of the file as it was written."""
    rows = _rows(description, text=False)
    return {
        region: _parsed(
            f"damaged-{region}",
            rows,
            [
                "prefill: {rows: {a: 7, b: 3}}",
                "serialize: {to: saved}",
                f"reload: {{from: saved, as: damaged, damage: {region}, expect: {{malformed: {error.__name__}}}}}",
                "reload: {from: saved, as: whole}",
                "append: {next: 1, on: whole}",
            ],
        )
        for region, error in ERRORS.items()
    }


def refused(script: Script) -> frozenset[str]:
    """Return the fields that a script expects to be refused, whether named in place or by an arm."""
    words = {event.expect.refused for event in _flat(script.events) if event.expect is not None}
    values = (
        script.arms[word].values if word in script.arms and word not in FIELDS else (word,) for word in words if word
    )
    return frozenset(str(value) for several in values for value in several)


def _flat(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events, those of a repeat in its place."""
    for event in events:
        if isinstance(event, Repeat):
            yield from _flat(event.events)
        else:
            yield event


def _lives(mutation: Mutation) -> bool:
    return mutation.reach is not Reach.RECORD


def _script(mutation: Mutation, description: Description) -> Script:
    name, file = mutation.field, "saved"
    window = description.geometry.window
    long = LONG if window is None else max(LONG, 2 * window)
    short = SHORT if window is None or name != "window.policy" else window + 2
    fed = f"prefill: {{rows: {{a: {long}, b: {short}}}}}"
    refused = f"expect: {{refused: {name}}}"
    text = name == "prefix.text"
    change = _change(mutation, description)
    match mutation.reach:
        case Reach.REQUEST:
            events = [
                *(fed, "serialize: {to: saved}", change, f"reload: {{from: saved, as: changed, {refused}}}"),
                *(change, f"reuse: {{from: main, as: changed, {refused}}}"),
            ]
        case Reach.ENGINE:
            events = [
                *(fed, "serialize: {to: saved}", change, f"reload: {{from: saved, as: changed, {refused}}}"),
                *(f"append: {{next: 1, {refused}}}", f"reuse: {{from: main, as: changed, {refused}}}"),
                f"restore: {{field: {name}}}",
            ]
        case _:
            file = "sound"
            events = [
                *(fed, change, "serialize: {to: changed}", f"restore: {{field: {name}}}", "serialize: {to: sound}"),
                f"reload: {{from: changed, as: changed, {refused}}}",
            ]
    events += [
        *("append: {next: 1}", f"reload: {{from: {file}, as: same}}", "append: {next: 2, on: same}"),
        *("reuse: {from: main, as: copy}", "append: {next: 1, on: copy}", "append: {next: 1}"),
    ]
    return _parsed(f"refused-{name}", _rows(description, text=text, long=long, short=short), events)


def _change(mutation: Mutation, description: Description) -> str:
    """Return the event that changes a field, with all it needs."""
    operands = [f"{key}: {_operand(mutation.field, key, description)}" for key in mutation.operands]
    if mutation.field == "prefix.tokens":
        return f"mutate-prefix-token: {{{', '.join(operands)}}}"
    return f"mutate: {{{', '.join([f'field: {mutation.field}', *operands])}}}"


def _operand(field: str, key: str, description: Description) -> str:
    match field, key:
        case "prefix.tokens", "token":
            return str(description.geometry.vocab - 1)  # no row has it
        case "padding", "to":
            return "right"
        case "salt", "to":
            return "other"
        case "cache.kind", "to":
            return description.exact[-1].name
        case _:
            return TOKENS[key]


def _rows(description: Description, *, text: bool, long: int = LONG, short: int = SHORT) -> str:
    most = description.geometry.vocab - 1
    if text and Capability.TEXT in description.capabilities:
        return "a: {text: once upon a time there was}, b: {text: in another}"
    a = [(7 * place * place + 3 * place + 5) % most for place in range(long + 3)]
    b = [(5 * place * place + 11 * place + 2) % most for place in range(short + 3)]
    return f"a: {a}, b: {b}"


def _parsed(name: str, rows: str, events: Sequence[str]) -> Script:
    lines = ["evseq: 1", f"name: {name}", "about: Made from the registries.", f"rows: {{{rows}}}", "events:"]
    return parse(parse_yaml("\n".join([*lines, *(f"  - {event}" for event in events), ""]), file=f"{name}.evseq.yaml"))
