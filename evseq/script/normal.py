"""The normal form of plain data: flow style where it fits on a line, blocks where it does not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from evseq.script.compose import Value
from evseq.script.scalar import RefusedScalarError, resolve

__all__ = ["WIDTH", "flow", "item"]

WIDTH = 110
"""Columns of a line, where words allow."""

_SAFE_IN_FLOW = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./+*-]*(?:[ :=][A-Za-z0-9_.][A-Za-z0-9_./+*-]*)*")
_SPACE = re.compile(r"(?<=[^ ]) (?=[^ ])")  # where a line may end in double quotes and be read as it was
_STARTS = frozenset("-?:,[]{}#&*!|>'\"%@` ")  # what YAML gives a meaning at the start of a plain scalar
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def flow(value: Value) -> str:
    """Return `value` on one line, in flow style."""
    match value:
        case dict():
            return "{" + ", ".join(f"{_word(key)}: {flow(part)}" for key, part in value.items()) + "}"
        case list():
            return "[" + ", ".join(flow(part) for part in value) + "]"
        case str():
            return _word(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def item(head: str, value: Value, *, indent: int) -> list[str]:
    """Return the lines of `value` behind `head`, a key with its colon, or a list's dash and a key."""
    margin = " " * indent
    inner = indent + (4 if head.startswith("- ") else 2)
    text = flow(value) if not isinstance(value, str) else value if _plain(value) else _quoted(value)
    if not _has_lines(value) and len(f"{margin}{head} {text}") <= WIDTH:
        return [f"{margin}{head} {text}"]
    match value:
        case dict() if value:
            parts = [item(f"{_word(key)}:", part, indent=inner) for key, part in value.items()]
            return [margin + head, *(line for lines in parts for line in lines)]
        case list() if value:
            *first, last = (flow(part) for part in value)
            return _filled(f"{margin}{head} [", [*(f"{word}," for word in first), f"{last}]"], indent=inner)
        case str():
            return _text(f"{margin}{head}", value, indent=inner)
        case _:
            return [f"{margin}{head} {text}"]


def _text(head: str, text: str, *, indent: int) -> list[str]:
    margin = " " * indent
    if _has_lines(text):
        chomp = "" if text.endswith("\n") else "-"
        return [f"{head} |{chomp}", *(margin + line if line else "" for line in text.removesuffix("\n").split("\n"))]
    if _is_prose(text):
        return [f"{head} >-", *_filled(margin, text.split(" "), indent=indent)]
    return _filled(f"{head} ", _SPACE.split(_quoted(text)), indent=indent)


def _filled(head: str, words: Iterable[str], *, indent: int) -> list[str]:
    """Set words behind `head` and on as many further lines as they need."""
    lines: list[str] = []
    line, gap = head, ""
    for word in words:
        if gap and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line, gap = " " * indent, ""
        line, gap = f"{line}{gap}{word}", " "
    return [*lines, line]


def _has_lines(value: Value) -> bool:
    """Whether `value` holds a text that reads better as the lines it has."""
    if isinstance(value, dict):
        return any(_has_lines(part) for part in value.values())
    if not isinstance(value, str) or "\n" not in value:
        return False
    lines = value.removesuffix("\n").split("\n")
    return (
        bool(lines[0])
        and bool(lines[-1])
        and not lines[0].startswith(" ")
        and all(line.isprintable() and line == line.rstrip() and len(line) <= WIDTH - 10 for line in lines)
    )


def _is_prose(text: str) -> bool:
    return text.isprintable() and bool(text) and "  " not in text and text == text.strip()


def _word(text: str) -> str:
    return text if _SAFE_IN_FLOW.fullmatch(text) and _is_text(text) else _quoted(text)


def _plain(text: str) -> bool:
    """Whether `text` may stand without quotes behind a key, on one line."""
    return (
        _is_prose(text)
        and text[0] not in _STARTS
        and ": " not in text
        and " #" not in text
        and not text.endswith(":")
        and not text.startswith(("---", "..."))
        and _is_text(text)
    )


def _is_text(text: str) -> bool:
    """Whether `text` without quotes is read as a text."""
    try:
        return isinstance(resolve(text), str)
    except RefusedScalarError:
        return False


def _quoted(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _escape(ord(c))) for c in text) + '"'


def _escape(code: int) -> str:
    digits: Sequence[tuple[int, str]] = ((0x100, f"\\x{code:02x}"), (0x10000, f"\\u{code:04x}"))
    return next((text for limit, text in digits if code < limit), f"\\U{code:08x}")
