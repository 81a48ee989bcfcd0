"""Acceptance: candidates become goldens, by a person and for a reason, or are thrown away."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import groupby

from pydantic import ValidationError

from evseq.cache.damage import NotWritable
from evseq.cache.header import inspect_header
from evseq.errors import CacheError
from evseq.golden.candidate import Candidate, load, remove
from evseq.golden.drift import Drift, drift
from evseq.golden.golden import Golden, read
from evseq.golden.ledger import Action, Entry, Figures, Ledger, append
from evseq.golden.lock import locked
from evseq.golden.refusals import Refused, alone, by_a_person, hint, one_model, present, sound, waiting
from evseq.golden.relation import Limits, Relation, exceeded
from evseq.golden.root import Place, Root

__all__ = ["Refused", "accept", "chosen", "reject"]

DIGITS = 3
"""Significant digits of a figure in a ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """A candidate, and its drift against the golden before it: of `parent`, where that is another revision."""

    place: Place
    candidate: Candidate
    golden: Golden
    parent: str | None = None
    drift: Drift | None = None


def accept(
    root: Root,
    places: Sequence[Place],
    *,
    reason: str,
    parent: str | None = None,
    relation: Relation | None = None,
    limits: Limits | None = None,
    environment: Mapping[str, str],
    today: dt.date,
) -> tuple[Entry, ...]:
    """Move candidates to goldens and say so in the ledger; return its new entries, one a revision and origin.

    Raises Refused, CacheError or LedgerError before anything moves. A process killed later leaves goldens that no run
    takes, and the same call finishes its work.
    """
    by_a_person(environment, reason)
    if relation is not None and parent is None:
        raise Refused(f"relation {relation}, but to what?\n  help: name a revision: --parent REVISION")
    if limits is not None and relation is not Relation.APPROXIMATED:
        raise Refused("limits, but of no approximation\n  help: leave them out, or say --relation approximated")
    present(root, places)
    alone(root)
    with locked(root.folder):
        ledgers = {place.model: Ledger.read(root.ledger(place.model)) for place in places}
        for model, ledger in ledgers.items():
            _known(root, model, ledger, parent)
        ready = [_loaded(root, place) for place in sorted(set(places)) if not _finished(root, place, ledgers)]
        for one in ready:
            sound(root.candidate(one.place), one.candidate, one.golden)
        for model, ledger in ledgers.items():
            one_model(ledger, [one.candidate for one in ready if one.place.model == model])
        ready = [_measured(root, one, ledgers[one.place.model], parent) for one in ready]
        if relation is not None:
            _related(ready, relation, limits)
        entries = []
        for group in _groups(ready):
            ledger = ledgers[group[0].place.model]
            new = [one for one in group if ledger.seal(one.place.revision, one.place.script) != one.golden.seal]
            # The entry first. A process killed before the files have moved leaves candidates that are whole, beside
            # goldens that no run takes any more, since the ledger vouches for others. The other way round it would
            # leave goldens that nothing tells from forged ones.
            if new:
                entry = _entry(new, reason=reason, relation=relation, limits=limits, today=today)
                entries.append(append(root.ledger(group[0].place.model), entry))
            for one in group:
                _move(root, one.place)
    return tuple(entries)


def reject(root: Root, places: Sequence[Place]) -> tuple[Place, ...]:
    """Remove candidates, also halves of them, and return their places; goldens stay. Raises Refused for none."""
    present(root, places)
    with locked(root.folder):
        for place in places:
            remove(root, place)
    return tuple(places)


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


def _known(root: Root, model: str, ledger: Ledger, parent: str | None) -> None:
    revisions = [entry.revision for entry in ledger.entries]
    if parent is not None and parent not in revisions:
        advice = hint(parent, "revisions", revisions)
        raise Refused(f"{root.ledger(model)}: no revision {parent!r} was accepted\n  help: {advice}")


def _loaded(root: Root, place: Place) -> _Ready:
    candidate, golden = load(root, place)
    return _Ready(place=place, candidate=candidate, golden=golden)


