"""Plain scalars by the YAML 1.2 core rules, less the spellings that another reader takes for something else."""

from __future__ import annotations

import re

__all__ = ["RefusedScalarError", "resolve"]

_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMERIC = frozenset("+-.0123456789")
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_DIGITS = 18  # every such integer fits 64 bits
_LONGEST = 64  # nobody takes a longer word for a number, and the patterns below stay quick

_BASES = (
    (re.compile(r"[-+]?0[xX](?P<digits>[0-9a-fA-F]+)"), 16, "hexadecimal"),
    (re.compile(r"[-+]?0[oO](?P<digits>[0-7]+)"), 8, "octal"),
    (re.compile(r"[-+]?0[bB](?P<digits>[01]+)"), 2, "binary"),
)
_LEADING_ZERO = re.compile(r"[-+]?0(?P<digits>[0-9]+)")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?")
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_UNDERSCORED = re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?")


class RefusedScalarError(ValueError):
    """A plain scalar that YAML readers disagree about; `advice` says how to write what was meant."""

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


def resolve(text: str) -> bool | int | float | str | None:
    """Return what a plain scalar means.

    `yes`, `no`, `on` and `off` are words. Raises RefusedScalarError for octal, hexadecimal, binary and sexagesimal
    numbers, digits with underscores, dates, infinities, and integers too long for 64 bits.
    Source: YAML 1.2.2, section 10.3.2 (core schema); the types of YAML 1.1 for what is refused.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC:
        return text
    if _INT.fullmatch(text):
        if len(text) > _DIGITS:
            raise RefusedScalarError(f"{text[:_DIGITS]}... is a number of {len(text)} digits", f"use at most {_DIGITS}")
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if len(text) <= _LONGEST:
        _refuse_ambiguous(text)
    return text


def _refuse_ambiguous(text: str) -> None:
    sign = "-" if text[0] == "-" else ""
    quoted = f'"{text}"'
    for pattern, base, kind in _BASES:
        if found := pattern.fullmatch(text):
            raise RefusedScalarError(f"{text} is {kind}", f"write it in decimal: {sign}{int(found['digits'], base)}")
    if found := _LEADING_ZERO.fullmatch(text):
        plain = sign + (found["digits"].lstrip("0") or "0")
        advice = f"write {plain}, or quote the text: {quoted}"
        raise RefusedScalarError(f"{text} is octal to some readers, decimal to others", advice)
    for pattern, kind in ((_SEXAGESIMAL, "a number in base 60"), (_DATE, "a date")):
        if pattern.fullmatch(text):
            raise RefusedScalarError(f"{text} is {kind} to some readers, a text to others", f"quote the text: {quoted}")
    if _INFINITE.fullmatch(text):
        raise RefusedScalarError(f"{text} is not a finite number", f"write a number, or quote the text: {quoted}")
    if _UNDERSCORED.fullmatch(text):
        advice = f"write it without underscores and leading zeros, or quote the text: {quoted}"
        raise RefusedScalarError(f"{text} is not a plain decimal number", advice)
