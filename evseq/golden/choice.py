"""Choice: the candidates that a person means by patterns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from evseq.golden.ledger import Ledger
from evseq.golden.refusals import Refused, hint, waiting
from evseq.golden.root import Place, Root

__all__ = ["chosen", "finished"]


def chosen(
    root: Root, *, scripts: Sequence[str] = (), model: str | None = None, revision: str | None = None
) -> tuple[Place, ...]:
    """Return the candidates that shell patterns choose, or all. Raises Refused for a pattern that chooses nothing."""
    found = waiting(root)
    for kind, patterns in (("model", [model]), ("revision", [revision]), ("script", scripts)):
        names = {place: str(getattr(place, kind)) for place in found}
        given = [pattern for pattern in patterns if pattern is not None]
        for pattern in given:
            if not any(fnmatchcase(name, pattern) for name in names.values()):
                advice = hint(pattern, f"{kind}s with candidates", names.values())
                raise Refused(f"no candidate of {kind} {pattern!r}\n  help: {advice}")
        if given:
            found = tuple(place for place in found if any(fnmatchcase(names[place], pattern) for pattern in given))
    return found


def finished(
    root: Root, scripts: Sequence[str], *, model: str | None = None, revision: str | None = None
) -> tuple[str, ...]:
    """Return those patterns that choose no candidate, but accepted goldens: an acceptance that stopped got so far.

    Raises LedgerError.
    """
    ledgers = {name: Ledger.read(root.ledger(name)) for name in root.models()}
    accepted = [
        Place(model=name, revision=label, script=script)
        for name, ledger in ledgers.items()
        for label, words in ledger.revisions.items()
        for script in words
    ]
    left, there = (_scripts(places, model, revision) for places in (root.candidates(), accepted))
    return tuple(name for name in scripts if not _any(left, name) and _any(there, name))


def _scripts(places: Iterable[Place], model: str | None, revision: str | None) -> set[str]:
    return {
        place.script
        for place in places
        if fnmatchcase(place.model, model or "*") and fnmatchcase(place.revision, revision or "*")
    }


def _any(names: Iterable[str], pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)
