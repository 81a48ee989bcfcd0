"""Writers: everything that outlives a process, as one process writes it, and what must be found of it afterwards."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from candidates import golden, propose
from evseq.cache.header import SealedKind
from evseq.cache.identity import Identity
from evseq.cache.sealed import open_sealed, seal
from evseq.golden import witness
from evseq.golden.acceptance import accept, reject
from evseq.golden.candidate import load, settle
from evseq.golden.golden import read, write
from evseq.golden.ledger import Action, Entry, Ledger, append
from evseq.golden.lock import locked
from evseq.golden.reader import Reader
from evseq.golden.root import Place, Root
from evseq.golden.shelf import Shelf
from evseq.golden.status import status
from evseq.golden.terms import Terms
from evseq.script.document import parse
from evseq.script.source import parse_yaml

__all__ = ["PLACES", "WRITERS", "Writer", "next_writer", "taken"]

TODAY = dt.date(2026, 3, 1)
PLACES = tuple(Place(model="small", revision="v1", script=name) for name in ("one", "two"))
NUMERIC = {"numeric.device": "cpu", "numeric.dtype": "float32"}


SCRIPT = parse(
    parse_yaml(
        "evseq: 1\nname: one\nabout: A test.\nrows: {a: [1, 2]}\nevents: [{prefill: [a]}]\n", file="one.evseq.yaml"
    )
)


@dataclass(frozen=True, kw_only=True)
class Writer:
    """What one process writes, in version `number` over the one before, and what must hold of a folder afterwards.

    `found` returns the version that is there, and raises where it is none: half a file, a mixture, a lost one.
    `prepared` is done before the process that may die begins, `tidied` is the next command after its death.
    """

    name: str
    writes: Callable[[Path, int], None]
    found: Callable[[Path], int]
    prepared: Callable[[Path, int], None] = lambda *_: None
    tidied: Callable[[Path], None] = lambda *_: None


def _tensors(number: int) -> dict[str, torch.Tensor]:
    return {"keys": torch.full((1 << 14,), float(number)), "length": torch.tensor(number)}


def _seal(folder: Path, number: int, *, kind: SealedKind) -> None:
    nobody, tensors = Identity(values={}), _tensors(number)
    seal(folder / "file", kind=kind, identity=nobody, tensors=tensors, scalars={"number": number})


def _sealed(folder: Path, *, kind: SealedKind) -> int:
    found = open_sealed(folder / "file", kind=kind)
    number = found.scalars["number"]
    assert isinstance(number, int)
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in _tensors(number).items())
    return number


def _write_golden(folder: Path, number: int) -> None:
    write(folder / "small" / "v1" / "one.safetensors", golden((0, 0, float(number))))


def _golden(folder: Path) -> int:
    return _number(read(folder / "small" / "v1" / "one.safetensors"))


def _number(found: object) -> int:
    return int(found.logits.logits[0, 0])  # type: ignore[attr-defined]  # a full golden


def _propose(folder: Path, number: int) -> None:
    propose(Root(folder=folder), (0, 0, float(number)), at="small/v1/one", target=f"reference:full-{number}")


def _candidate(folder: Path) -> int:
    candidate, found = load(Root(folder=folder), PLACES[0])
    assert candidate.target == f"reference:full-{_number(found)}", "the halves of two candidates"
    assert not status(Root(folder=folder), scripts=("one",)).halves
    return _number(found)


def _propose_all(folder: Path, number: int) -> None:
    for place in PLACES:
        propose(Root(folder=folder), (0, 0, float(number)), at=str(place))


def _accept(folder: Path, number: int) -> None:
    """Accept two candidates at once."""
    root = Root(folder=folder)
    accept(root, PLACES, reason=f"number {number}", environment={}, today=TODAY)


def _accepted(folder: Path) -> int:
    """Return the version of both goldens, as a run would take them: those that the ledger vouches for."""
    root, ledger = Root(folder=folder), Ledger.read(Root(folder=folder).ledger("small"))
    numbers = set()
    for place in PLACES:
        seal = ledger.seal("v1", place.script)
        found = Reader().read(root, place, seal)
        assert found.seal == seal, "a golden that the ledger does not vouch for"
        numbers.add(_number(found))
    assert {int(ledger.entries[-1].reason.split()[-1])} == numbers, "goldens of two decisions"
    return numbers.pop()


def _finish(folder: Path) -> None:
    """Let the next command finish, and find everything in order."""
    root = Root(folder=folder)
    left = status(root, scripts=("one", "two"))
    if left.candidates:
        reject(root, [place for place, _ in left.candidates])
    if left.unfinished:
        accept(root, left.unfinished, reason="the same", environment={}, today=TODAY)
    assert status(root, scripts=("one", "two")).problems == (), status(root, scripts=("one", "two")).problems


def _append(folder: Path, number: int) -> None:
    scripts: dict[str, str | None] = {"one": f"{number:064x}"}
    entry = Entry(
        revision="v1", date=TODAY, reason=f"number {number}", action=Action.ACCEPTED, weights="a", scripts=scripts
    )
    append(folder / "small" / "LEDGER.yaml", entry)


def _entries(folder: Path) -> int:
    entries = Ledger.read(folder / "small" / "LEDGER.yaml").entries
    assert [int(entry.reason.split()[-1]) for entry in entries] == list(range(len(entries)))
    return len(entries) - 1


def _witness(folder: Path, number: int) -> None:
    errors = witness.Errors(histories="ab", uncached=(float(number),), cached=(float(number),))
    witness.update(folder / witness.name_of(NUMERIC), "one", errors, numeric=NUMERIC)


def _witnessed(folder: Path) -> int:
    found = witness.read(folder / witness.name_of(NUMERIC))
    assert found is not None
    (uncached,) = found.scripts["one"].uncached
    assert found.scripts["one"].cached == (uncached,)
    return int(uncached or 0)


def next_writer(folder: Path) -> None:
    """Write once more in every folder there is, which sweeps what the killed one left."""
    for inside in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        seal(inside / "next", kind=SealedKind.CACHE, identity=Identity(values={}), tensors={}, scalars={})
    with locked(folder):
        settle(Root(folder=folder))
    left = [path.name for path in folder.rglob(".*")]
    assert left == [], left


def taken(folder: Path) -> None:
    """Find both goldens as a run does: one that was accepted, whoever is at the folder meanwhile."""
    shelf = Shelf(terms=Terms(root=folder))
    for place in PLACES:
        identity = dict(golden().identity.values)
        facts = {"model": "small", "revision": "v1", "identity": identity, "required": True}
        found = shelf.again(replace(SCRIPT, name=place.script), facts)
        # What is said of its identity, which here lacks most fields, comes after the ledger has vouched for the file.
        assert "is another model's: tokenizer.vocabulary" in found.missing, found.missing


WRITERS: Mapping[str, Writer] = {
    writer.name: writer
    for writer in (
        Writer(
            name="cache",
            writes=lambda folder, number: _seal(folder, number, kind=SealedKind.CACHE),
            found=lambda folder: _sealed(folder, kind=SealedKind.CACHE),
        ),
        Writer(
            name="recording",
            writes=lambda folder, number: _seal(folder, number, kind=SealedKind.RECORDING),
            found=lambda folder: _sealed(folder, kind=SealedKind.RECORDING),
        ),
        Writer(name="golden", writes=_write_golden, found=_golden),
        Writer(name="candidate", writes=_propose, found=_candidate),
        Writer(name="accept", writes=_accept, found=_accepted, prepared=_propose_all, tidied=_finish),
        Writer(name="ledger", writes=_append, found=_entries),
        Writer(name="witness", writes=_witness, found=_witnessed),
    )
}
"""Everything that outlives a process, by name."""
