"""Comparison: two revisions of a model, script by script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evseq.errors import UsageError
from evseq.golden.drift import Drift, drift
from evseq.golden.golden import Golden
from evseq.golden.ledger import Ledger
from evseq.golden.reader import Reader
from evseq.golden.refusals import hint
from evseq.golden.root import Place, Root
from evseq.golden.stored import pins

__all__ = ["Comparison", "between"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How far one model's goldens of `revision` are from those of `parent`, by script; `added` and `removed` have one.

    `layers` is how many layers the model has; 0 where nothing was compared.
    """

    model: str
    revision: str
    parent: str
    drifts: Mapping[str, Drift]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    layers: int


def between(root: Root, revision: str, parent: str, *, model: str | None = None) -> tuple[Comparison, ...]:
    """Compare two revisions of every model that has both, or of one.

    Raises UsageError where no model has both and for a golden that nobody accepted, CacheError for one that cannot be
    read, LedgerError for a broken ledger.
    """
    labels = {(place.model, place.revision) for place in _there(root) if model in (None, place.model)}
    models = sorted(name for name, label in labels if label == revision and (name, parent) in labels)
    if not models:
        known = sorted({label for _, label in labels})
        lost = next((label for label in (revision, parent) if label not in known), None)
        others = [label for label in known if label not in (revision, parent)]
        help = "name two of one model" if lost is None else hint(lost, "other revisions", others)
        who = "no model" if model is None else f"no model {model!r}"
        raise UsageError(f"{root.folder}: {who} has goldens of both {revision!r} and {parent!r}\n  help: {help}")
    return tuple(_compared(root, name, revision, parent) for name in models)


def _compared(root: Root, model: str, revision: str, parent: str) -> Comparison:
    theirs = [place for place in _there(root) if place.model == model]
    now = {place.script: place for place in theirs if place.revision == revision}
    before = {place.script: place for place in theirs if place.revision == parent}
    ledger = Ledger.read(root.ledger(model))
    drifts, layers = {}, 0
    for script in sorted(now.keys() & before.keys()):
        golden = _accepted(root, ledger, now[script])
        drifts[script], layers = drift(golden, _accepted(root, ledger, before[script])), golden.layers
    return Comparison(
        model=model,
        revision=revision,
        parent=parent,
        drifts=drifts,
        added=tuple(sorted(now.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - now.keys())),
        layers=layers,
    )


def _there(root: Root) -> tuple[Place, ...]:
    return tuple(root.goldens() if root.store is None else sorted(pins(root)))


def _accepted(root: Root, ledger: Ledger, place: Place) -> Golden:
    seal = ledger.seal(place.revision, place.script)
    golden = Reader().read(root, place, seal)
    if golden.seal != seal:
        raise UsageError(
            f"{root.golden(place)}: is not the file that {root.ledger(place.model)} says was accepted\n"
            "  help: take it from version control, or accept its candidate"
        )
    return golden
