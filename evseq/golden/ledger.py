"""Ledger: which goldens were adopted, when and why. Each entry is chained to the one before it."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from evseq.cache.canonical import canonical
from evseq.cache.damage import Damage, NotThere
from evseq.cache.opening import whole
from evseq.cache.replacing import replacing
from evseq.errors import EvseqError
from evseq.golden.lock import locked
from evseq.golden.root import DIGITS, NameRefused, named
from evseq.golden.terms import Limits, Relation
from evseq.script.compose import events

__all__ = ["Action", "Entry", "Figures", "Ledger", "LedgerError", "append"]

HEADER = "# Goldens of this model that a person accepted. Written by `evseq golden`, only ever at the end.\n"

HELP = "take the file back from version control; entries are only added, by `evseq golden accept` and `prune`"

MAX_BYTES = 16 << 20
"""Most bytes of a ledger: some ten thousand decisions about one model."""

MAX_DEPTH = 4
"""Entries, their fields, drift by script, its figures."""

WIDTH = 120
"""Columns after which a long reason is folded."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # without libyaml: the same, slower
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class LedgerError(EvseqError):
    """A ledger is not what was written. Nothing it vouches for can be relied on until it is taken back.

    `place` is the file, and the line where there is one.
    """

    def __init__(self, place: str, evidence: str, help: str = HELP) -> None:
        super().__init__(place, evidence, help)
        self.place = place
        self.evidence = evidence
        self.help = help

    def __str__(self) -> str:
        return f"{self.place}: {self.evidence}\n  help: {self.help}"


class Action(StrEnum):
    """What was done with goldens."""

    ACCEPTED = "accepted"
    PRUNED = "pruned"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _named(name: str) -> str:
    """Return a name. Raises ValueError for one that would lead elsewhere."""
    try:
        return named(name, what="name")
    except NameRefused as error:
        raise ValueError(str(error).partition("\n")[0]) from None


Name = Annotated[str, AfterValidator(_named)]


class Figures(_Part):
    """How far a golden is from the one before.

    The largest share of an allowance, the largest divergence in nats, and how many next tokens are others.
    """

    share: float
    kl: float
    flips: int


class Entry(_Part):
    """One decision about goldens of one revision.

    `parent` is the revision that a person named, else the other one that `drift` is against; without one it is against
    the goldens replaced. `drift` has the scripts that had an accepted golden there. `weights` is the digest of
    `weights.source`, `scripts` has the seal of each golden, None where it was pruned. `commit`, `libraries` and
    `processor` are those that produced the logits. `entry` chains the content to the entry before.
    """

    revision: Name
    date: dt.date
    reason: str
    action: Action
    parent: Name | None = None
    relation: Relation | None = None
    limits: Limits | None = None
    weights: str | None
    scripts: dict[Name, str | None]
    commit: str | None = None
    libraries: dict[str, str] = {}
    processor: str | None = None
    drift: dict[Name, Figures] | None = None
    entry: str = ""


@dataclass(frozen=True, kw_only=True)  # no slots: the index is kept
class Ledger:
    """All entries of one model, the oldest first."""

    entries: tuple[Entry, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and verify a ledger; there is nothing in one that is not there. Raises LedgerError."""
        return cls(entries=_parsed(path, _bytes(path)))

    @cached_property
    def revisions(self) -> Mapping[str, Mapping[str, Entry]]:
        """By revision, the oldest first, the latest entry about each script, those pruned since left out."""
        found: dict[str, dict[str, Entry]] = {}
        for entry in self.entries:
            words = found.setdefault(entry.revision, {})
            for script, seal in entry.scripts.items():
                words.pop(script, None)
                if seal is not None:
                    words[script] = entry
        return found

    def words(self, revision: str) -> Mapping[str, Entry]:
        """Return the latest entry about each script accepted at a revision, those pruned since left out."""
        return self.revisions.get(revision, {})

    def seal(self, revision: str, script: str) -> str | None:
        """Return the seal of the golden that was accepted last; None where there is none, or it was pruned."""
        entry = self.words(revision).get(script)
        return None if entry is None else entry.scripts[script]

    def labels(self, weights: str) -> tuple[str, ...]:
        """Return the revisions that have accepted goldens of these weights, the newest last."""
        newest_first = dict.fromkeys(entry.revision for entry in reversed(self.entries))
        known = [label for label in newest_first if any(e.weights == weights for e in self.words(label).values())]
        return tuple(reversed(known))

    def latest_revision(self, *, other_than: str) -> str | None:
        """Return the revision, other than one, that has goldens and was accepted last."""
        revisions = [entry.revision for entry in reversed(self.entries) if entry.action is Action.ACCEPTED]
        return next((label for label in revisions if label != other_than and self.words(label)), None)


def append(path: Path, entry: Entry) -> Entry:
    """Add an entry and return it chained; what stands in the file stays as it is, comments included.

    Any number of writers may append at once. Raises LedgerError for a ledger that is not sound, before or after.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.parent):
        old = _bytes(path)
        entries = _parsed(path, old)
        chained = entry.model_copy(update={"entry": _link(entries, entry)})
        new = (old if old.strip() else HEADER.encode()).rstrip() + b"\n" + _text(chained).encode()
        _parsed(path, new)  # never write what cannot be read again
        with replacing(path) as file:
            file.write(new)
    return chained


