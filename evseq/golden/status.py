"""Status: what lies in a folder of goldens, and what of it should not, or should be otherwise."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evseq.cache.damage import NotWritable
from evseq.errors import CacheError, EvseqError
from evseq.golden.candidate import Change, load
from evseq.golden.golden import read
from evseq.golden.ledger import Action, Entry, Ledger, LedgerError, append
from evseq.golden.lock import locked
from evseq.golden.refusals import Refused, by_a_person, hint
from evseq.golden.root import Place, Root
from evseq.golden.working_tree import commit
from evseq.script import source
from evseq.script.library import PATTERN

__all__ = ["Status", "project_scripts", "prune", "status"]

SKIPPED = frozenset({"build", "dist", "node_modules"})
"""Folders that hold copies of scripts, or somebody else's; hidden ones and virtual environments are skipped too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Everything in a folder of goldens, each thing once.

    `accepted` are as the ledger says, `unvouched` are not what it says, `missing` should be there, `unused` have no
    script left. `candidates` wait for a decision, of `halves` the other file is lost. `damaged` and `ledgers` are
    messages on one line; the goldens of a model whose ledger is broken are neither accepted nor unvouched.
    """

    root: Root
    accepted: tuple[Place, ...]
    unvouched: tuple[Place, ...]
    missing: tuple[Place, ...]
    unused: tuple[Place, ...]
    damaged: tuple[str, ...]
    candidates: tuple[tuple[Place, Change], ...]
    halves: tuple[Place, ...]
    ledgers: tuple[str, ...]
    strays: tuple[Path, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """Return what is not in order, a line each with the next step; nothing where all is."""
        root = self.root
        return (
            *self.ledgers,
            *self.damaged,
            *(
                f"{root.golden(place)}: is not the file that {root.ledger(place.model)} says was accepted: take it "
                "from version control, or accept its candidate"
                for place in self.unvouched
            ),
            *(
                f"{root.golden(place)}: {root.ledger(place.model)} says it was accepted, but it is not there: take it "
                "from version control, or make it again with --update-goldens"
                for place in self.missing
            ),
            *(
                f"{root.golden(place)}: unused, no script is called {place.script!r}: `evseq golden prune` removes it"
                for place in self.unused
            ),
            *(
                f"{root.candidate(place)}: a candidate ({change}) waits: review it, then `evseq golden accept` or "
                "`reject`"
                for place, change in self.candidates
            ),
            *(
                f"{root.candidate(place)}: half a candidate, it or its .json is lost: make it again with "
                "--update-goldens, or `evseq golden reject` removes it"
                for place in self.halves
            ),
            *(f"{path}: nothing that belongs among goldens: move it elsewhere" for path in self.strays),
        )


def status(root: Root, *, scripts: Collection[str]) -> Status:
    """Read everything in `root`; `scripts` are the names of all that there are, whatever a run selects."""
    ledgers = {model: _ledger(root, model) for model in root.models()}
    there = set(root.goldens())
    said = {place for model, ledger in ledgers.items() for place in _said(model, ledger)}
    unused = {place for place in there | said if place.script not in scripts}
    accepted: list[Place] = []
    unvouched: list[Place] = []
    damaged = []
    for place in sorted(there - unused):
        ledger = ledgers[place.model]
        try:
            seal = read(root.golden(place)).seal
        except CacheError as error:
            damaged.append(_line(error))
            continue
        if isinstance(ledger, Ledger):
            (accepted if seal == ledger.seal(place.revision, place.script) else unvouched).append(place)
    candidates, halves = [], []
    for place in root.candidates():
        if not (root.candidate(place).exists() and root.sidecar(place).exists()):
            halves.append(place)
            continue
        try:
            candidates.append((place, load(root, place)[0].change))
        except CacheError as error:
            damaged.append(_line(error))
    return Status(
        root=root,
        accepted=tuple(accepted),
        unvouched=tuple(unvouched),
        missing=tuple(sorted(said - there - unused)),
        unused=tuple(sorted(unused)),
        damaged=tuple(damaged),
        candidates=tuple(candidates),
        halves=tuple(halves),
        ledgers=tuple(_line(ledger) for ledger in ledgers.values() if isinstance(ledger, LedgerError)),
        strays=tuple(_strays(root)),
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

    Raises Refused for a place that is still used, and, before anything is deleted, where no person decides or says why;
    LedgerError for a broken ledger.
    """
    unused = status(root, scripts=scripts).unused
    for place in places or ():
        if place not in unused:
            advice = hint(str(place), "unused goldens", map(str, unused))
            raise Refused(f"{root.golden(place)}: is not unused\n  help: {advice}")
    wanted = unused if places is None else tuple(sorted(set(places)))
    if not delete:
        return wanted
    by_a_person(environment, reason)
    with locked(root.folder):
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


def project_scripts(folder: Path) -> frozenset[str]:
    """Return the names of all scripts in a project; one that cannot be read is called as its file is."""
    return frozenset(map(_name, _script_files(folder)))


def _script_files(folder: Path) -> Iterator[Path]:
    seen = set()
    for here, folders, files in os.walk(folder, followlinks=True):  # a name missed would make its goldens unused
        real = os.path.realpath(here)
        if real in seen or "pyvenv.cfg" in files:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".") and name not in SKIPPED]
        yield from (path for name in files if (path := Path(here, name)).match(PATTERN))


def _name(path: Path) -> str:
    stem = path.name.removesuffix(PATTERN.removeprefix("*"))
    try:
        data = source.read(path).data
    except EvseqError:
        return stem
    name = data.get("name") if isinstance(data, dict) else None
    return name if isinstance(name, str) else stem


def _ledger(root: Root, model: str) -> Ledger | LedgerError:
    try:
        return Ledger.read(root.ledger(model))
    except LedgerError as error:
        return error


def _said(model: str, ledger: Ledger | LedgerError) -> Iterator[Place]:
    """Return what a ledger says is there."""
    if isinstance(ledger, Ledger):
        for revision in dict.fromkeys(entry.revision for entry in ledger.entries):
            for script in ledger.words(revision):
                yield Place(model=model, revision=revision, script=script)


def _strays(root: Root) -> Iterator[Path]:
    """Return files of models' folders that evseq does not read; hidden ones are nobody's."""
    known = {root.golden(place) for place in root.goldens()}
    for place in root.candidates():
        known |= {root.candidate(place), root.sidecar(place)}
    for model in root.models():
        known.add(root.ledger(model))
        for path in sorted((root.folder / model).rglob("*")):
            parts = path.relative_to(root.folder).parts
            witness = root.witness(model, parts[1]) in path.parents
            hidden = any(part.startswith(".") for part in parts)
            if path.is_file() and path not in known and not witness and not hidden:
                yield path


def _delete(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise NotWritable(path, f"cannot be removed: {error.strerror}") from error


def _line(error: Exception) -> str:
    return str(error).replace("\n  help: ", ": ")
