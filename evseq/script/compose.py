"""Compose: YAML events to plain data with marks, noting all that the strict subset leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from evseq.script.scalar import RefusedScalarError, resolve
from evseq.script.syntax import MAX_NOTES, MORE, Note, explain

__all__ = ["MAX_DEPTH", "Composition", "Keys", "Mark", "UnreadableError", "Value", "compose", "events"]

MAX_DEPTH = 32
"""The language needs seven levels."""

try:
    from yaml._yaml import CParser as _Parser
except ImportError:  # PyYAML built without libyaml: the same events, twenty times slower
    from yaml import SafeLoader as _Parser  # type: ignore[assignment]

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]
"""Plain data."""

Keys = tuple[str | int, ...]
"""The way from the whole script to a part of it: keys of mappings and indices of lists."""


class Mark(NamedTuple):
    """Where a value begins, and where its key does; all count from 1."""

    line: int
    column: int
    key_line: int
    key_column: int


class UnreadableError(Exception):
    """The text cannot be read on from here; `notes` say why, and what was wrong before."""

    def __init__(self, notes: Sequence[Note]) -> None:
        super().__init__()
        self.notes = tuple(notes)


@dataclass(slots=True)
class Composition:
    """Data, the place of each part, what is wrong, and the parts concerned."""

    data: Value = None
    marks: dict[Keys, Mark] = field(default_factory=lambda: {(): Mark(1, 1, 1, 1)})
    notes: list[Note] = field(default_factory=list)
    refused: set[Keys] = field(default_factory=set)


def compose(lines: tuple[str, ...]) -> Composition:
    """Read one document. Raises UnreadableError for what is no YAML, nested too deep, or more than one document."""
    composer = _Composer(lines)
    composer.tabs()
    composer.run()
    return composer.result


@dataclass(slots=True)
class _Open:
    """A list or mapping not yet closed. `key` waits for its value; None where a key comes next."""

    node: Any
    path: Keys
    key: str | None = None
    key_mark: tuple[int, int] = (1, 1)


class _Composer:
    """A stack of open collections; no recursion, so that no nesting overflows."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        self.lines = lines
        self.result = Composition()
        self.open: list[_Open] = []
        self.documents = 0

    @property
    def key_due(self) -> bool:
        """Whether the next node is the key of a mapping."""
        return bool(self.open) and self.open[-1].key is None and isinstance(self.open[-1].node, dict)

    def tabs(self) -> None:
        """Note the first tab of every line."""
        for number, line in enumerate(self.lines, start=1):
            if "\t" in line:
                self.note(
                    (number, line.index("\t") + 1),
                    "a tab is not allowed",
                    "use spaces; in double quotes a tab is written \\t",
                )

    def run(self) -> None:
        """Read the events, tabs taken for single spaces so that what follows them is still read."""
        tabs = bool(self.result.notes)
        text = "\n".join(self.lines).replace("\t", " ")
        try:
            for event in events(text):
                self.take(event)
        except yaml.MarkedYAMLError as error:
            if not tabs:  # otherwise the tab is the likely cause
                self.result.notes.append(explain(error, self.lines))
            raise UnreadableError(self.result.notes) from None

    def take(self, event: yaml.Event) -> None:
        """Take one event."""
        match event:
            case yaml.ScalarEvent():
                self.scalar(event)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self.enter(event)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self.open.pop()
            case yaml.AliasEvent():
                self.alias(event)
            case yaml.DocumentStartEvent():
                self.document(event)
            case _:  # the ends of documents, and the stream itself
                pass

    def document(self, event: yaml.DocumentStartEvent) -> None:
        """Refuse directives and a second document."""
        if event.version or event.tags:
            self.note((1, 1), "a % directive is not allowed", "delete it")
        self.documents += 1
        if self.documents > 1:
            self.stop(_begin(event), "a second document begins here", "put one script in one file")

    def alias(self, event: yaml.AliasEvent) -> None:
        """Refuse an alias."""
        place = _begin(event)
        self.note(place, f"alias *{event.anchor} is not allowed", "write the value out")
        if self.key_due:
            raise UnreadableError(self.result.notes)
        self.attach(None, place, refused=True)

    def scalar(self, event: yaml.ScalarEvent) -> None:
        """Take a scalar: a key where one is due, otherwise a value."""
        place = _begin(event)
        value: Value = event.value
        refused = self.decorated(event)
        if event.implicit[0]:
            try:
                value = resolve(event.value)
            except RefusedScalarError as error:
                self.note(place, str(error), error.advice)
                refused = True
        elif not event.value.isascii() and any("\ud800" <= character <= "\udfff" for character in event.value):
            self.stop(place, "half a character", "write characters beyond U+FFFF as they are, or as \\U and 8 digits")
        if self.key_due:
            self.key(event.value, place, plain=event.implicit[0], word=isinstance(value, str), refused=refused)
        else:
            self.attach(value, place, refused=refused)

    def key(self, key: str, place: tuple[int, int], *, plain: bool, word: bool, refused: bool) -> None:
        """Take the key of a mapping."""
        parent = self.open[-1]
        parent.key, parent.key_mark = key, place
        path = (*parent.path, key)
        if key == "<<" and plain:
            self.note(place, "a merge (<<) is not allowed", "write the keys out")
            refused = True
        elif not word and not refused:
            self.note(place, f"the key {key} is not a word" if key else "a ':' without a key", "begin it with a letter")
            refused = True
        elif key in parent.node:
            first = self.result.marks[path].key_line
            self.note(place, f"key {key!r} is written twice, first in line {first}", "keep one of the two")
        if refused:
            self.result.refused.add(path)

    def enter(self, event: yaml.SequenceStartEvent | yaml.MappingStartEvent) -> None:
        """Begin a list or mapping."""
        place = _begin(event)
        if len(self.open) == MAX_DEPTH:
            self.stop(place, f"nested more than {MAX_DEPTH} deep", "a script needs no more than a few levels")
        if self.key_due:
            self.stop(place, "a list or mapping where a key is due", "quote a text that holds brackets")
        node: list[Value] | dict[str, Value] = [] if isinstance(event, yaml.SequenceStartEvent) else {}
        path = self.attach(node, place, refused=self.decorated(event))
        self.open.append(_Open(node, path))

    def attach(self, value: Value, place: tuple[int, int], *, refused: bool) -> Keys:
        """Put a value where it belongs and mark its place; of two equal keys the first stands."""
        path: Keys = ()
        if not self.open:
            self.result.data = value
            self.result.marks[path] = Mark(*place, *place)
        elif isinstance(node := self.open[-1].node, list):
            path = (*self.open[-1].path, len(node))
            node.append(value)
            self.result.marks.setdefault(path, Mark(*place, *place))
        else:
            parent = self.open[-1]
            assert parent.key is not None
            path = (*parent.path, parent.key)
            node.setdefault(parent.key, value)
            self.result.marks.setdefault(path, Mark(*place, *parent.key_mark))
            parent.key = None
        if refused:
            self.result.refused.add(path)
        return path

    def decorated(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> bool:
        """Refuse an anchor or a tag; return whether there was one."""
        if event.anchor is not None:
            self.note(
                _begin(event),
                f"anchor &{event.anchor} is not allowed",
                "delete it, and write values out where they are meant",
            )
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self.note(_begin(event), f"tag {tag} is not allowed", "delete it; quotes make a text of a number")
        return event.anchor is not None or event.tag is not None

    def note(self, place: tuple[int, int], message: str, advice: str) -> None:
        """Note something that leaves the rest readable, unless there is too much of it."""
        if len(self.result.notes) == MAX_NOTES:
            self.result.notes.append(Note(*place, *MORE))
            raise UnreadableError(self.result.notes)
        self.result.notes.append(Note(*place, message, advice))

    def stop(self, place: tuple[int, int], message: str, advice: str) -> None:
        """Give up."""
        self.note(place, message, advice)
        raise UnreadableError(self.result.notes)


def events(text: str) -> Iterator[yaml.Event]:
    """Yield the parser events of `text`. Raises MarkedYAMLError where it is no YAML."""
    parser = _Parser(text)
    try:
        while (event := parser.get_event()) is not None:
            yield event
    finally:
        parser.dispose()


def _begin(event: yaml.Event) -> tuple[int, int]:
    assert event.start_mark is not None
    return event.start_mark.line + 1, event.start_mark.column + 1