def _bytes(path: Path) -> bytes:
    try:
        return whole(path, most=MAX_BYTES)
    except NotThere:
        return b""
    except Damage as error:
        raise LedgerError(str(path), error.evidence, error.help) from None


def _parsed(path: Path, text: bytes) -> tuple[Entry, ...]:
    loader = None
    try:
        _refuse_unwritten(path, text)
        loader = _Loader(text)
        node = loader.get_single_node()
        _refuse_twice(path, node)
        data = [] if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise LedgerError(f"{path}:{line}", f"no YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError) as error:  # bytes that are no text, a date that is none
        raise LedgerError(f"{path}:1", f"no YAML: {' '.join(str(error).split())}") from None
    finally:
        if loader is not None:
            loader.dispose()
    if not isinstance(data, list):
        raise LedgerError(f"{path}:1", "not a list of entries")
    entries: list[Entry] = []
    for place, raw in enumerate(data):
        where = f"{path}:{node.value[place].start_mark.line + 1}"
        entries.append(_verified(where, raw, entries))
    return tuple(entries)


def _refuse_unwritten(path: Path, text: bytes) -> None:
    """Raise LedgerError for depth and references, before anything is built of them: some lines of either fill a memory.

    Raises YAMLError for what is no YAML.
    """
    depth = 0
    for event in events(text.decode()):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        line = f"{path}:{event.start_mark.line + 1}" if event.start_mark else str(path)
        if depth > MAX_DEPTH:
            raise LedgerError(line, f"nested more than {MAX_DEPTH} deep")
        if anchor := getattr(event, "anchor", None):
            raise LedgerError(line, f"a reference, {anchor[:DIGITS]!r}: no ledger has one")


def _refuse_twice(path: Path, node: yaml.Node | None) -> None:
    """Raise LedgerError for a key that a mapping has twice: of two values a reader sees the first, YAML the last."""
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise LedgerError(f"{path}:{key.start_mark.line + 1}", "a key that is no word")
            if key.value in seen:
                raise LedgerError(f"{path}:{key.start_mark.line + 1}", f"the key {key.value!r} is said twice")
            seen.add(key.value)
            _refuse_twice(path, value)
    elif isinstance(node, yaml.SequenceNode):
        for part in node.value:
            _refuse_twice(path, part)


def _verified(where: str, raw: object, before: list[Entry]) -> Entry:
    try:
        entry = Entry.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "entry"
        raise LedgerError(where, f"{key}: {first['msg'].lower()}") from None
    if lost := [name for name in Entry.model_fields if name not in entry.model_fields_set]:
        raise LedgerError(where, f"{lost[0]}: field required")
    try:
        link = _link(before, entry)
    except ValueError as error:  # a number or a text that was never written
        raise LedgerError(where, str(error)) from None
    if entry.entry != link:
        raise LedgerError(
            where,
            f"revision {entry.revision!r} of {entry.date}: a line of this entry was edited, or entries before it were "
            f"removed or reordered: its chain is {link[:DIGITS]}, recorded {entry.entry[:DIGITS]}",
        )
    return entry


def _link(before: list[Entry] | tuple[Entry, ...], entry: Entry) -> str:
    previous = before[-1].entry if before else ""
    content = entry.model_dump(mode="json", exclude={"entry"})
    return hashlib.sha256(canonical([previous, content], place="ledger entry")).hexdigest()


def _text(entry: Entry) -> str:
    # A date that is one is not quoted.
    data = entry.model_dump(mode="json") | {"date": entry.date}
    text: str = yaml.dump([data], Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return text
