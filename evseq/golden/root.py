"""Root: a folder of goldens, and the names of what lies in it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from evseq.cache.damage import LeadsOut
from evseq.errors import UsageError
from evseq.golden.store import Store

__all__ = ["PACKAGED", "NameRefused", "Place", "Root", "label_of", "model_name", "named", "without"]

SUFFIX = ".safetensors"
CANDIDATE = ".candidate.safetensors"
SIDECAR = ".candidate.json"
PENDING = ".pending"
LEDGER = "LEDGER.yaml"
WITNESS = "witness"

DIGITS = 12
"""Hexadecimal digits of `weights.source` that make the label of a revision nobody named."""


NAMED = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9._=-]{0,199}")
"""What a model, a revision or a script may be called: one folder's or file's name, shown and never `..`."""


NAME_SHOWN = 80
"""Most characters of such a name in a message."""


class NameRefused(UsageError):
    """A model, revision or script has a name that is no name of a folder or file. Nothing was read or written."""


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

    Where there is a `store`, accepted goldens lie there, and everything else in the folder. A path is given only for
    names that stay inside: it raises NameRefused for a name with a way in it, and LeadsOut where a link on the way
    leads out of the folder. The folder itself may be a link.
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

    def pending(self, place: Place) -> tuple[Path, Path]:
        """Return where both halves of a candidate are written before either takes its name; hidden, so nobody's."""
        half, sidecar = self.candidate(place), self.sidecar(place)
        return half.with_name(f".{half.name}{PENDING}"), sidecar.with_name(f".{sidecar.name}{PENDING}")

    def ledger(self, model: str) -> Path:
        """Return where a model's ledger lies."""
        return self._inside(named(model, what="model"), LEDGER)

    def witness(self, model: str, revision: str) -> Path:
        """Return the folder of a revision's witnesses."""
        return self._inside(named(model, what="model"), named(revision, what="revision"), WITNESS)

    def models(self) -> tuple[str, ...]:
        """Return the models that have a folder here."""
        if not self.folder.is_dir():
            return ()
        names = [path.name for path in self.folder.iterdir() if path.is_dir() and self._holds(path)]
        return tuple(sorted(name for name in names if NAMED.fullmatch(name)))

    def goldens(self) -> Iterator[Place]:
        """Return every golden in the folder, accepted or not, in sorted order; candidates are none."""
        for path in sorted(self.folder.glob(f"*/*/*{SUFFIX}")):
            if not path.name.endswith(CANDIDATE):
                yield from self._places(path, SUFFIX)

    def candidates(self) -> Iterator[Place]:
        """Return every candidate, one whose other half is missing too, in sorted order."""
        halves = [(path, suffix) for suffix in (CANDIDATE, SIDECAR) for path in self.folder.glob(f"*/*/*{suffix}")]
        yield from sorted({place for path, suffix in halves for place in self._places(path, suffix)})

    def stopped(self) -> Iterator[Place]:
        """Return the candidates whose writer was stopped, or is at it, in sorted order."""
        for suffix in (CANDIDATE, SIDECAR):
            for path in sorted(self.folder.glob(f"*/*/.*{suffix}{PENDING}")):
                yield from self._places(path.with_name(path.name[1:].removesuffix(PENDING)), suffix)

    def outside(self) -> Iterator[Path]:
        """Return what lies here only by a link that leads out, in sorted order: none of it is read."""
        levels = (sorted(self.folder.glob("/".join("*" * depth))) for depth in (1, 2, 3))
        for path in (path for level in levels for path in level):
            if path.is_symlink() and not path.name.startswith(".") and not self._holds(path):
                yield path

    def _under(self, place: Place, suffix: str) -> Path:
        script = f"{named(place.script, what='script')}{suffix}"
        return self._inside(named(place.model, what="model"), named(place.revision, what="revision"), script)

    def _inside(self, *parts: str) -> Path:
        path = self.folder.joinpath(*parts)
        if not self._holds(path):
            raise LeadsOut(path, f"leads to {path.resolve()}, out of {self.folder}")
        return path

    def _holds(self, path: Path) -> bool:
        """Return whether a path of this folder stays in it, wherever links on the way lead."""
        ways = [path, *path.parents][: len(path.relative_to(self.folder).parts)]
        return not any(way.is_symlink() for way in ways) or path.resolve().is_relative_to(self.folder.resolve())

    def _places(self, path: Path, suffix: str) -> Iterator[Place]:
        """Return the place of a file that is here and can be called so."""
        revision = path.parent
        names = (revision.parent.name, revision.name, path.name.removesuffix(suffix))
        if all(NAMED.fullmatch(name) for name in names) and self._holds(path):
            yield Place(model=names[0], revision=names[1], script=names[2])


def named(name: str, *, what: str) -> str:
    """Return the name of a model, revision or script. Raises NameRefused for what is no folder's name."""
    if not NAMED.fullmatch(name):
        raise NameRefused(
            f"{what} {name[:NAME_SHOWN]!r}: is no name of a folder\n"
            "  help: use at most 200 letters, digits, '.', '_', '=' and '-', the first none of '.' and '-'"
        )
    return name


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
