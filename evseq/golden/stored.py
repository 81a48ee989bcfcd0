"""Stored: all accepted goldens of a root in a store, seen and moved at once; and the cache, told and pruned."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from evseq.cache.damage import Damage, NotWritable
from evseq.golden.golden import read
from evseq.golden.ledger import Ledger
from evseq.golden.outage import Altered, NotInStore, Outage
from evseq.golden.reader import cached, fetched, published
from evseq.golden.root import Place, Root
from evseq.golden.store import Store

__all__ = ["Entry", "Moved", "audited", "entries", "forget", "pinned", "pins", "pull", "push"]


class Moved(StrEnum):
    """What happened to one golden."""

    SENT = "sent"
    FETCHED = "fetched"
    THERE = "there already"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file of a cache; `used` in seconds since the epoch."""

    path: Path
    size: int
    used: float


def pins(root: Root) -> dict[Place, str]:
    """Return the seal of each golden that the ledgers of all models say is accepted. Raises LedgerError."""
    return dict(one for model in root.models() for one in pinned(model, Ledger.read(root.ledger(model))))


def pinned(model: str, ledger: Ledger) -> Iterator[tuple[Place, str]]:
    """Return each golden that a ledger says is accepted, with its seal."""
    for revision, words in ledger.revisions.items():
        for script in words:
            if seal := ledger.seal(revision, script):
                yield Place(model=model, revision=revision, script=script), seal


def audited(store: Store, seals: Mapping[Place, str]) -> tuple[tuple[Place, ...], tuple[Damage, ...]]:
    """Ask the store, past the cache, for every golden; return those it has, and what is wrong.

    A store that fails as a whole is told once, and not asked on.
    """
    fine, wrong = [], []
    for place, seal in sorted(seals.items()):
        try:
            fetched(store, place, seal)
            fine.append(place)
        except Damage as damage:
            wrong.append(damage)
            if isinstance(damage, Outage):
                break
    return tuple(fine), tuple(wrong)


def push(root: Root, store: Store) -> Iterator[tuple[Place, Moved | Damage]]:
    """Bring to the store what it lacks, or has another of, from the folder or the cache; say what happened to each.

    Raises an Outage where the store fails as a whole.
    """
    for place, seal in sorted(pins(root).items()):
        try:
            sent = _sent(root, store, place, seal)
        except (NotInStore, Altered) as damage:
            yield place, damage
        else:
            yield place, Moved.SENT if sent else Moved.THERE


def pull(root: Root, store: Store) -> Iterator[tuple[Place, Moved | Damage]]:
    """Bring to the cache what it lacks, so that runs need no store; say what happened to each. Raises as `push`."""
    for place, seal in sorted(pins(root).items()):
        if cached(store, seal):
            yield place, Moved.THERE
            continue
        try:
            fetched(store, place, seal)
        except (NotInStore, Altered) as damage:
            yield place, damage
        else:
            yield place, Moved.FETCHED


def entries(folder: Path) -> tuple[Entry, ...]:
    """Return what a cache of goldens holds, the longest unused first."""
    found = []
    for path in folder.glob("*.safetensors"):
        with contextlib.suppress(FileNotFoundError):  # another process prunes too
            facts = path.stat()
            found.append(Entry(path=path, size=facts.st_size, used=facts.st_mtime))
    return tuple(sorted(found, key=lambda entry: (entry.used, entry.path)))


def forget(held: Iterable[Entry]) -> None:
    """Delete files of a cache. Raises NotWritable where the system refuses."""
    for entry in held:
        try:
            entry.path.unlink(missing_ok=True)
        except OSError as error:
            raise NotWritable(entry.path, f"cannot be removed: {error.strerror or error}") from None


def _sent(root: Root, store: Store, place: Place, seal: str) -> bool:
    for path in (root.golden(place), store.folder / f"{seal}.safetensors"):
        if _holds(path, seal):
            return published(store, place, seal, path)
    fetched(store, place, seal)
    return False


def _holds(path: Path, seal: str) -> bool:
    """Tell whether a sound golden of this seal lies there."""
    try:
        return read(path).seal == seal
    except Damage:
        return False
