"""Fuzz every reader of files for a while: by coverage, with mutations that know the format, then by properties.

Each reader runs in a process of its own under libFuzzer (atheris). A content that ends in anything but evseq's own
errors, or is admitted as what no writer would have written, is kept under `.nox/fuzz` and fails the run; so does one
that takes longer than `HANG` seconds or more than `MEMORY` MB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".nox" / "fuzz"
CORPUS = ROOT / "tests" / "hostile" / "corpus"
NAMES = ("cache", "golden", "candidate", "sidecar", "ledger", "witness", "recording")
"""The readers of `tests/hostile/reading.py`, named here so that the parent imports none of it."""

HANG = 10
"""Seconds for one content; the slowest sound one takes a hundredth."""

MEMORY = 1500
"""MB that a process may hold; torch, evseq and the fuzzer alone take a fifth."""

LONGEST = 1 << 16

MEMORY_DISK = "/dev/shm"  # noqa: S108 - hundreds of files a second, and none to keep

EVERY = 5.0
"""Seconds between two notes of how far it is: libFuzzer ends a process without a word to Python."""


def main() -> int:
    """Fuzz all readers, or in a child one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0, help="over all readers together (default 20)")
    parser.add_argument("--reader", choices=NAMES, action="append", help="only this one; may be repeated")
    parser.add_argument("--child", metavar="FOLDER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.reader or list(NAMES)
    seconds = max(1, round(60 * given.minutes / len(names)))
    if given.child:
        child(names[0], Path(given.child), seconds=seconds)
    told = [fuzz(name, seconds=seconds) for name in names]
    columns = ("reader", "files", "edges", "peak MB", "endings", "failures")
    for row in (columns, *(tuple(str(one[column]) for column in columns) for one in told)):
        print("".join(f"{cell:>11}" for cell in row))
    for one in told:
        print(f"{one['reader']}: {', '.join(f'{name} {count}' for name, count in one['ended'].items())}")
        for failure in one["kept"]:
            print(f"  FAILED {failure}")
    print(f"{sum(one['files'] for one in told):,} files, {sum(one['failures'] for one in told)} failures")
    return 1 if any(one["failures"] for one in told) else 0


def fuzz(name: str, *, seconds: int) -> dict[str, Any]:
    """Run one reader in a process and return what it noted; a process that ended otherwise is a failure."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    notes, log = folder / "notes.json", folder / "log"
    notes.unlink(missing_ok=True)
    arguments = [sys.executable, __file__, "--reader", name, "--minutes", str(seconds / 60), "--child", str(folder)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    with log.open("wb") as out:
        ended = subprocess.run(
            arguments, env={**os.environ, "PYTHONPATH": path}, stdout=out, stderr=subprocess.STDOUT, check=False
        )
    told: dict[str, Any] = json.loads(notes.read_text()) if notes.exists() else {"files": 0, "ended": {}, "kept": []}
    lines = log.read_text(errors="replace").splitlines()
    edges = [line.split(" ft:")[0].split("cov: ")[1] for line in lines if "cov: " in line]
    peaks = [int(line.split()[-1]) for line in lines if line.startswith("stat::peak_rss_mb")]
    if ended.returncode:
        told["kept"].append(f"{name}: exit code {ended.returncode}, see {log}")
    endings = len(told["ended"])
    peak = max(peaks, default=told.get("peak", 0))
    failures = len(told["kept"])
    return {**told, "reader": name, "edges": edges[-1] if edges else "-", "peak MB": peak} | {
        "endings": endings,
        "failures": failures,
    }


def child(name: str, folder: Path, *, seconds: int) -> None:
    """Fuzz one reader until libFuzzer ends the process."""
    import atheris

    rooms = (
        "evseq.cache",
        "evseq.golden",
        "evseq.replay.keep",
        "evseq.replay.plain",
        "evseq.replay.facts",
        "evseq.verdict",
    )
    with atheris.instrument_imports(include=list(rooms)):
        from hostile.reading import READERS, ended
    reader = READERS[name]
    work = Path(tempfile.mkdtemp(prefix="evseq-fuzz-", dir=MEMORY_DISK if Path(MEMORY_DISK).is_dir() else None))
    (work / "made").mkdir()
    seeds, found = work / "seeds", folder / "found"
    seeds.mkdir()
    found.mkdir(exist_ok=True)
    (seeds / "sound").write_bytes(reader.made(work / "made"))
    counts: Counter[str] = Counter()
    kept: dict[str, str] = {}
    noted = [time.monotonic()]

    def note() -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        told = {"files": counts.total(), "ended": dict(counts.most_common()), "kept": list(kept.values()), "peak": peak}
        (folder / "notes.json").write_text(json.dumps(told))
        noted[0] = time.monotonic()

    def one(content: bytes) -> None:
        try:
            counts[ended(reader, work / "file", content)] += 1
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
            counts["FAILED"] += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            key = f"{type(error).__name__} at {where.filename}:{where.lineno}"
            if key not in kept:
                file = folder / f"failed-{len(kept)}"
                file.write_bytes(content)
                kept[key] = f"{file}: {key}: {str(error)[:200]}"
                note()
        if time.monotonic() - noted[0] > EVERY:
            note()

    def mutate(content: bytes, size: int, seed: int) -> bytes:
        return reader.mutated(content, Random(seed))[:size]  # noqa: S311 - chance, no secret

    note()
    limits = [f"-timeout={HANG}", f"-rss_limit_mb={MEMORY}", f"-max_len={LONGEST}", f"-artifact_prefix={folder}/"]
    flags = ["-print_final_stats=1", f"-max_total_time={seconds}", *limits]
    corpus = [str(path) for path in (found, seeds, CORPUS / name) if path.is_dir()]
    atheris.Setup([sys.argv[0], *flags, *corpus], one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
