"""Before: the golden that a candidate is compared with, by one rule for who reviews it and who accepts it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evseq.errors import CacheError
from evseq.golden.golden import Golden
from evseq.golden.ledger import Ledger
from evseq.golden.outage import Outage
from evseq.golden.reader import Reader
from evseq.golden.refusals import Refused, hint
from evseq.golden.root import Place, Root

__all__ = ["Before", "compared_with", "known", "vouched"]


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
    """Return a golden that the ledger vouches for; None where there is none, or another, or a damaged one.

    Raises Outage for a store that does not say.
    """
    seal = ledger.seal(place.revision, place.script)
    try:
        golden = Reader().read(root, place, seal)
    except Outage:
        raise
    except CacheError:
        return None
    return golden if golden.seal == seal else None


def known(root: Root, model: str, ledger: Ledger, parent: str | None) -> None:
    """Raise Refused for a parent that was never accepted."""
    if parent is not None and parent not in ledger.revisions:
        advice = hint(parent, "revisions", ledger.revisions)
        raise Refused(f"{root.ledger(model)}: no revision {parent!r} was accepted\n  help: {advice}")
