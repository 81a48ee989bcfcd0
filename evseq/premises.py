"""Premises: what a run's results rest on besides the models, to be compared with what is there where parts are played.

Models are not among them: whoever plays a part opens them anyway, and says which they are.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from evseq import versions
from evseq.cache.replacing import held
from evseq.golden.root import PACKAGED
from evseq.part import Part
from evseq.run_settings import Settings
from evseq.stamp import row_files
from evseq.verdict.known import known_file

__all__ = ["Premises", "premises"]

PACKAGE = Path(__file__).parent

DIGITS = 12
"""Hexadecimal digits of a digest that are told."""

LEDGERS = "*/LEDGER.yaml"
"""What pins every golden of a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Premises:
    """What to look at: the folder worked in, files by name, and files written now where the run will write."""

    folder: Path
    goldens: Path | None
    files: tuple[Path, ...]
    marks: tuple[Path, ...]

    def __call__(self) -> Mapping[str, str]:
        """Return what is here, by name."""
        told = {f"the version of {name}": str(number) for name, number in _versions().items()}
        told |= {"the machine": platform.machine(), "the folder of evseq": str(PACKAGE), "the code of evseq": _code()}
        told[f"the folder {self.folder}"] = "found" if self.folder.is_dir() else "not found"
        told |= {f"a file written in {mark.parent}": "found" if mark.is_file() else "not found" for mark in self.marks}
        roots = [PACKAGED.resolve(), *([self.folder / self.goldens] if self.goldens else [])]
        files = [*(file for root in roots for file in sorted(root.glob(LEDGERS))), *self.files]
        return told | {str(file): _digest(self.folder / file) for file in files}


@contextmanager
def premises(parts: Sequence[Part], settings: Settings) -> Iterator[Premises]:
    """Give what results of these parts rest on, as seen from the folder worked in.

    Until it is left, a file lies in each folder that the run writes to, by which others can tell that they see it.
    """
    files: dict[Path, None] = {}
    for script in {part.script.source.file: part.script for part in parts}.values():
        files |= dict.fromkeys(row_files(script).values())
        if known := known_file(script, settings.known):
            files[known] = None
    goldens = settings.goldens
    writes = (settings.record, goldens.root if goldens.writes else None)
    with ExitStack() as stack:
        marks = [stack.enter_context(held(folder.resolve())) for folder in writes if folder is not None]
        yield Premises(
            folder=Path.cwd(),
            goldens=goldens.root,
            files=tuple(files),
            marks=tuple(marks),
        )


def _versions() -> Mapping[str, str | None]:
    versions.of.cache_clear()  # a worker may be older than what is installed beside it
    return {"evseq": versions.evseq(), **versions.libraries(), "distributed": versions.of("distributed")}


def _code() -> str:
    """Return a digest of every module and script of the package that is imported here."""
    digest = hashlib.sha256()
    for file in sorted(file for pattern in ("*.py", "*.yaml") for file in PACKAGE.rglob(pattern)):
        digest.update(f"{file.relative_to(PACKAGE).as_posix()}\n".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:DIGITS]


def _digest(file: Path) -> str:
    """Return a digest of a file, or why there is none."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:DIGITS]
    except OSError as error:
        return error.strerror or str(error)
