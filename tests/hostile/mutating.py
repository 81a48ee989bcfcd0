"""Mutations that know how a sealed file is made, so that they get past its digests, and some that do not care."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import msgpack  # type: ignore[import-untyped]
from blake3 import blake3

from evseq.cache.canonical import canonical
from evseq.cache.frame import ITEMSIZE, LENGTH, METADATA
from evseq.cache.identity import Identity
from evseq.cache.regions import Region, variants

__all__ = ["Mutation", "bytewise", "json_file", "sealed", "text"]

Mutation = Callable[[bytes, Random], bytes]
"""From content and a source of chance to other content; never raises."""

TORCH = {"F64": "float64", "I64": "int64", "F32": "float32", "I32": "int32", "BF16": "bfloat16", "F16": "float16"}
TORCH |= {"I16": "int16", "BOOL": "bool", "I8": "int8", "U8": "uint8"}

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 64, 255, 1 << 31, (1 << 31) - 1, 1 << 53, (1 << 63) - 1, -(1 << 63)),
    *(0.0, -0.0, 1.5, 1e308, math.inf, math.nan, "", "a", "..", "../../etc/passwd", "a/b", "\0", "\x1b[2J", "ä"),
    *(
        "x" * 300,
        "float64",
        "full",
        "compact",
        "cache",
        "golden",
        "BLAKE3",
        "SHA-256",
        [],
        {},
        [[]],
        {"": None},
        [0] * 40,
    ),
)
"""Values that have been somebody's mistake."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A sealed file taken apart: the table of tensors by name, the fields of its text, the bytes of each tensor."""

    table: Mapping[str, Any]
    fields: Any
    payload: Mapping[str, bytes]


def sealed(content: bytes, chance: Random) -> bytes:
    """Damage a sealed file in one to three places, more often than not under digests and a seal that fit."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        way = chance.choice((_resealed, _resealed, _resealed, _payload, _table, _region, _unsealed, bytewise))
        try:
            content = way(content, chance)
        except Exception:  # noqa: BLE001 - what is broken already is broken by chance
            content = bytewise(content, chance)
    return content


def json_file(content: bytes, chance: Random) -> bytes:
    """Damage a JSON file: a value inside, a key said twice, or any byte."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return bytewise(content, chance)
    match chance.randrange(6):
        case 0:
            return bytewise(content, chance)
        case 1:
            place = content.find(b'"', chance.randrange(len(content)))
            return content[:place] + b'"version":1,' + content[place:]
        case _:
            return json.dumps(tweaked(data, chance), indent=chance.choice((None, 1))).encode() + b"\n"


def text(content: bytes, chance: Random) -> bytes:
    """Damage a text: a line gone, doubled, moved or changed, or any byte."""
    lines = content.split(b"\n")
    place = chance.randrange(len(lines))
    odd = chance.choice((b"&a [*a]", b"!!python/name:os", b"[" * 99, b"? [a]", b"{a: {b: {c: {d: 1}}}}", b"2026-13-45"))
    match chance.randrange(7):
        case 0:
            del lines[place]
        case 1:
            lines.insert(place, lines[place])
        case 2:
            lines.insert(place, lines.pop(chance.randrange(len(lines))))
        case 3:
            key, colon, _ = lines[place].partition(b":")
            value = str(chance.choice(ODD)).encode(errors="replace") if chance.random() < 0.7 else odd
            lines[place] = key + colon + b" " + value
        case 4:
            lines[place] = odd
        case 5:
            lines[place] = b" " * chance.randrange(9) + lines[place].lstrip()
        case _:
            return bytewise(content, chance)
    return b"\n".join(lines)


def bytewise(content: bytes, chance: Random) -> bytes:
    """Flip, cut, lengthen, exchange or repeat bytes, whatever they mean."""
    if not content:
        return chance.randbytes(chance.randrange(16))
    place, other = chance.randrange(len(content)), chance.randrange(len(content))
    low, high = sorted((place, other))
    match chance.randrange(6):
        case 0:
            return content[:place] + bytes([content[place] ^ (1 << chance.randrange(8))]) + content[place + 1 :]
        case 1:
            return content[:place]
        case 2:
            return content + chance.randbytes(chance.choice((1, 8, 100)))
        case 3:
            return content[:low] + content[high:]
        case 4:
            return content[:place] + chance.choice((b"[" * 40, b"\xff" * 8, b"\0" * 8, b"{}")) + content[place:]
        case _:
            return content[:place] + content[low:high] + content[place:]


def tweaked(value: Any, chance: Random, *, depth: int = 0) -> Any:
    """Return plain data with one thing in it changed, removed, doubled, moved or added."""
    inside = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    if depth > 8 or not inside or chance.random() < 0.12:
        return _another(value, chance)
    key = chance.choice(list(inside))
    result = dict(value) if isinstance(value, dict) else list(value)
    match chance.randrange(9):
        case 0:
            del result[key]
        case 1 if isinstance(result, list):
            result.insert(key, result[chance.randrange(len(result))])
        case 1 if isinstance(result, dict):
            result[chance.choice(("other", "..", "", "a.b"))] = result[key]
        case 2:
            result[key] = result[chance.choice(list(inside))]
        case _:
            result[key] = tweaked(result[key], chance, depth=depth + 1)
    return result


def _another(value: Any, chance: Random) -> Any:
    if type(value) in (int, float) and chance.random() < 0.5:
        return value + chance.choice((1, -1, 2, 1000))
    return chance.choice(ODD)


# -- a sealed file -----------------------------------------------------------------------------------------------------


