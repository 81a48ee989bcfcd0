"""Status: what lies in a folder of goldens, and what of it should not, or should be otherwise."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evseq.cache.damage import Damage, LeadsOut, NotThere, NotWritable
from evseq.golden.candidate import Change, load, read_sidecar
from evseq.golden.golden import read
from evseq.golden.ledger import Action, Entry, Ledger, LedgerError, append
from evseq.golden.lock import locked
from evseq.golden.refusals import Refused, alone, by_a_person, hint, reasoned
from evseq.golden.root import LEDGER, SUFFIX, WITNESS, Place, Root
from evseq.golden.stored import audited, pinned
from evseq.golden.working_tree import commit

__all__ = ["Status", "prune", "status"]

Problem = tuple[str, str]
"""What is not in order: a path, and a message on one line with the next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Everything in a folder of goldens, each thing once.

    `accepted` are as the ledger says, `unvouched` are not what it says, `missing` should be there, `unused` have no
    script left. `candidates` wait for a decision, `unfinished` were accepted and have not moved, of `halves` the other
    file is lost. `damaged` and `ledgers` are
    problems; the goldens of a model whose ledger is broken are neither accepted nor unvouched. What is `outside` lies
    here by a link only, and is none of the others.
    """

    root: Root
    accepted: tuple[Place, ...]
    unvouched: tuple[Place, ...]
    missing: tuple[Place, ...]
    unused: tuple[Place, ...]
    damaged: tuple[Problem, ...]
    candidates: tuple[tuple[Place, Change], ...]
    unfinished: tuple[Place, ...]
    halves: tuple[Place, ...]
    ledgers: tuple[Problem, ...]
    strays: tuple[Path, ...]
    outside: tuple[Path, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return what is not in order, each with its path; nothing where all is."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[Problem]:
        root = self.root
        yield from (*self.ledgers, *self.damaged)
        for place in self.unvouched:
            told = f"is not the file that {root.ledger(place.model)} says was accepted: take it from version control,"
            yield str(root.golden(place)), f"{told} or accept its candidate"
        for place in self.missing:
            told = f"{root.ledger(place.model)} says it was accepted, but it is not there: take it from version"
            yield str(root.golden(place)), f"{told} control, or make it again with --update-goldens"
        for place in self.unused:
            told = f"unused, no script is called {place.script!r}: `evseq golden prune` removes it"
            yield str(root.golden(place)), told
        for place, change in self.candidates:
            told = f"a candidate ({change}) waits: review it, then `evseq golden accept` or `reject`"
            yield str(root.candidate(place)), told
        for place in self.unfinished:
            told = "was accepted, and that stopped before its files had moved: `evseq golden accept` finishes it"
            yield str(root.candidate(place)), told
        for place in self.halves:
            told = "half a candidate, it or its .json is lost: make it again with --update-goldens, or `evseq golden"
            yield str(root.candidate(place)), f"{told} reject` removes it"
        for path in self.outside:
            yield str(path), f"a link to {path.resolve()}, out of {root.folder}, is not followed: {LeadsOut.help}"
        for path in self.strays:
            told = "nothing that belongs among goldens: move it elsewhere"
            if root.store is not None and path.suffix == SUFFIX:
                told = f"goldens are kept in {root.store.url}: `evseq golden push`, then remove it here"
            yield str(path), told


def status(root: Root, *, scripts: Collection[str], audit: bool = False) -> Status:
    """Read everything in `root`; `scripts` are the names of all that there are, whatever a run selects.

    A store is asked for its goldens only for an `audit`; else they are taken to be what the ledgers say.
    """
    ledgers = {model: _ledger(root, model) for model in root.models()}
    said = {place: seal for model, ledger in ledgers.items() for place, seal in _said(root, model, ledger)}
    there = set(root.goldens()) if root.store is None else set(said)
    unused = {place for place in there | said.keys() if place.script not in scripts}
    accepted: list[Place] = []
    unvouched: list[Place] = []
    damaged: list[Problem] = []
    if root.store is None:
        for place in sorted(there - unused):
            try:
                seal = read(root.golden(place)).seal
            except Damage as error:
                damaged.append(_problem(error))
                continue
            if isinstance(ledgers[place.model], Ledger):
                (accepted if seal == said.get(place) else unvouched).append(place)
    elif audit:
        fine, wrong = audited(root.store, {place: said[place] for place in there - unused})
        accepted, damaged = list(fine), [_problem(error) for error in wrong]
    else:
        accepted = sorted(there - unused)
    candidates: list[tuple[Place, Change]] = []
    unfinished: list[Place] = []
    halves: list[Place] = []
    for place in root.candidates():
        try:
            candidate = load(root, place)[0]
        except NotThere:
            (unfinished if _moved(root, place, said.get(place)) else halves).append(place)
        except Damage as error:
            damaged.append(_problem(error))
        else:
            if candidate.seal == said.get(place) and (root.store is not None or place not in accepted):
                unfinished.append(place)
            else:
                candidates.append((place, candidate.change))
    return Status(
        root=root,
        accepted=tuple(accepted),
        unvouched=tuple(place for place in unvouched if place not in unfinished),
        missing=tuple(sorted(said.keys() - there - unused - set(unfinished))),
        unused=tuple(sorted(unused)),
        damaged=tuple(damaged),
        candidates=tuple(candidates),
        unfinished=tuple(unfinished),
        halves=tuple(halves),
        ledgers=tuple(
            (ledger.place, f"{ledger.evidence}: {ledger.help}")
            for ledger in ledgers.values()
            if isinstance(ledger, LedgerError)
        ),
        strays=tuple(_strays(root)),
        outside=tuple(root.outside()),
    )


def prune(
    root: Root,
    places: Sequence[Place] | None = None,
    *,
    scripts: Collection[str],
    reason: str,
    delete: bool = False,
    environment: Mapping[str, str],
    today: dt.date,
) -> tuple[Place, ...]:
    """Return the goldens without a script, of `places` or all; with `delete` remove them and say so in the ledger.

    Raises Refused for a place that is still used, and, before anything is deleted, where no person decides or says why,
    and where more than goldens has changed; LedgerError for a broken ledger.
    """
    if not delete or not root.folder.is_dir():
        return _unused(root, places, scripts)
    by_a_person(environment)
    reasoned(reason)
    alone(root)
    with locked(root.folder):
        wanted = _unused(root, places, scripts)
        ledgers = {place.model: Ledger.read(root.ledger(place.model)) for place in wanted}
        for model, revision in dict.fromkeys((place.model, place.revision) for place in wanted):
            gone = [place for place in wanted if (place.model, place.revision) == (model, revision)]
            words = ledgers[model].words(revision)
            # Files first: one that is gone is still unused for as long as the ledger has it, so that a rerun after a
            # kill finds it again.
            for place in gone:
                _delete(root.golden(place))
            entry = Entry(
                revision=revision,
                date=today,
                reason=reason.strip(),
                action=Action.PRUNED,
                weights=next((words[place.script].weights for place in gone if place.script in words), None),
                scripts={place.script: None for place in gone},
                commit=commit(root.folder),
            )
            append(root.ledger(model), entry)
    return wanted


def _unused(root: Root, places: Sequence[Place] | None, scripts: Collection[str]) -> tuple[Place, ...]:
    unused = status(root, scripts=scripts).unused
    for place in places or ():
        if place not in unused:
            advice = hint(str(place), "unused goldens", map(str, unused))
            raise Refused(f"{root.golden(place)}: is not unused\n  help: {advice}")
    return unused if places is None else tuple(sorted(set(places)))


def _ledger(root: Root, model: str) -> Ledger | LedgerError:
    try:
        return Ledger.read(root.ledger(model))
    except LeadsOut as error:
        return LedgerError(str(error.path), error.evidence, error.help)
    except LedgerError as error:
        return error


def _moved(root: Root, place: Place, seal: str | None) -> bool:
    """Return whether of a candidate only the sidecar is left because it is a golden by now."""
    try:
        there = seal if root.store else read(root.golden(place)).seal
        return not root.candidate(place).exists() and read_sidecar(root.sidecar(place)).seal == seal == there
    except Damage:
        return False


def _inside(root: Root, place: Place) -> bool:
    """Return whether a golden, if it is there, is not somewhere else."""
    try:
        root.golden(place)
    except LeadsOut:
        return False
    return True


def _said(root: Root, model: str, ledger: Ledger | LedgerError) -> Iterator[tuple[Place, str]]:
    """Return what a ledger says is there, each with its seal."""
    if isinstance(ledger, Ledger):
        yield from ((place, seal) for place, seal in pinned(model, ledger) if root.store or _inside(root, place))


def _strays(root: Root) -> Iterator[Path]:
    """Return files of models' folders that evseq does not read; hidden ones are nobody's."""
    known = {root.golden(place) for place in root.goldens()} if root.store is None else set()
    for place in root.candidates():
        known |= {root.candidate(place), root.sidecar(place)}
    known |= set(root.outside())
    for model in root.models():
        known.add(root.folder / model / LEDGER)
        for path in sorted((root.folder / model).rglob("*")):
            parts = path.relative_to(root.folder).parts
            witness = WITNESS in parts[2:-1]
            hidden = any(part.startswith(".") for part in parts)
            if path.is_file() and path not in known and not witness and not hidden:
                yield path


def _delete(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise NotWritable(path, f"cannot be removed: {error.strerror}") from error


def _problem(damage: Damage) -> Problem:
    return str(damage.path), f"{damage.evidence}: {damage.help}"
