"""Acceptance: candidates become goldens, by a person and for a reason, or are thrown away."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from evseq.cache.damage import NotWritable
from evseq.cache.header import inspect_header
from evseq.errors import CacheError
from evseq.golden.before import compared_with, vouched
from evseq.golden.candidate import Candidate, load, read_sidecar, remove, settle
from evseq.golden.drift import Drift, drift
from evseq.golden.golden import Golden
from evseq.golden.ledger import Action, Entry, Figures, Ledger, append
from evseq.golden.lock import locked
from evseq.golden.reader import published
from evseq.golden.refusals import Refused, alone, by_a_person, finite, limited, one_model, present, reasoned, sound
from evseq.golden.relation import exceeded
from evseq.golden.root import Place, Root
from evseq.golden.terms import Limits, Relation
from evseq.golden.witness import rounded

__all__ = ["Refused", "accept", "reject"]


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

    A `relation` holds for the whole revision: goldens of it that were accepted earlier are judged with the new ones.
    Where there is a store, it has them all, and gave them back, before the ledger says anything.
    Raises Refused, CacheError or LedgerError before anything moves; NotWritable also midway, where the system refuses a
    file. What stopped midway, or was killed, leaves goldens that no run takes; accepting the candidates that are left
    finishes its work.
    """
    by_a_person(environment)
    reasoned(reason)
    if relation is not None and parent is None:
        raise Refused(f"relation {relation}, but to what?\n  help: name a revision: --parent REVISION")
    limited(relation, limits=limits is not None)
    finite(limits)
    present(root, places)
    alone(root)
    with locked(root.folder):
        settle(root)
        ledgers = {place.model: Ledger.read(root.ledger(place.model)) for place in places}
        ready = [_loaded(root, place) for place in sorted(set(places)) if not _finished(root, place, ledgers)]
        for one in ready:
            sound(root.candidate(one.place), one.candidate, one.golden)
        for model, ledger in ledgers.items():
            one_model(ledger, [one.candidate for one in ready if one.place.model == model])
        ready = [_measured(root, one, ledgers[one.place.model], parent) for one in ready]
        if relation is not None and parent is not None:
            _related(root, ready, ledgers, relation=relation, limits=limits, parent=parent)
        if root.store is not None:
            for one in ready:
                published(root.store, one.place, one.golden.seal, root.candidate(one.place))
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
        settle(root)
        for place in places:
            remove(root, place)
    return tuple(places)


def _loaded(root: Root, place: Place) -> _Ready:
    candidate, golden = load(root, place)
    return _Ready(place=place, candidate=candidate, golden=golden)


def _finished(root: Root, place: Place, ledgers: Mapping[str, Ledger]) -> bool:
    """Sweep the sidecar that a killed process left of a candidate it had moved; tell whether that was all there is."""
    sidecar = root.sidecar(place)
    seal = ledgers[place.model].seal(place.revision, place.script)
    with contextlib.suppress(CacheError, OSError):  # what is wrong here, `load` says
        said = read_sidecar(sidecar).seal
        there = seal if root.store else inspect_header(root.golden(place)).seal
        if not root.candidate(place).exists() and said == seal == there:
            sidecar.unlink()
            return True
    return False


def _measured(root: Root, one: _Ready, ledger: Ledger, parent: str | None) -> _Ready:
    """Return a candidate with its drift, if it can be measured, and the revision that is from."""
    before = compared_with(root, ledger, one.place, parent=parent)
    if before is None or before.golden is None:
        return replace(one, parent=parent)
    other = None if before.place == one.place else before.place.revision
    return replace(one, parent=parent or other, drift=drift(one.golden, before.golden))


def _related(
    root: Root,
    ready: Sequence[_Ready],
    ledgers: Mapping[str, Ledger],
    *,
    relation: Relation,
    limits: Limits | None,
    parent: str,
) -> None:
    """Raise Refused where a revision, with what was accepted of it before, is not to its parent what was said."""
    for (model, revision), group in groupby(ready, key=lambda one: (one.place.model, one.place.revision)):
        drifts, layers = {}, 1
        for one in group:
            if one.drift is None:
                raise Refused(
                    f"{one.place}: revision {parent!r} has no accepted golden of this script to be compared with\n"
                    "  help: accept it apart, without --relation"
                )
            drifts[one.place.script] = one.drift
            layers = max(layers, one.golden.layers)
        for script in sorted(ledgers[model].words(revision).keys() - drifts.keys()):
            there = Place(model=model, revision=revision, script=script)
            before = compared_with(root, ledgers[model], there, parent=parent)
            if before is None:  # accepted apart
                continue
            now = vouched(root, ledgers[model], there)
            if now is None or before.golden is None:
                raise Refused(
                    f"{there if now is None else before.place}: its file is not the one that was accepted, so that "
                    f"{relation} cannot be judged over all scripts\n"
                    "  help: take it from version control, or accept its candidate too"
                )
            drifts[script] = drift(now, before.golden)
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
    return Figures(share=rounded(moved.share), kl=rounded(moved.kl), flips=len(moved.flips))


def _move(root: Root, place: Place) -> None:
    path = root.golden(place)
    try:
        if root.store is None:
            root.candidate(place).replace(path)
        else:
            root.candidate(place).unlink()
        root.sidecar(place).unlink(missing_ok=True)
    except OSError as error:
        raise NotWritable(path, f"cannot be written: {error.strerror}") from error
