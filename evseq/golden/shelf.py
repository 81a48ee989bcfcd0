"""Shelf: the goldens of one run, found by target and script, and refused where they are another model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evseq.cache.canonical import Scalar
from evseq.cache.damage import LeadsOut, NotThere
from evseq.cache.identity import Identity
from evseq.engines.registry import healthy
from evseq.errors import CacheError
from evseq.golden.golden import Golden, belongs, differences
from evseq.golden.ledger import Ledger, LedgerError
from evseq.golden.reader import Reader
from evseq.golden.root import DIGITS, PACKAGED, Place, Root, model_name, without
from evseq.golden.terms import Need, TargetTerms, Terms
from evseq.history import Tree
from evseq.replay.opening import RAISED, UnusableError, told
from evseq.replay.target import Target
from evseq.script.document import Script
from evseq.script.library import SUITE
from evseq.verdict.standard import Accepted, Missing

__all__ = ["Shelf", "Shelved"]

WEIGHTS = "weights.source"

UPDATE = "--update-goldens writes a candidate"

ALWAYS = "reference"
"""The engine whose goldens of the shipped suite ship with evseq, so that none may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelved:
    """What there is for one script on one target: a golden, or why there is none to use.

    `unusable` says that one was accepted, or is being made, so that its lack is no matter of choice; `known` that the
    ledger has one by this name, usable or not. `witnesses` are folders of the revision's rounding on some machines, the
    first to be written to.
    """

    place: Place
    identity: Identity
    required: bool
    golden: Golden | None = None
    missing: str = ""
    unusable: bool = False
    known: bool = False
    witnesses: tuple[Path, ...] = ()

    def standard(self, tree: Tree | None) -> Accepted | Missing:
        """Return what checks hold observations to whose histories are nodes of `tree`."""
        if self.golden is None or tree is None:
            return Missing(message=self.missing, required=self.required or self.unusable)
        return Accepted(
            revision=self.place.revision,
            rows=self.golden.histories.rows(tree),
            logits=self.golden.logits,
            scale=self.golden.logits.scale,
        )

    def facts(self) -> dict[str, Any] | None:
        """Return as plain data what finds the same golden again; None where the model did not say what it is."""
        if not self.identity.values:
            return None
        return {
            "model": self.place.model,
            "revision": self.place.revision,
            "identity": dict(self.identity.values),
            "required": self.required,
        }


