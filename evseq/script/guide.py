"""Guide: the events of the language in words, from the same classes that parse them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from evseq.errors import UsageError, nearest
from evseq.script.allowing import EXAMPLE, Allow
from evseq.script.events import EVENTS, LAST, NAME, WORD, Expect, Reused

__all__ = ["WORDS", "guide"]

_PARTS: dict[str, type[BaseModel]] = {"expect": Expect, "reused": Reused, "allow": Allow}
"""What stands inside events and has keys of its own."""

_PATTERNS = {WORD: "number", NAME: "name"}

WORDS = (*EVENTS, *_PARTS)
"""Everything the guide can tell."""

_NUMBERS = """\
A number is an integer, an arm, or [k*]word[+n] or [k*]word[-n] with word in window, chunk, capacity, length,
block, as in 2*window+1. A name begins with a letter or _ and goes on with letters, digits and _ . -"""


def guide(words: Sequence[str] = WORDS) -> str:
    """Tell what each of `words` does and which keys it takes. Raises UsageError for a word nobody knows."""
    blocks = [_block(word) for word in words]
    return "\n\n".join([*blocks, _NUMBERS] if tuple(words) == WORDS else blocks)


def _block(word: str) -> str:
    kind = EVENTS.get(word) or _PARTS.get(word)
    if kind is None:
        close = nearest(word, WORDS)
        hint = f"did you mean {close!r}?" if close else f"known are {', '.join(WORDS)}"
        raise UsageError(f"events: no event {word!r}\n  help: {hint}")
    schema = kind.model_json_schema(by_alias=True)
    required = schema.get("required", [])
    keys = {key: _key(field, schema.get("$defs", {}), required=key in required) for key, field in _keys(schema)}
    width = max(map(len, keys))
    example = [f"  example: - {EVENTS[word].example}"] if word in EVENTS else []
    example += [f"  example: {EXAMPLE}"] if kind is Allow else []
    told = inspect.cleandoc(kind.__doc__ or "").splitlines()
    listed = [f"    {key:<{width}}  {told_key}" for key, told_key in keys.items()]
    return "\n".join([word, *(f"  {line}".rstrip() for line in told), *listed, *example])


def _keys(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the keys, what every event has last."""
    return sorted(schema["properties"].items(), key=lambda item: item[0] in LAST)


def _key(field: dict[str, Any], defs: dict[str, Any], *, required: bool) -> str:
    default = field.get("default")
    usual = " (required)" if required else f" ({default} if left out)" if isinstance(default, str) else ""
    meaning = f": {field['description']}" if "description" in field else ""
    return f"{_shape(field, defs)}{meaning}{usual}"


def _shape(schema: dict[str, Any], defs: dict[str, Any]) -> str:
    """Return what may be written, in the author's words."""
    match schema:
        case {"$ref": str(ref)}:
            return _shape(defs[ref.rsplit("/", 1)[-1]], defs)
        case {"anyOf": list(ways)} | {"oneOf": list(ways)}:
            return " or ".join(dict.fromkeys(_shape(way, defs) for way in ways if way != {"type": "null"}))
        case {"enum": list(words)}:
            return " or ".join(words)
        case {"const": str(word)}:
            return word
        case {"type": "string"}:
            return _PATTERNS.get(schema.get("pattern", ""), "text")
        case {"type": "number"}:
            return "number"
        case {"type": "integer"}:
            return "number" if "maximum" in schema else "token id"
        case {"type": "boolean"}:
            return "true or false"
        case {"type": "array", "items": dict(inner)}:
            return f"[{_shape(inner, defs)}, ...]"
        case {"additionalProperties": dict(inner)}:
            return f"{{name: {_shape(inner, defs)}, ...}}"
        case {"patternProperties": dict(inner)}:
            return f"{{name: {_shape(next(iter(inner.values())), defs)}, ...}}"
        case {"properties": dict(inner)}:
            return f"{{{', '.join(inner)}}}"
        case _:
            raise AssertionError(f"a key of a shape nobody has seen: {schema}")
