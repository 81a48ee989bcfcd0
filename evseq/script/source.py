"""Source: the text of a script as plain data, with line and column of every key and value."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evseq.errors import Place, Problem, ScriptError, UsageError
from evseq.script.compose import MAX_DEPTH, Keys, Mark, UnreadableError, Value, compose
from evseq.script.syntax import Note

__all__ = ["MAX_BYTES", "MAX_DEPTH", "NOWHERE", "Keys", "Mark", "Source", "Value", "excerpt", "parse_yaml", "read"]

MAX_BYTES = 1 << 20
"""A script holds a few kilobytes; what is longer is a mistake or an attack."""

_WIDEST = 110  # columns of an excerpt

# What YAML calls printable, less the tab and the line breaks that editors do not count as such.
_UNPRINTABLE = re.compile("[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A script's text, its data, and where each part of the data stands.

    `problems` are those that leave the rest readable (a duplicate key, an anchor, a date): `parse` raises them together
    with its own, so that an author sees all at once. `refused` are the parts they concern.
    """

    file: str
    text: str
    data: Value
    marks: Mapping[Keys, Mark]
    problems: tuple[Problem, ...] = ()
    refused: frozenset[Keys] = frozenset()
    lines: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines", tuple(self.text.split("\n")))

    def written(self, path: Keys) -> Keys:
        """Return `path` as it stands in the file, without the parts that a short form leaves out."""
        here: Keys = ()
        for part in path:
            if (*here, part) in self.marks:
                here = (*here, part)
        return here

    def place(self, path: Keys, *, key: bool = False) -> Place:
        """Return where the value at `path` begins, or its key; of what is left out, the nearest that is there."""
        here = self.written(path)
        mark = self.marks[here]
        if key and here[-1:] == path[-1:]:
            return Place(file=self.file, line=mark.key_line, column=mark.key_column)
        return Place(file=self.file, line=mark.line, column=mark.column)

    def excerpt(self, place: Place) -> str:
        """Return the line of `place` behind `>`, under the line before it."""
        return excerpt(self.lines, place)


NOWHERE = Source(file="<script>", text="", data=None, marks={(): Mark(1, 1, 1, 1)})
"""The source of a script that was made, not read."""


def read(path: str | os.PathLike[str]) -> Source:
    """Read a script file. Raises UsageError where there is none, ScriptError where its text cannot be read on."""
    file = os.fspath(path)
    if _UNPRINTABLE.search(file):  # bytes that are no UTF-8 among them: reports and recordings could not name it
        raise UsageError(f"{file!r}: has a name that cannot be written\n  help: rename it, or its folder")
    try:
        about = Path(file).stat()
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):  # a pipe is waited for, a device goes on
            raise UsageError(f"{file}: cannot be read: not a regular file\n  help: name a *.evseq.yaml file")
        with Path(file).open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
            size = os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}\n  help: name a *.evseq.yaml file") from None
    if len(raw) > MAX_BYTES:
        raise _too_long(file, f"{size} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = _end(raw[: error.start].decode("utf-8-sig"))
        note = Note(*before, f"byte 0x{raw[error.start]:02x} is not UTF-8", "save the file as UTF-8")
        raise _errors(file, _lines(raw.decode("utf-8-sig", errors="replace")), [note]) from None
    return parse_yaml(text, file=file)


def parse_yaml(text: str, *, file: str) -> Source:
    """Read `text` as one YAML document of the strict subset.

    Raises ScriptError, with everything found so far, where the text cannot be read on: too long, too deep, no text, no
    YAML. What leaves the rest readable stands in the source's `problems`.
    """
    if len(text) > MAX_BYTES:
        raise _too_long(file, f"{len(text)} characters")
    lines = _lines(text)
    text = "\n".join(lines)
    if found := _UNPRINTABLE.search(text):
        code = ord(found[0])
        escape = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004 - one byte
        advice = f"delete it; in double quotes it is written {escape}"
        raise _errors(file, lines, [Note(*_end(text[: found.start()]), f"unprintable character U+{code:04X}", advice)])
    try:
        composed = compose(lines)
    except UnreadableError as error:
        raise _errors(file, lines, error.notes) from None
    return Source(
        file=file,
        text=text,
        data=composed.data,
        marks=composed.marks,
        problems=_errors(file, lines, composed.notes).problems,
        refused=frozenset(composed.refused),
    )


def _too_long(file: str, size: str) -> ScriptError:
    advice = "move long texts into files beside the script: `rows: {a: {file: NAME}}`"
    return _errors(file, (), [Note(1, 1, f"the script has {size}, at most {MAX_BYTES} are read", advice)])


def _errors(file: str, lines: tuple[str, ...], notes: Iterable[Note]) -> ScriptError:
    places = [(note, Place(file=file, line=note.line, column=note.column)) for note in notes]
    return ScriptError(
        Problem(place=place, message=note.message, help=note.advice, excerpt=excerpt(lines, place))
        for note, place in places
    )


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))


def _end(text: str) -> tuple[int, int]:
    """Return line and column, from 1, of what follows `text`."""
    lines = _lines(text)
    return len(lines), len(lines[-1]) + 1


def excerpt(lines: tuple[str, ...], place: Place) -> str:
    """Return the line of `place` behind `>`, under the line before it; nothing where there is no such line."""
    if place.line > len(lines) or not any(lines):
        return ""
    width = len(str(place.line))
    above = [f"  {place.line - 1:>{width}} | {_shown(lines[place.line - 2], place.column)}"] if place.line > 1 else []
    shown = [*above, f"> {place.line} | {_shown(lines[place.line - 1], place.column)}"]
    return "\n".join(line.rstrip() for line in shown)


def _shown(line: str, column: int) -> str:
    """Return the part of `line` around `column` that fits a terminal, with nothing in it that a terminal obeys."""
    start = max(0, column - _WIDEST // 2) if len(line) > _WIDEST else 0
    part = line[start : start + _WIDEST]
    before, after = "..." if start else "", "..." if len(line) > start + _WIDEST else ""
    return before + "".join(c if c.isprintable() else "→" if c == "\t" else "?" for c in part) + after
