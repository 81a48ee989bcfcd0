"""Comments: an author's own words, kept where they stand when a script is brought into normal form."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import yaml

from evseq.errors import Place, Problem
from evseq.script.compose import Keys, events
from evseq.script.normal import WIDTH
from evseq.script.source import Source, parse_yaml

__all__ = ["Comment", "Margin", "comments", "lost_comments"]

_SECTIONS: tuple[Keys, ...] = (("rows",), ("arms",), ("events",))
_INSIDE: Keys = ("repeat", "events")
_HASH = re.compile(r"(?:^|(?<= ))#")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment and where it stands; line and column count from 1. `alone`: nothing else is on the line."""

    line: int
    column: int
    text: str
    alone: bool


@dataclass(slots=True)
class _Around:
    before: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


class Margin:
    """The comments of a script by the item they belong to: a top-level key, a row, an arm, an event.

    A comment on its own line belongs to the item below it, or to the item around it; one that is indented before a
    top-level key, to the item above.
    """

    def __init__(self, source: Source) -> None:
        self.head: list[str] = []
        self.around: dict[Keys, _Around] = {}
        items = _items(source)
        for comment in comments(source.text):
            self._attach(comment, items)

    def wrap(self, path: Keys, lines: list[str], *, indent: int) -> list[str]:
        """Return the lines of an item with its comments before, behind and after it."""
        around = self.around.pop(path, None)
        if around is None:
            return lines
        before, behind = around.before, around.behind
        if len(behind) == 1 and len(lines) == 1 and len(f"{lines[0]}  {behind[0]}") <= WIDTH:
            lines = [f"{lines[0]}  {behind[0]}"]
        else:
            before = [*before, *behind]
        margin = " " * indent
        return [*(margin + text for text in before), *lines, *(margin + text for text in around.after)]

    def rest(self) -> list[str]:
        """Return the comments no item has taken."""
        left = self.around.values()
        return [text for around in left for text in (*around.before, *around.behind, *around.after)]

    def _attach(self, comment: Comment, items: Sequence[tuple[int, int, Keys]]) -> None:
        above = [item for item in items if item[0] <= comment.line]
        below = [item for item in items if item[0] > comment.line]
        if not above:
            self.head.append(comment.text)
            return
        _, last, path = above[-1]
        around = self.around.setdefault
        if not comment.alone:
            around(path, _Around()).behind.append(comment.text)
        elif comment.line <= last:
            around(path, _Around()).before.append(comment.text)
        elif len(path) > 1 and comment.column > 1 and (not below or len(below[0][2]) == 1):
            around(path, _Around()).after.append(comment.text)
        else:
            around(below[0][2] if below else (), _Around()).before.append(comment.text)


def comments(text: str) -> tuple[Comment, ...]:
    """Return every comment of a readable YAML text."""
    opaque = [span for event in events(text) if isinstance(event, yaml.ScalarEvent) and (span := _span(event))]
    found: list[Comment] = []
    for number, line in enumerate(text.split("\n"), start=1):
        for match in _HASH.finditer(line):
            at = (number, match.start() + 1)
            if not any(begin <= at < end for begin, end in opaque):
                alone = not line[: match.start()].strip()
                found.append(Comment(line=number, column=at[1], text=line[match.start() :].rstrip(), alone=alone))
                break
    return tuple(found)


def lost_comments(source: Source, formatted: str) -> tuple[Problem, ...]:
    """Return a problem for every comment of `source` that `formatted` does not hold."""
    kept = Counter(comment.text for comment in comments(parse_yaml(formatted, file=source.file).text))
    lost: list[Problem] = []
    for comment in comments(source.text):
        if kept[comment.text] > 0:
            kept[comment.text] -= 1
        else:
            place = Place(file=source.file, line=comment.line, column=comment.column)
            advice = "move it to a line of its own above a row, an arm or an event"
            lost.append(
                Problem(place=place, message="this comment would be lost", help=advice, excerpt=source.excerpt(place))
            )
    return tuple(lost)


def _span(event: yaml.ScalarEvent) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return where a text may hold a # that begins no comment; behind | and > it begins on the next line."""
    assert event.start_mark is not None
    assert event.end_mark is not None
    end = (event.end_mark.line + 1, event.end_mark.column + 1)
    if event.style in ("|", ">"):
        return (event.start_mark.line + 2, 1), end
    if event.style in ("'", '"'):
        return (event.start_mark.line + 1, event.start_mark.column + 1), end
    return None


def _items(source: Source) -> list[tuple[int, int, Keys]]:
    """Return first line, last line and path of every item, in the order of the file."""
    first: dict[Keys, int] = {}
    last: dict[Keys, int] = {}
    for path, mark in source.marks.items():
        if not path:
            continue
        item = path[: _depth(path)]
        first[item] = min(first.get(item, mark.key_line), mark.key_line)
        # The value of a section, or of a repeat's events, begins where its first entry does: an item of its own.
        end = mark.key_line if path in _SECTIONS or path[-2:] == _INSIDE else mark.line
        last[item] = max(last.get(item, end), end)
    return sorted((first[item], last[item], item) for item in first)


def _depth(path: Keys) -> int:
    """Return how much of a path names its item: a top-level key, an entry of a section, an event inside a repeat."""
    depth = 2 if path[:1] in _SECTIONS and len(path) > 1 else 1
    while path[depth : depth + 2] == _INSIDE and len(path) > depth + 2:
        depth += 3
    return depth
