"""Candidate: a golden that nobody accepted yet, with what its review needs and no model."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from evseq.cache.damage import Damage, FieldDamaged, NotThere, NotWritable
from evseq.cache.header import inspect_header
from evseq.cache.opening import plain_json
from evseq.cache.replacing import replacing
from evseq.geometry import Dtype
from evseq.golden.golden import Golden, read, write
from evseq.golden.lock import locked
from evseq.golden.root import DIGITS, Place, Root
from evseq.verdict.result import Check, Outcome

__all__ = ["Candidate", "Change", "JudgedCase", "Told", "Use", "load", "read_sidecar", "remove", "settle", "store"]

VERSION: Literal[1] = 1

MAX_BYTES = 64 << 20
"""Most bytes of a sidecar; one about a hundred cases that all found something takes a tenth of one of them."""


class Change(StrEnum):
    """What a candidate is to the golden of its name."""

    NEW = "new"
    CHANGED = "changed"
    FORMAT = "format only"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Told(_Part):
    """The first finding of one check at one event of a case."""

    check: Check
    place: str
    message: str


class JudgedCase(_Part):
    """How a case of the run that made the candidate ended, had nobody asked for goldens.

    `dtype` is None where nothing was observed.
    """

    id: str
    outcome: Outcome
    dtype: Dtype | None = None
    told: tuple[Told, ...] = ()


class Use(_Part):
    """Rows of the golden that one event feeds, in any arm: a script's row, the index of its token, the golden's row."""

    event: str
    place: str
    rows: tuple[tuple[str, int, int], ...]


class Candidate(_Part):
    """The provenance of a candidate, and what each check said.

    `seal` is that of the golden beside it. `commit` is None outside a repository; `unclean` are files that had
    uncommitted changes. `repeats` says whether truth, computed twice, had the same bits. `of` is how many cases the run
    would have had without a filter, where that is more than `cases`.
    """

    version: Literal[1] = VERSION
    model: str
    revision: str
    script: str
    seal: str
    change: Change
    target: str
    made: datetime
    commit: str | None
    unclean: tuple[str, ...] = ()
    libraries: dict[str, str]
    processor: str
    weights: str
    finite: bool
    repeats: bool
    cases: tuple[JudgedCase, ...]
    uses: tuple[Use, ...]
    of: int | None = None

    @property
    def place(self) -> Place:
        """What its golden will be called."""
        return Place(model=self.model, revision=self.revision, script=self.script)

    @property
    def judged(self) -> str | None:
        """How few of its cases were judged, in words; None where all were."""
        return None if self.of is None else f"judged in {len(self.cases)} of {self.of} cases"


def store(root: Root, golden: Golden, candidate: Candidate) -> Path:
    """Write both halves, and return the golden's file. Raises CacheError; the candidate before is then whole.

    Both are written under hidden names. The golden taking its own is the moment at which the new candidate is there,
    for its sidecar is found by the seal under either name. The folder is held meanwhile: the halves of two writers
    never mix, and nobody accepts the one or the other's.
    """
    path, sidecar = root.candidate(candidate.place), root.sidecar(candidate.place)
    half, other = root.pending(candidate.place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NotWritable(path.parent, f"cannot be written: {error.strerror or error}") from None
    with locked(root.folder):
        settle(root)
        try:
            sealed = candidate.model_copy(update={"seal": write(half, golden)})
            with replacing(other) as file:
                file.write((json.dumps(sealed.model_dump(mode="json"), indent=1) + "\n").encode())
            half.replace(path)
            other.replace(sidecar)
        except OSError as error:
            raise NotWritable(path, f"cannot be written: {error.strerror or error}") from None
        finally:
            settle(root)
    return path


def settle(root: Root) -> None:
    """Finish or undo what a stopped writer left. Whoever asks holds the folder, so that no living writer is at it."""
    for place in set(root.stopped()):
        half, other = root.pending(place)
        with contextlib.suppress(OSError):  # what cannot be cleared away is told when something is written
            half.unlink(missing_ok=True)
            with contextlib.suppress(Damage):
                if read_sidecar(other).seal == inspect_header(root.candidate(place)).seal:
                    other.replace(root.sidecar(place))
            other.unlink(missing_ok=True)


def load(root: Root, place: Place) -> tuple[Candidate, Golden]:
    """Read both halves. Raises CacheError where one is missing, damaged, or not the other's."""
    sidecars = (root.sidecar(place), root.pending(place)[1])  # its own, or that of a writer who was stopped or is at it
    while True:
        before = _numbers(root, place)
        found: list[Damage] = []
        for sidecar in sidecars:
            try:
                return _pair(root, place, sidecar)
            except Damage as damage:
                found.append(damage)
        if before == _numbers(root, place):  # else a writer came between two looks
            raise found[0]


def _numbers(root: Root, place: Place) -> tuple[int, ...]:
    """Return which files they are that a candidate may be made of."""
    numbers = []
    for path in (root.candidate(place), root.sidecar(place), root.pending(place)[1]):
        try:
            about = path.stat()
            numbers += [about.st_ino, about.st_mtime_ns]
        except OSError:
            numbers.append(0)
    return tuple(numbers)


def _pair(root: Root, place: Place, sidecar: Path) -> tuple[Candidate, Golden]:
    candidate = read_sidecar(sidecar)
    golden = read(root.candidate(place))
    if golden.seal != candidate.seal or candidate.place != place or golden.script != place.script:
        raise FieldDamaged(sidecar, "it is about another candidate than the file beside it")
    if (inside := golden.identity.values.get("weights.source")) != candidate.weights:
        told = f"weights: {candidate.weights[:DIGITS]}, in the file beside it {str(inside)[:DIGITS]}"
        raise FieldDamaged(sidecar, told)
    return candidate, golden


def read_sidecar(path: Path) -> Candidate:
    """Read the half that says where a candidate is from. Raises CacheError where it is missing or damaged."""
    try:
        return Candidate.model_validate_json(plain_json(path, most=MAX_BYTES))
    except NotThere:
        raise NotThere(path, "no such file: its candidate cannot be reviewed") from None
    except ValidationError as error:
        raise FieldDamaged(path, f"not what a candidate says: {error}") from None


def remove(root: Root, place: Place) -> None:
    """Remove both halves, under either name. Raises NotWritable where the system refuses."""
    for path in (*root.pending(place), root.sidecar(place), root.candidate(place)):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise NotWritable(path, f"cannot be removed: {error.strerror or error}") from error
