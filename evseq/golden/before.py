"""Before: the golden that a candidate is compared with, by one rule for who reviews it and who accepts it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evseq.errors import CacheError
from evseq.golden.golden import Golden, read
from evseq.golden.ledger import Ledger
from evseq.golden.refusals import Refused, hint
from evseq.golden.root import Place, Root

__all__ = ["Before", "adopted", "compared_with", "known", "vouched"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What a candidate is compared with; `golden` is None where the file is not the one that was accepted."""

    place: Place
    golden: Golden | None


def compared_with(root: Root, ledger: Ledger, place: Place, *, parent: str | None) -> Before | None:
    """Return the accepted golden before a candidate, None where the ledger has none.

    That of revision `parent`; where none is named, the golden it replaces, else that of the last other revision.
    Raises Refused for a parent that was never accepted.
    """
    known(root, place.model, ledger, parent)
    revision = parent
    if revision is None and ledger.seal(place.revision, place.script) is not None:
        revision = place.revision
    if revision is None:
        revision = ledger.latest_revision(other_than=place.revision)
    if revision is None or ledger.seal(revision, place.script) is None:
        return None
    there = replace(place, revision=revision)
    return Before(place=there, golden=vouched(root, ledger, there))


def vouched(root: Root, ledger: Ledger, place: Place) -> Golden | None:
    """Return a golden that the ledger vouches for; None where there is none, or another, or a damaged one."""
    try:
        golden = adopted(root, ledger, place)
    except CacheError:
        return None
    return golden if golden.seal == ledger.seal(place.revision, place.script) else None


def adopted(root: Root, ledger: Ledger, place: Place) -> Golden:
    """Return the golden of a place, whether the ledger vouches for it or not. Raises CacheError.

    The entry is the moment at which a candidate is a golden: where the process was stopped, or is about to, before the
    file has moved, it is read where it still lies.
    """
    seal = ledger.seal(place.revision, place.script)
    found: list[Golden | CacheError] = []
    for path in (root.golden(place), root.candidate(place), root.golden(place)):  # it may move between two looks
        try:
            golden = read(path)
        except CacheError as error:
            found.append(error)
            continue
        if golden.seal == seal or (seal is None and not found):
            return golden
        found.append(golden)
    if isinstance(found[0], CacheError):
        raise found[0]
    return found[0]


def known(root: Root, model: str, ledger: Ledger, parent: str | None) -> None:
    """Raise Refused for a parent that was never accepted."""
    if parent is not None and parent not in ledger.revisions:
        advice = hint(parent, "revisions", ledger.revisions)
        raise Refused(f"{root.ledger(model)}: no revision {parent!r} was accepted\n  help: {advice}")