def _finished(root: Root, place: Place, ledgers: Mapping[str, Ledger]) -> bool:
    """Sweep the sidecar that a killed process left of a candidate it had moved; tell whether that was all there is."""
    sidecar = root.sidecar(place)
    seal = ledgers[place.model].seal(place.revision, place.script)
    with contextlib.suppress(CacheError, OSError, ValidationError):  # what is wrong here, `load` says
        said = Candidate.model_validate_json(sidecar.read_bytes()).seal
        if not root.candidate(place).exists() and said == seal == inspect_header(root.golden(place)).seal:
            sidecar.unlink()
            return True
    return False


def _measured(root: Root, one: _Ready, ledger: Ledger, parent: str | None) -> _Ready:
    """Return a candidate with its drift: against the parent, else the golden it replaces, else the revision before."""
    revision = parent
    if revision is None and ledger.seal(one.place.revision, one.place.script) is not None:
        revision = one.place.revision
    if revision is None:
        revision = ledger.latest_revision(other_than=one.place.revision)
    before = None if revision is None else _accepted(root, ledger, replace(one.place, revision=revision))
    if before is None:
        return replace(one, parent=parent)
    named = parent is not None or revision != one.place.revision
    return replace(one, parent=revision if named else None, drift=drift(one.golden, before))


def _accepted(root: Root, ledger: Ledger, place: Place) -> Golden | None:
    """Return a golden that the ledger vouches for; None where there is none: a damaged one can be replaced."""
    try:
        golden = read(root.golden(place))
    except CacheError:
        return None
    return golden if golden.seal == ledger.seal(place.revision, place.script) else None


def _related(ready: Sequence[_Ready], relation: Relation, limits: Limits | None) -> None:
    """Raise Refused where a revision is not to its parent what was said."""
    for (model, revision), group in groupby(ready, key=lambda one: (one.place.model, one.place.revision)):
        drifts, layers = {}, 1
        for one in group:
            if one.drift is None:
                raise Refused(
                    f"{one.place}: revision {one.parent!r} has no accepted golden of this script to be compared with\n"
                    "  help: accept it apart, without --relation"
                )
            drifts[one.place.script] = one.drift
            layers = max(layers, one.golden.layers)
        if found := exceeded(relation, limits, drifts, layers=layers):
            raise Refused(
                f"{model}/{revision}: is not {relation}, as was said: {found}\n"
                "  help: mend what made the revision, or say what it really is to its parent: --relation"
            )


def _groups(ready: Sequence[_Ready]) -> list[list[_Ready]]:
    """Return what one entry each says: goldens of one revision, made in one place, compared with one revision."""
    groups: dict[tuple[object, ...], list[_Ready]] = {}
    for one in ready:
        made = one.candidate
        libraries = tuple(sorted(made.libraries.items()))
        origin = (one.place.model, one.place.revision, one.parent, made.commit, made.processor, libraries)
        groups.setdefault(origin, []).append(one)
    return list(groups.values())


def _entry(
    group: Sequence[_Ready], *, reason: str, relation: Relation | None, limits: Limits | None, today: dt.date
) -> Entry:
    made = group[0].candidate
    moved = {one.place.script: _figures(one.drift) for one in group if one.drift is not None}
    return Entry(
        revision=made.revision,
        date=today,
        reason=reason.strip(),
        action=Action.ACCEPTED,
        parent=group[0].parent,
        relation=relation,
        limits=limits,
        weights=made.weights,
        scripts={one.place.script: one.golden.seal for one in group},
        commit=made.commit,
        libraries=dict(sorted(made.libraries.items())),
        processor=made.processor,
        drift=moved or None,
    )


def _figures(moved: Drift) -> Figures:
    share, kl = (float(f"{number:.{DIGITS}g}") for number in (moved.share, moved.kl))
    return Figures(share=share, kl=kl, flips=len(moved.flips))


def _move(root: Root, place: Place) -> None:
    path = root.golden(place)
    try:
        root.candidate(place).replace(path)
        root.sidecar(place).unlink()
    except OSError as error:
        raise NotWritable(path, f"cannot be written: {error.strerror}") from error
