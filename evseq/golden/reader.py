"""Reader: an accepted golden, wherever its bytes lie: in the folder, in the cache, or in a store."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from evseq.cache.damage import Damage, FieldDamaged, NotThere, NotWritable
from evseq.cache.replacing import replacing
from evseq.golden.golden import Golden, read
from evseq.golden.outage import Altered, NotInStore, Outage
from evseq.golden.root import Place, Root
from evseq.golden.store import Store
from evseq.golden.transfer import download, upload

__all__ = ["Reader", "cached", "fetched", "published"]

SEAL = re.compile(r"[0-9a-f]{64}")
"""What a ledger says becomes a file's name, so it is looked at first."""

PART = re.compile(r"(?!\.)[^/\\\s?#*\[\]]+")
"""A part of a name; some of the marks left out mean more to fsspec than themselves."""


@dataclass(kw_only=True)
class Reader:
    """Reads accepted goldens of any root. A store that failed as a whole is not asked again: a run ends soon."""

    outage: Outage | None = None

    def read(self, root: Root, place: Place, seal: str | None) -> Golden:
        """Return the golden of a name, verified whole; in a store, the one that has this seal and no other.

        Raises CacheError, which is NotThere where nobody ever accepted one.
        """
        if root.store is None:
            return _here(root, place, seal)
        if seal is None:
            raise NotThere(root.golden(place), "no golden of this name was accepted")
        if there := cached(root.store, seal):
            return there
        if self.outage is not None:
            raise type(self.outage)(self.outage.path, self.outage.evidence)
        try:
            return fetched(root.store, place, seal)
        except Outage as outage:
            self.outage = outage
            raise


def _here(root: Root, place: Place, seal: str | None) -> Golden:
    """Return the golden of a name in the folder, whether it has the seal or not.

    A ledger's entry is the moment at which a candidate is a golden: where the process was stopped, or is about to,
    before the file has moved, it is read where it still lies.
    """
    found: list[Golden | Damage] = []
    for path in (root.golden(place), root.candidate(place), root.golden(place)):  # it may move between two looks
        try:
            golden = read(path)
        except Damage as damage:
            found.append(damage)
            continue
        if golden.seal == seal or (seal is None and not found):
            return golden
        found.append(golden)
    if isinstance(found[0], Damage):
        raise found[0]
    return found[0]


def cached(store: Store, seal: str) -> Golden | None:
    """Return the golden of a seal from the cache; None where it is not there, or no longer what it was."""
    path = _path(store, seal)
    try:
        golden = read(path)
    except Damage:
        return None
    if golden.seal != seal:
        return None
    with contextlib.suppress(OSError):  # what was used last is pruned last; a cache may be read only
        os.utime(path)
    return golden


def fetched(store: Store, place: Place, seal: str) -> Golden:
    """Return the golden of a seal from the store, also where it is in the cache, which has it afterwards.

    Raises NotInStore, Altered, an Outage, or NotWritable where the cache refuses.
    """
    path = _path(store, seal)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NotWritable(path.parent, f"cannot be written: {error.strerror or error}") from None
    with replacing(path) as file:
        arrived = Path(file.name)
        download(store, _name(place, seal), to=arrived)
        return _verified(arrived, address=store.address(_name(place, seal)), seal=seal)


def published(store: Store, place: Place, seal: str, file: Path) -> bool:
    """Have a golden's file in the store and return whether it had to be sent.

    Afterwards the store gave every byte of it back, and the cache has them. Raises what `fetched` does.
    """
    try:
        fetched(store, place, seal)
    except (NotInStore, Altered):
        upload(store, _name(place, seal), file=file)
        fetched(store, place, seal)
        return True
    return False


def _verified(path: Path, *, address: str, seal: str) -> Golden:
    """Return the golden that arrived under some name. Raises Altered where it is not the accepted one."""
    try:
        golden = read(path)
    except Damage as damage:
        raise Altered(address, f"is not the golden of seal {seal} that was accepted: {damage.evidence}") from None
    if golden.seal != seal:
        raise Altered(address, f"is not the golden that was accepted: its seal is {golden.seal}, accepted {seal}")
    return golden


def _path(store: Store, seal: str) -> Path:
    if not SEAL.fullmatch(seal):
        raise FieldDamaged(store.folder, f"{seal!r} in a ledger is no seal")
    return store.folder / f"{seal}.safetensors"


def _name(place: Place, seal: str) -> str:
    """Return an object's name, three levels deep whatever a ledger says."""
    for part in (place.model, place.revision, place.script):
        if not PART.fullmatch(part):
            raise FieldDamaged(str(place), f"{part!r} in a ledger is no name")
    return f"{place}.{seal}.safetensors"
