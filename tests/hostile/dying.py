"""Writers that die: real processes, killed before a chosen call to the system or at any moment, and what they left.

Run as `python dying.py KIND,... KILLS [EVERY]`, it prints how often each outcome was found; anything but a whole file,
the old or the new, ends it with the evidence. The processes are forked from one that has loaded everything.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import torch

from candidates import golden, propose
from evseq.cache.header import SealedKind
from evseq.cache.identity import Identity
from evseq.cache.sealed import open_sealed, seal
from evseq.golden import witness
from evseq.golden.acceptance import accept, reject
from evseq.golden.before import adopted
from evseq.golden.candidate import load, settle
from evseq.golden.golden import read, write
from evseq.golden.ledger import Action, Entry, Ledger, append
from evseq.golden.lock import locked
from evseq.golden.root import Place, Root
from evseq.golden.shelf import Shelf
from evseq.golden.status import status
from evseq.golden.terms import Terms
from evseq.script.document import parse
from evseq.script.source import parse_yaml

__all__ = ["WRITERS", "Writer", "crowded", "killed", "taken"]

TODAY = dt.date(2026, 3, 1)
PLACES = tuple(Place(model="small", revision="v1", script=name) for name in ("one", "two"))
NUMERIC = {"numeric.device": "cpu", "numeric.dtype": "float32"}

DONE = "done before"

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - quick, and gone with the machine

SCRIPT = parse(
    parse_yaml(
        "evseq: 1\nname: one\nabout: A test.\nrows: {a: [1, 2]}\nevents: [{prefill: [a]}]\n", file="one.evseq.yaml"
    )
)

CALLS = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "fcntl.flock", "os.scandir", "os.listdir"})
"""What a process is killed before, by the names that Python tells its auditors."""


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
        found = adopted(root, ledger, place)
        assert found.seal == ledger.seal("v1", place.script), "a golden that the ledger does not vouch for"
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


def _next_writer(folder: Path) -> None:
    """Write once more in every folder there is, which sweeps what the killed one left."""
    for inside in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        seal(inside / "next", kind=SealedKind.CACHE, identity=Identity(values={}), tensors={}, scalars={})
    with locked(folder):
        settle(Root(folder=folder))
    left = [path.name for path in folder.rglob(".*")]
    assert left == [], left


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


def killed(writer: Writer, *, kills: int, seed: int, every: int = 1) -> Counter[str]:
    """Kill `kills` writers, one folder each: first before each call in turn, or `every` so manieth, then at any moment.

    Return how often the old version was found, the new one, or that the writer was done before its death.
    """
    chance, outcomes = Random(seed), Counter[str]()  # noqa: S311 - chance that comes again, no secret
    call, usual = 1, 0.0
    while outcomes.total() - outcomes[DONE] < kills:
        with tempfile.TemporaryDirectory(dir=MEMORY) as name:
            folder = Path(name)
            _write(writer, folder, 0)
            writer.prepared(folder, 1)
            began = time.perf_counter()
            if usual:
                ended = _forked(writer, folder, after=chance.uniform(0, 0.8 * usual))
            else:
                ended = _forked(writer, folder, call=call)
                call, usual = call + every, 0.0 if ended else time.perf_counter() - began
            outcomes[_judged(writer, folder, ended)] += 1
    return outcomes


def _judged(writer: Writer, folder: Path, ended: int) -> str:
    number = writer.found(folder)
    assert number in (0, 1), number
    assert number or ended, "done, and the old version is there"
    writer.tidied(folder)
    assert writer.found(folder) == number
    _next_writer(folder)
    _write(writer, folder, number + 1)  # and nothing is in the next one's way
    assert writer.found(folder) == number + 1
    return f"killed, {'new' if number else 'old'}" if ended else DONE


def _write(writer: Writer, folder: Path, number: int) -> None:
    writer.prepared(folder, number)
    writer.writes(folder, number)


def _forked(writer: Writer, folder: Path, *, call: int = 0, after: float = 0.0) -> int:
    """Write version 1 in a process killed before its call number `call`, or `after` seconds; return how it ended."""
    process = os.fork()
    if process == 0:
        code = 1
        with contextlib.suppress(BaseException):
            if call:
                _die_before(call, folder)
            writer.writes(folder, 1)
            code = 0
        os._exit(code)
    if not call:
        time.sleep(after)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert ended in (0, -signal.SIGKILL), ended
    return ended


def _die_before(call: int, folder: Path) -> None:
    left = [call]

    def heard(event: str, arguments: tuple[object, ...]) -> None:
        if event in CALLS and (event == "fcntl.flock" or str(arguments[0]).startswith(str(folder))):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(heard)


def crowded(
    writer: Writer, *, seconds: float, writers: int, readers: int, seed: int, reads: Callable[[Path], object] | None = None
) -> Counter[str]:
    """Let writers, of which one after the other is killed, and readers at one folder; a reader must never fail."""
    chance, outcomes = Random(seed), Counter[str]()  # noqa: S311 - as above
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        folder = Path(name)
        _write(writer, folder, 0)
        until = time.monotonic() + seconds
        reading = [_loop(lambda _: (reads or writer.found)(folder), until) for _ in range(readers)]
        writing = [_loop(lambda number: _write(writer, folder, number), until) for _ in range(writers)]
        while time.monotonic() < until:
            time.sleep(chance.uniform(0, 0.05))
            process = writing.pop(0)
            os.kill(process, signal.SIGKILL)
            outcomes[f"writer {os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])}"] += 1
            writing.append(_loop(lambda number: _write(writer, folder, number), until))
        for process in (*writing, *reading):
            outcomes[f"ended {os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])}"] += 1
        (reads or writer.found)(folder)
        _next_writer(folder)
    return outcomes


def taken(folder: Path) -> None:
    """Find both goldens as a run does: one that was accepted, whoever is at the folder meanwhile."""
    shelf = Shelf(terms=Terms(root=folder))
    for place in PLACES:
        identity = dict(golden().identity.values)
        facts = {"model": "small", "revision": "v1", "identity": identity, "required": True}
        found = shelf.again(replace(SCRIPT, name=place.script), facts)
        # What is said of its identity, which here lacks most fields, comes after the ledger has vouched for the file.
        assert "is another model's: tokenizer.vocabulary" in found.missing, found.missing


def _loop(does: Callable[[int], object], until: float) -> int:
    process = os.fork()
    if process == 0:
        code = 0
        try:
            while time.monotonic() < until:
                does(time.monotonic_ns() % 100_000)
        except BaseException as error:  # noqa: BLE001 - told, whatever it is
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            code = 1
        os._exit(code)
    return process


def main(names: str, kills: str, every: str = "1") -> None:
    """Kill writers of each kind in turn, and tell what was found."""
    torch.set_num_threads(1)
    for name in names.split(","):
        outcomes = killed(WRITERS[name], kills=int(kills), seed=1, every=int(every))
        print(json.dumps({"writer": name, **outcomes}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
