"""What evseq reads from files that anybody may have written: the readers, what they start from, and how it must end."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
import torch

from candidates import golden, propose
from evseq import pipeline
from evseq.cache.canonical import Scalar
from evseq.cache.header import WRITTEN, SealedKind, inspect_header
from evseq.cache.identity import Identity
from evseq.cache.sealed import open_sealed, seal
from evseq.errors import EvseqError
from evseq.golden import witness
from evseq.golden.acceptance import accept
from evseq.golden.golden import read, write
from evseq.golden.ledger import Entry, Ledger
from evseq.golden.review import review
from evseq.golden.root import Place, Root
from evseq.golden.status import status
from evseq.golden.telling import whole
from hostile import mutating

__all__ = ["READERS", "Reader", "ended", "sample"]

RECORDED = """\
rows: {a: [1, 2, 3, 4, 5], b: [7, 8, 9, 10]}
events:
  - prefill: {rows: {a: 3, b: 2}}
  - serialize: {to: mid}
  - append: {next: 1}
  - mutate-prefix-token: {row: a, index: 1, token: 9}
  - reload: {from: mid, as: again, expect: {refused: prefix.tokens}}
  - probe: {}
"""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One kind of file: how a sound one is made, how it is damaged, and what reads it.

    `reads` gets a path and the content that lies there; it returns normally only where that was admitted as what its
    writer would have written, and raises AssertionError where it was admitted as anything else.
    """

    name: str
    made: Callable[[Path], bytes]
    mutated: mutating.Mutation
    reads: Callable[[Path, bytes], None]


def ended(reader: Reader, path: Path, content: bytes) -> str:
    """Return how reading ends: `admitted`, or the name of the error. Anything but evseq's own errors passes through."""
    path.write_bytes(content)
    try:
        reader.reads(path, content)
    except EvseqError as error:
        told = str(error)
        assert "\n  help: " in told, told
        assert len(told) < 4000, told[:200]
        return type(error).__name__
    return "admitted"


def _cache(folder: Path) -> bytes:
    tensors = {
        "layer.0.keys": torch.arange(24, dtype=torch.float32).view(2, 3, 4),
        "layer.0.length": torch.tensor(7),
        "layer.1.held": torch.tensor([True, False]),
        "nothing": torch.zeros(0, 3),
    }
    identity = Identity(values={"salt": "tenant", "prefix.tokens": [["a", [17, 4, 59]]], "model.config": {"a": [1.5]}})
    scalars: dict[str, Scalar] = {"length": 3, "held": [1, 2.5, None, True, {"a": "b"}]}
    seal(folder / "made", kind=SealedKind.CACHE, identity=identity, tensors=tensors, scalars=scalars)
    return (folder / "made").read_bytes()


def _read_cache(path: Path, content: bytes) -> None:
    found = open_sealed(path, kind=SealedKind.CACHE)
    again = path.with_name("again")
    again.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:  # what was sealed under SHA-256 is admitted as it was sealed
        patch.setitem(WRITTEN, SealedKind.CACHE, inspect_header(path).algorithm)
        seal(again, kind=SealedKind.CACHE, identity=found.identity, tensors=found.tensors, scalars=found.scalars)
    assert again.read_bytes() == content, "a cache was admitted that is not as it was sealed"


def _golden(folder: Path) -> bytes:
    write(folder / "made", golden())
    return (folder / "made").read_bytes()


def _read_golden(path: Path, content: bytes) -> None:
    again = path.with_name("again")
    again.unlink(missing_ok=True)
    write(again, read(path))
    assert again.read_bytes() == content, "a golden was admitted that is not as it was written"


PLACE = Place(model="small", revision="v1", script="crop")


def _candidate(folder: Path) -> bytes:
    root = Root(folder=folder)
    propose(root)
    accept(root, [PLACE], reason="so it is", environment={}, today=dt.date(2026, 3, 1))
    propose(root, (0, 1, 2.5))
    return root.candidate(PLACE).read_bytes()


def _sidecar(folder: Path) -> bytes:
    _candidate(folder)
    return Root(folder=folder).sidecar(PLACE).read_bytes()


def _review(path: Path, content: bytes) -> None:
    """Read what lies at `path` as one half of a candidate, the other of which is sound, and tell it to a person."""
    root = Root(folder=path.parent / "root")
    if not root.folder.is_dir():
        _candidate(root.folder)
        for half in (root.candidate(PLACE), root.sidecar(PLACE)):
            half.with_name(f"{half.name}.sound").write_bytes(half.read_bytes())
    for half in (root.candidate(PLACE), root.sidecar(PLACE)):
        half.write_bytes(half.with_name(f"{half.name}.sound").read_bytes())
    half = root.sidecar(PLACE) if content[:1] == b"{" else root.candidate(PLACE)
    half.write_bytes(content)
    whole(review(root, PLACE, parent=None))


def _ledger(folder: Path) -> bytes:
    _candidate(folder)
    return Root(folder=folder).ledger("small").read_bytes()


def _read_ledger(path: Path, content: bytes) -> None:
    root = Root(folder=path.parent / "ledgers")
    root.ledger("small").parent.mkdir(parents=True, exist_ok=True)
    root.ledger("small").write_bytes(content)
    status(root, scripts=("crop",))
    entries = Ledger.read(root.ledger("small")).entries
    assert entries == _entries()[: len(entries)], "a ledger was admitted that says something else"


@cache
def _entries() -> tuple[Entry, ...]:
    with TemporaryDirectory() as folder:
        _ledger(Path(folder))
        return Ledger.read(Root(folder=Path(folder)).ledger("small")).entries


def _witness(folder: Path) -> bytes:
    errors = witness.Errors(histories="ab", uncached=(1e-7, None, 0.25), cached=(0.0, 1.5, None))
    numeric = {"numeric.device": "cpu", "numeric.dtype": "float32"}
    file = folder / "made" / witness.name_of(numeric)
    witness.update(file, "one", errors, numeric=numeric)
    return file.read_bytes()


def _read_witness(path: Path, content: bytes) -> None:
    numeric = {"numeric.device": "cpu", "numeric.dtype": "float32"}
    file = path.with_name(witness.name_of(numeric))
    file.write_bytes(content)
    witness.read(file)


def _recording(folder: Path) -> bytes:
    from playing import played

    played(RECORDED, "reference:full", record=folder)
    (file,) = folder.iterdir()
    return file.read_bytes()


def _judge(path: Path, content: bytes) -> None:
    del content
    pipeline.judge(path)


READERS: Mapping[str, Reader] = {
    reader.name: reader
    for reader in (
        Reader(name="cache", made=_cache, mutated=mutating.sealed, reads=_read_cache),
        Reader(name="golden", made=_golden, mutated=mutating.sealed, reads=_read_golden),
        Reader(name="candidate", made=_candidate, mutated=mutating.sealed, reads=_review),
        Reader(name="sidecar", made=_sidecar, mutated=mutating.json_file, reads=_review),
        Reader(name="ledger", made=_ledger, mutated=mutating.text, reads=_read_ledger),
        Reader(name="witness", made=_witness, mutated=mutating.json_file, reads=_read_witness),
        Reader(name="recording", made=_recording, mutated=mutating.sealed, reads=_judge),
    )
}
"""Every kind of file that is read back, by name."""


def sample(reader: Reader, made: bytes, seed: int) -> bytes:
    """Return the content number `seed`."""
    return reader.mutated(made, Random(seed))  # noqa: S311 - chance that comes again, no secret