def _apart(content: bytes) -> Parts:
    """Take a file apart that need not be sound. Raises anything for one that cannot be."""
    base = LENGTH + int.from_bytes(content[:LENGTH], "little")
    table = json.loads(content[LENGTH:base])
    (words,) = table.pop(METADATA).values()
    payload = {
        name: content[base + entry["data_offsets"][0] : base + entry["data_offsets"][1]]
        for name, entry in table.items()
    }
    return Parts(table=table, fields=msgpack.unpackb(base64.b64decode(words)), payload=payload)


def _together(parts: Parts, *, vouched: bool = True) -> bytes:
    """Write the file; `vouched` gives it the digests, the fingerprint and the seal that fit."""
    fields = dict(parts.fields)
    table = dict(sorted(parts.table.items(), key=lambda item: (-ITEMSIZE[item[1]["dtype"]], item[0])))
    if vouched:
        digest = _blake3 if fields.get("algorithm") == "BLAKE3" else _sha256
        fields["digests"] = {name: digest(entry, parts.payload[name]) for name, entry in table.items()}
        fields["fingerprint"] = Identity(values=fields["identity"]).fingerprint()
        fields.pop("seal", None)
        fields["seal"] = hashlib.sha256(canonical(fields)).hexdigest()
    start, entries = 0, {}
    for name, entry in table.items():
        stop = start + len(parts.payload[name])
        entries[name] = {"dtype": entry["dtype"], "shape": entry["shape"], "data_offsets": [start, stop]}
        start = stop
    words = base64.b64encode(msgpack.packb(fields) if not vouched else canonical(fields)).decode()
    return framed({METADATA: {"evseq": words}, **entries}) + b"".join(parts.payload[name] for name in table)


def framed(table: Mapping[str, Any]) -> bytes:
    """Return a header as it is spelled."""
    header = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    header += b" " * (-len(header) % LENGTH)
    return len(header).to_bytes(LENGTH, "little") + header


def _sha256(entry: Mapping[str, Any], payload: bytes) -> str:
    return hashlib.sha256(_form(entry) + payload).hexdigest()


def _blake3(entry: Mapping[str, Any], payload: bytes) -> str:
    return blake3(_form(entry) + payload).hexdigest()


def _form(entry: Mapping[str, Any]) -> bytes:
    return canonical([TORCH[entry["dtype"]], list(entry["shape"])])


def _resealed(content: bytes, chance: Random) -> bytes:
    """Change a field or, half the time, what a recording or a golden says in one."""
    parts = _apart(content)
    fields, payload = dict(parts.fields), dict(parts.payload)
    if "facts" in payload and chance.random() < 0.8:
        payload["facts"] = json.dumps(tweaked(json.loads(payload["facts"]), chance)).encode()
        table = {**parts.table, "facts": {**parts.table["facts"], "shape": [len(payload["facts"])]}}
        return _together(replace(parts, table=table, payload=payload))
    name = chance.choice((*("identity", "scalars", "scalars") * 4, "kind", "version", "algorithm"))
    fields[name] = tweaked(fields.get(name), chance)
    if chance.random() < 0.1:  # back to SHA-256, or without a field that all have
        fields.pop(name)
    return _together(replace(parts, fields=fields))


def _unsealed(content: bytes, chance: Random) -> bytes:
    """Change a field and leave the seal as it was, or spell it otherwise."""
    parts = _apart(content)
    return _together(replace(parts, fields=tweaked(parts.fields, chance)), vouched=False)


def _payload(content: bytes, chance: Random) -> bytes:
    """Change a tensor, its bytes, its shape or its dtype, or drop or double it, under digests that fit."""
    parts = _apart(content)
    name = chance.choice(list(parts.table))
    entry, raw = dict(parts.table[name]), parts.payload[name]
    table, payload = dict(parts.table), dict(parts.payload)
    match chance.randrange(6):
        case 0:
            del table[name]
        case 1:
            payload["other"], table["other"] = raw, entry
        case 2:
            entry["shape"] = chance.choice(([len(raw) // ITEMSIZE[entry["dtype"]]], [1, *entry["shape"]], [0], []))
            table[name] = entry
        case 3:
            entry["dtype"] = chance.choice([word for word in ITEMSIZE if ITEMSIZE[word] == ITEMSIZE[entry["dtype"]]])
            table[name] = entry
        case 4:
            other = chance.choice(list(parts.table))
            table[name], payload[name] = parts.table[other], parts.payload[other]
        case _:
            width = ITEMSIZE[entry["dtype"]]
            place = chance.randrange(max(1, len(raw) // width)) * width
            odd = chance.choice((b"\0" * width, b"\xff" * width, chance.randbytes(width), b"\x7f" * width))
            payload[name] = raw[:place] + odd + raw[place + width :]
    kept = {one: payload[one] for one in table}
    sized = {
        one: kept[one][: ITEMSIZE[table[one]["dtype"]] * math.prod(table[one]["shape"])].ljust(
            min(1 << 16, ITEMSIZE[table[one]["dtype"]] * math.prod(table[one]["shape"])), b"\0"
        )
        for one in table
    }
    return _together(replace(parts, table=table, payload=sized))


def _table(content: bytes, chance: Random) -> bytes:
    """Change the table of tensors: an overlap, a gap, a shape that overflows, a dtype nobody knows."""
    base = LENGTH + int.from_bytes(content[:LENGTH], "little")
    table = json.loads(content[LENGTH:base])
    return framed(tweaked(table, chance)) + content[base:]


def _region(content: bytes, chance: Random) -> bytes:
    """Damage one place of one region, as a script may ask for."""
    return chance.choice(list(variants(content, chance.choice(list(Region))))).content
