"""Root: a folder of goldens, and the names of what lies in it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from evseq.golden.store import Store

__all__ = ["PACKAGED", "Place", "Root", "label_of", "model_name", "without"]

SUFFIX = ".safetensors"
CANDIDATE = ".candidate.safetensors"
SIDECAR = ".candidate.json"
LEDGER = "LEDGER.yaml"
WITNESS = "witness"

DIGITS = 12
"""Hexadecimal digits of `weights.source` that make the label of a revision nobody named."""


LONGEST = 120
"""Characters of a folder's name; file systems take 255 bytes, and suffixes come behind it."""


def _packaged() -> Path:
    """Return where evseq's own goldens lie: in the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "goldens"
    return installed if installed.is_dir() else package.parent / "goldens"


PACKAGED = _packaged()


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """What a golden is called: whose, at which revision, of which script."""

    model: str
    revision: str
    script: str

    def __str__(self) -> str:
        return f"{self.model}/{self.revision}/{self.script}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """One folder: `MODEL/REVISION/SCRIPT.safetensors`, candidates beside, `MODEL/LEDGER.yaml`.

    Where there is a `store`, accepted goldens lie there, and everything else in the folder.
    """

    folder: Path
    store: Store | None = None

    def golden(self, place: Place) -> Path:
        """Return where an accepted golden lies that is in the folder."""
        return self._under(place, SUFFIX)

    def candidate(self, place: Place) -> Path:
        """Return where a candidate lies."""
        return self._under(place, CANDIDATE)

    def sidecar(self, place: Place) -> Path:
        """Return where the provenance of a candidate lies."""
        return self._under(place, SIDECAR)

    def ledger(self, model: str) -> Path:
        """Return where a model's ledger lies."""
        return self.folder / model / LEDGER

    def witness(self, model: str, revision: str) -> Path:
        """Return the folder of a revision's witnesses."""
        return self.folder / model / revision / WITNESS

    def models(self) -> tuple[str, ...]:
        """Return the models that have a folder here."""
        if not self.folder.is_dir():
            return ()
        return tuple(sorted(path.name for path in self.folder.iterdir() if path.is_dir()))

    def goldens(self) -> Iterator[Place]:
        """Return every golden in the folder, accepted or not, in sorted order; candidates are none."""
        for path in sorted(self.folder.glob(f"*/*/*{SUFFIX}")):
            if not path.name.endswith(CANDIDATE):
                yield _place(path, SUFFIX)

    def candidates(self) -> Iterator[Place]:
        """Return every candidate, one whose other half is missing too, in sorted order."""
        halves = [(path, suffix) for suffix in (CANDIDATE, SIDECAR) for path in self.folder.glob(f"*/*/*{suffix}")]
        yield from sorted({_place(path, suffix) for path, suffix in halves})

    def _under(self, place: Place, suffix: str) -> Path:
        return self.folder / place.model / place.revision / f"{place.script}{suffix}"


def model_name(target: str, options: Sequence[str]) -> str:
    """Return the folder name of a target nobody named: its engine and the last part of what it loads.

    `options` are the engine's own, which do not make another model. A path on this machine is not in the name.
    """
    engine, _, rest = without(target, options).partition(":")
    path, _, settings = rest.partition("?")
    last = path.rstrip("/").rpartition("/")[2]
    return label_of("-".join(part for part in (engine, last, settings) if part))


def without(target: str, options: Sequence[str]) -> str:
    """Return a target's text without an engine's own options: another kernel is no other model."""
    path, mark, query = target.partition("?")
    if not mark:
        return target
    settings = urlencode([(name, value) for name, value in parse_qsl(query) if name not in options])
    return f"{path}?{settings}" if settings else path


def label_of(text: str) -> str:
    """Return `text` as a word that is a folder's name everywhere; of a long one the beginning, and a digest of all."""
    word = re.sub(r"[^A-Za-z0-9._=-]+", "-", text).strip(".-") or "model"
    return word if len(word) <= LONGEST else f"{word[:LONGEST]}-{hashlib.sha256(word.encode()).hexdigest()[:DIGITS]}"


def _place(path: Path, suffix: str) -> Place:
    revision = path.parent
    return Place(model=revision.parent.name, revision=revision.name, script=path.name.removesuffix(suffix))
