"""Witnessing: what a run's errors are next to those that machines of its kind had before."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from evseq.cache.canonical import Scalar, canonical
from evseq.cache.damage import Damage
from evseq.geometry import Dtype, Promise
from evseq.golden.histories import Histories
from evseq.golden.witness import NUMERIC, Errors, name_of, read, rounded, update
from evseq.replay.group import Group, engine_options
from evseq.replay.opening import RAISED
from evseq.replay.recording import Recording
from evseq.replay.references import References
from evseq.replay.target import Target
from evseq.verdict.allowance import allowance
from evseq.verdict.result import Case, Note, Outcome, Witnessed
from evseq.verdict.rounding import rounding

__all__ = ["Numerics", "witnessed"]

Numerics = dict[tuple[str, Dtype, tuple[tuple[str, str], ...]], Mapping[str, Scalar]]
"""What a witness is about, by target, dtype and options: read once a run, since it looks at every byte of weights."""

WRITE = "--update-witness writes it anew"


def witnessed(
    cases: Sequence[Case],
    *,
    group: Group,
    target: Target,
    histories: Histories,
    folders: Sequence[Path],
    numerics: Numerics,
    write: bool = False,
) -> tuple[Case, ...]:
    """Say of each case how its script's errors compare with the witness of its dtype, kernel, device and libraries.

    `cases` are all those of `group`, in its order. The first of `folders` that has the script is taken; with `write`,
    the errors go to the very first, those of a kind of which a case failed aside. `numerics` are those read so far in
    this run; new ones are added. Raises CacheError where the folder refuses.
    """
    ended = list(cases)
    if group.references is None or group.tree is None:
        return tuple(ended)
    rows = histories.rows(group.tree)
    for kind in _kinds(group, target, numerics):
        first = kind.places[0]
        errors, allowed = _errors(kind, group.references, histories, rows)
        said, note = _compared(errors, allowed, script=ended[first].script, files=[f / kind.name for f in folders])
        if write and all(ended[place].outcome is Outcome.PASSED for place in kind.places):
            update(folders[0] / kind.name, ended[first].script, errors, numeric=kind.numeric)
            said, note = replace(said, file=str(folders[0] / kind.name), written=True), ""
        elif write:
            note = f"{folders[0] / kind.name}: not written: a case failed"
        for place in kind.places:
            ended[place] = replace(ended[place], witnessed=said)
        if note:
            ended[first] = replace(ended[first], notes=(*ended[first].notes, Note(kind="witness", message=note)))
    return tuple(ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """The cases that one witness is about: where they stand, and what was observed in them."""

    numeric: Mapping[str, Scalar]
    dtype: Dtype
    places: list[int] = field(default_factory=list)
    recordings: list[Recording] = field(default_factory=list)

    @property
    def name(self) -> str:
        return name_of(self.numeric)


def _kinds(group: Group, target: Target, numerics: Numerics) -> list[_Kind]:
    """Sort cases in which anything was observed by the engine that did; one that cannot say what it is has no kind."""
    kinds: dict[str, _Kind] = {}
    for place, recording in enumerate(group.recordings):
        if not isinstance(recording, Recording) or not any(fed.nodes for fed in recording.fed):
            continue
        cache = target.description.cache(recording.plan.cache)
        if cache is None or cache.promise is not Promise.EXACT:  # rounds beside what its dtype does
            continue
        options = engine_options(recording.plan, target)
        key = (target.text, recording.dtype, tuple(sorted(options.items())))
        with contextlib.suppress(*RAISED):
            if key not in numerics:
                identity = target.engine(recording.dtype, options).identity()
                numerics[key] = {name: identity[name] for name in NUMERIC}
            numeric = numerics[key]
            kind = kinds.setdefault(name_of(numeric), _Kind(numeric=numeric, dtype=recording.dtype))
            kind.places.append(place)
            kind.recordings.append(recording)
    return list(kinds.values())


def _errors(
    kind: _Kind, references: References, histories: Histories, rows: Mapping[int, int]
) -> tuple[Errors, list[float]]:
    """Return the largest errors of all cases by row, and what each row is allowed; infinite errors are none."""
    count = len(histories.observed)
    places = [place for place, node in enumerate(references.nodes) if node in rows]
    at = [rows[references.nodes[place]] for place in places]
    allowed = torch.zeros(count, dtype=torch.float64)  # row
    allowed[at] = allowance(kind.dtype, references)[places]
    uncached = torch.full((count,), -1.0, dtype=torch.float64)  # row, below 0 where nobody looked
    uncached[at] = references.err[kind.dtype][places]
    cached = torch.full((count,), -1.0, dtype=torch.float64)  # row
    for recording in kind.recordings:
        found = rounding(recording, references)
        known = [place for place, node in enumerate(found.nodes) if node in rows]
        at = [rows[found.nodes[place]] for place in known]
        cached[at] = cached[at].maximum(found.cached[known])
    return Errors(histories=_digest(histories), uncached=_kept(uncached), cached=_kept(cached)), allowed.tolist()


def _digest(histories: Histories) -> str:
    parts = (histories.parents, histories.tokens, histories.positions, histories.observed)
    return hashlib.sha256(canonical([list(part) for part in parts])).hexdigest()


def _kept(errors: torch.Tensor) -> tuple[float | None, ...]:
    usable = (errors >= 0) & errors.isfinite()  # what is no number fails its case
    pairs = zip(errors.tolist(), usable.tolist(), strict=True)
    return tuple(rounded(error) if known else None for error, known in pairs)


def _compared(errors: Errors, allowed: Sequence[float], *, script: str, files: Sequence[Path]) -> tuple[Witnessed, str]:
    """Return how the errors compare with the first file that knows the script, and what is wrong with that file."""
    for file in files:
        try:
            witness = read(file)
        except Damage as damage:
            return Witnessed(file=str(file), drift=None), f"{file}: {damage.evidence}; {WRITE}"
        then = witness and witness.scripts.get(script)
        if not then:
            continue
        if not errors.alike(then):
            return Witnessed(file=str(file), drift=None), f"{file}: of {script} as it was before; {WRITE}"
        return Witnessed(file=str(file), drift=errors.drift(then, allowed)), ""
    return Witnessed(file=str(files[0]), drift=None), ""