@dataclass(kw_only=True)
class Shelf:
    """The project's goldens, then those that ship with evseq. `identities` are those of opened models, read once."""

    terms: Terms
    identities: dict[str, Mapping[str, Scalar] | str] = field(default_factory=dict)
    _ledgers: dict[tuple[Path, str], Ledger | LedgerError] = field(default_factory=dict)
    _reader: Reader = field(default_factory=Reader)

    def find(self, script: Script, target: Target) -> Shelved | None:
        """Return what there is for `script` on `target`; None where there is no folder to look into and nobody asks."""
        text = healthy(target.text)  # what a fault is planted in is held to the goldens of the sound one
        options = tuple(target.description.options)
        said = self.terms.targets.get(text) or self.terms.targets.get(without(text, options))
        required = self._required(script, target, said)
        if not (required or self.terms.update or self._roots(script)):
            return None
        model = said.model if said else model_name(text, options)
        label = self.terms.revision or (said.revision if said else None)
        identity = self.identity(target)
        if isinstance(identity, str):
            place = Place(model=model, revision=label or "unknown", script=script.name)
            told = f"the model does not say whose goldens it is to be held to: {identity}"
            nobody = Identity(values={})
            return Shelved(place=place, identity=nobody, required=required, missing=told, unusable=self.terms.update)
        place = Place(model=model, revision=label or str(identity[WEIGHTS])[:DIGITS], script=script.name)
        return self._shelved(script, place, belongs(identity), required=required)

    def again(self, script: Script, facts: Mapping[str, Any]) -> Shelved:
        """Return what there is now for a recording that was made when these `facts` held."""
        place = Place(model=facts["model"], revision=facts["revision"], script=script.name)
        required = facts["required"] or self.terms.require
        return self._shelved(script, place, Identity(values=facts["identity"]), required=required)

    def identity(self, target: Target) -> Mapping[str, Scalar] | str:
        """Return the identity of the engine that decides, or why it has none."""
        if target.text not in self.identities:
            try:
                read = target.engine(target.description.deciding.dtype).identity()
                self.identities[target.text] = read if WEIGHTS in read else f"its identity has no {WEIGHTS}"
            except UnusableError as error:
                self.identities[target.text] = str(error)
            except RAISED as error:
                self.identities[target.text] = told(error)
        return self.identities[target.text]

    def _required(self, script: Script, target: Target, said: TargetTerms | None) -> bool:
        named = said is not None and said.need is Need.REQUIRED
        asked = self.terms.require or self.terms.revision is not None
        return asked or named or (target.name == ALWAYS and _shipped(script))

    def _shelved(self, script: Script, place: Place, identity: Identity, *, required: bool) -> Shelved:
        roots = self._roots(script)
        for root in roots:
            found = self._read(root, place, identity)
            if found is None:
                continue
            if isinstance(found, str):
                return Shelved(
                    place=place, identity=identity, required=required, missing=found, unusable=True, known=True
                )
            return Shelved(
                place=place,
                identity=identity,
                required=required,
                golden=found,
                known=True,
                witnesses=tuple(root.witness(place.model, place.revision) for root in roots),
            )
        return Shelved(place=place, identity=identity, required=required, missing=self._missing(roots, place, identity))

    def _read(self, root: Root, place: Place, identity: Identity) -> Golden | str | None:
        """Return the golden that lies in `root`, why it is not to be used, or None where none was ever accepted."""
        ledger = self._ledger(root, place.model)
        if isinstance(ledger, LedgerError):
            return _on_a_line(ledger)
        seal = ledger.seal(place.revision, place.script)
        try:
            golden = self._reader.read(root, place, seal)
            if golden.seal != seal:
                self._ledgers.clear()  # somebody may have accepted another meanwhile
                now = self._ledger(root, place.model)
                ledger = now if isinstance(now, Ledger) else ledger
                golden = self._reader.read(root, place, ledger.seal(place.revision, place.script))
        except NotThere:
            if seal is None:
                return None
            return (
                f"{root.golden(place)} is not there, though {root.ledger(place.model)} says it was accepted: take it "
                "from version control"
            )
        except CacheError as error:
            return _on_a_line(error)
        return _refused(root, place, golden, identity, ledger) or golden

    def _missing(self, roots: Sequence[Root], place: Place, identity: Identity) -> str:
        """Say that nothing is recorded, and under which label these weights, or else others, are known."""
        weights, told = str(identity.values[WEIGHTS]), UPDATE
        for root in roots:
            ledger = self._ledger(root, place.model)
            if isinstance(ledger, LedgerError):  # it is told where a golden is there
                continue
            others = [label for label in ledger.labels(weights) if label != place.revision]
            if known := [label for label in others if ledger.seal(label, place.script)]:
                return f"no golden of {place}; these weights have one as revision {known[-1]}: --revision {known[-1]}"
            if latest := ledger.latest_revision(other_than=place.revision):
                told = f"other weights have some as revision {latest}; {UPDATE}"
        return f"no golden of {place}; {told}"

    def _roots(self, script: Script) -> tuple[Root, ...]:
        """Return where to look. What ships with evseq is about its own suite, whatever else has a script's name."""
        found: dict[Path, Root] = {}
        if self.terms.root:
            found[self.terms.root.resolve()] = Root(folder=self.terms.root.resolve(), store=self.terms.store)
        if _shipped(script):
            found.setdefault(PACKAGED.resolve(), Root(folder=PACKAGED.resolve()))
        return tuple(found.values())

    def _ledger(self, root: Root, model: str) -> Ledger | LedgerError:
        at = (root.folder, model)
        if at not in self._ledgers:
            try:
                self._ledgers[at] = Ledger.read(root.ledger(model))
            except LeadsOut as error:
                self._ledgers[at] = LedgerError(str(error.path), error.evidence, error.help)
            except LedgerError as error:
                self._ledgers[at] = error
        return self._ledgers[at]


def _shipped(script: Script) -> bool:
    return Path(script.source.file).resolve().is_relative_to(SUITE.resolve())


def _refused(root: Root, place: Place, golden: Golden, identity: Identity, ledger: Ledger) -> str | None:
    """Return why a golden that is there is not to be used."""
    if ledger.seal(place.revision, place.script) != golden.seal:
        return (
            f"{root.golden(place)} is not the file that {root.ledger(place.model)} says was accepted: take it from "
            "version control, or accept it with `evseq golden accept`"
        )
    found = differences(golden.identity, identity)
    if any(difference.field == WEIGHTS for difference in found):
        accepted, now = (str(whose.values.get(WEIGHTS))[:DIGITS] for whose in (golden.identity, identity))
        return (
            f"the model changed under the label {place.revision!r}: its {WEIGHTS} is {now}, that of the golden "
            f"{accepted}; open the model of this revision, or give this one a label of its own with --revision"
        )
    if found:
        return (
            f"the golden of {place} is another model's: {'; '.join(str(difference) for difference in found)}; "
            "give this one a label of its own with --revision"
        )
    return None


def _on_a_line(error: Exception) -> str:
    """Return what an error says as part of a finding's line."""
    return "; ".join(line.strip() for line in str(error).splitlines())
