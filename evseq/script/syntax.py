"""What a YAML parser found wrong, in the words of a person who writes scripts."""

from __future__ import annotations

from typing import NamedTuple

from yaml import MarkedYAMLError
from yaml.error import Mark

__all__ = ["MAX_NOTES", "MORE", "Note", "explain"]

MAX_NOTES = 100
"""Nobody reads more at once, and a hostile file has a million."""

MORE = ("more is wrong from here on", f"mend the {MAX_NOTES} problems that are told first")


class Note(NamedTuple):
    """Something wrong at a line and column, which count from 1, and what to do about it."""

    line: int
    column: int
    message: str
    advice: str


_BRACKETS = {"while parsing a flow sequence": ("[", "]"), "while parsing a flow mapping": ("{", "}")}

_KNOWN = (
    # a part of the parser's text, whether the place is where the construct began, what is wrong, what to do
    ("a tag", True, "! introduces a tag, and a script has none", "quote a text that begins with !"),
    (
        "escape",
        True,
        "an unknown escape in this text",
        r"in double quotes write \\ for a backslash, or use single quotes",
    ),
    (
        "mapping values are not allowed",
        False,
        "this ':' stands inside another value",
        "quote a text that holds ': '; give a key its own line, indented like its neighbours",
    ),
    (
        "sequence entries are not allowed",
        False,
        "a list cannot begin behind a key",
        "begin it on the next line, or write [a, b]",
    ),
    (
        "could not find expected ':'",
        True,
        "no ':' follows this key",
        "write `key: value`; indent the line if it belongs to the one above",
    ),
    ("nesting depth", False, "nested too deep", "a script needs no more than a few levels"),
    ("a block scalar", False, "a text cannot begin behind | or >", "begin it on the next line, indented"),
    ("an alias", True, "* introduces an alias, and a script has none", "quote a text that begins with *"),
    ("an anchor", True, "& introduces an anchor, and a script has none", "quote a text that begins with &"),
    ("expected node content", False, "a value is missing here", "write one, or quote the text"),
)


def explain(error: MarkedYAMLError, lines: tuple[str, ...]) -> Note:
    """Say where, what and how to go on.

    The two parsers of PyYAML word the same fault differently; only what their texts have in common is looked at.
    """
    said = f"{error.context or ''}: {error.problem or ''}".replace("expected the node", "expected node")
    at = _clamped(error.problem_mark or error.context_mark, lines)
    begun = _clamped(error.context_mark or error.problem_mark, lines)
    if (brackets := _BRACKETS.get(error.context or "")) is not None:
        opened, closed = brackets
        if _ended(error.problem_mark, lines):
            return Note(*begun, f"'{opened}' is never closed", f"close it with '{closed}'")
        message = f"neither ',' nor '{closed}' here, inside the '{opened}' of line {begun[0]}"
        return Note(*at, message, f"put ',' between two entries, or close the bracket with '{closed}'")
    if "quoted scalar" in said and "unexpected" in said:
        quote = lines[begun[0] - 1][begun[1] - 1]
        return Note(*begun, f"the text opened by {quote} is never closed", f"close it with {quote}")
    if "cannot start any token" in said:
        character = lines[at[0] - 1][at[1] - 1]
        return Note(*at, f"a value cannot begin with {character}", "put the text in quotes")
    for part, where_begun, message, advice in _KNOWN:
        if part in said:
            return Note(*(begun if where_begun else at), message, advice)
    if lines[at[0] - 1][: at[1] - 1].strip(" -"):
        advice = "quote the whole text, or begin a new line for what follows"
        return Note(*at, "nothing may follow the value that ends before this", advice)
    return Note(*at, "this line does not line up with those above", "indent it like its neighbours")


def _ended(mark: Mark | None, lines: tuple[str, ...]) -> bool:
    """Whether nothing but blanks and comments follows."""
    if mark is None or mark.line >= len(lines):
        return True
    rest = (lines[mark.line][mark.column :], *lines[mark.line + 1 :])
    return all(not line.strip() or line.lstrip().startswith("#") for line in rest)


def _clamped(mark: Mark | None, lines: tuple[str, ...]) -> tuple[int, int]:
    """Return line and column from 1; for the end of the file, the end of the last line that holds something."""
    if mark is None:
        return 1, 1
    line, column = mark.line, mark.column
    if line >= len(lines) or (column >= len(lines[line]) and line == len(lines) - 1):
        line = max((index for index, text in enumerate(lines) if text.strip()), default=0)
        column = len(lines[line])
    return line + 1, column + 1
