"""Prove that a run is the same whoever plays it: one process, two, or two workers of a cluster, one killed midway.

Compared are the whole result, the file of JSON lines and every recording, byte for byte, times aside, and what is said
of the worker that was lost. Where a script of the shipped suite is named, only that one is played.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from clusters import Part, cluster
from evseq.pipeline import Settings, read_scripts, run
from evseq.report.jsonl import JsonLines
from evseq.script.document import Script
from evseq.verdict.result import Case, Result
from timeless import timeless, timeless_lines, timeless_recording

LATER = 0.3
"""Seconds after a script was told of: whoever told it has the next one by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of a run, times aside."""

    result: Result
    lines: Sequence[str]
    recordings: Mapping[str, str]


class Lines(JsonLines):
    """The file of a run, which kills a worker, if there is one to be killed, once half of the cases are told."""

    worker: Part | None = None
    left = 0

    def planned(self, cases: int) -> None:
        """Count from half of them."""
        self.left = cases // 2

    def finished(self, case: Case) -> None:
        """Write a line, and count down."""
        super().finished(case)
        self.left -= 1
        if self.left == 0 and self.worker is not None:
            threading.Timer(LATER, self.worker.kill).start()


def played(scripts: Sequence[Script], folder: Path, settings: Settings, *, kill: Part | None = None) -> Played:
    """Run in an empty folder."""
    folder.mkdir()
    os.chdir(folder)
    file = Lines(Path("run.jsonl"), targets=["reference"], scripts=["suite"], settings={})
    file.worker = kill
    result = run(scripts, ["reference"], settings=replace(settings, record=Path("recordings")), watch=file)
    file.report(replace(result, lost=()))
    file.close()
    recordings = {path.name: digest(path) for path in sorted(Path("recordings").iterdir())}
    return Played(result=timeless(result), lines=timeless_lines(Path("run.jsonl")), recordings=recordings)


def digest(path: Path) -> str:
    """Return a digest of a recording."""
    facts, tensors = timeless_recording(path)
    found = hashlib.sha256(repr(facts).encode())
    for name, bits in tensors.items():
        found.update(f"{name} {len(bits)}\n".encode() + bits)
    return found.hexdigest()


def differences(one: Played, other: Played) -> list[str]:
    """Say what is not the same."""
    found = [] if replace(other.result, lost=()) == replace(one.result, lost=()) else ["the result"]
    found += [f"line {n}" for n, pair in enumerate(zip(one.lines, other.lines, strict=False), 1) if len(set(pair)) > 1]
    found += ["the number of lines"] if len(one.lines) != len(other.lines) else []
    names = {**one.recordings, **other.recordings}
    return found + [name for name in names if one.recordings.get(name) != other.recordings.get(name)]


def main() -> int:
    """Tell how each way compares with one process; return 1 where anything differs or no worker was lost."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("scripts", nargs="*", help="names of scripts of the suite, all if left out")
    given = arguments.parse_args()
    suite = read_scripts([], suite=True)
    if unknown := sorted({*given.scripts} - {one.name for one in suite}):
        arguments.error(f"no script of the suite: {', '.join(unknown)}")
    scripts = [one for one in suite if not given.scripts or one.name in given.scripts]
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="evseq-")))
        (folder / "cluster").mkdir()
        started = time.perf_counter()
        alone = played(scripts, folder / "alone", Settings())
        cases, recordings = len(alone.result.cases), len(alone.recordings)
        print(f"alone: {cases} cases, {recordings} recordings, {time.perf_counter() - started:.0f} s", flush=True)
        dask = held.enter_context(cluster(folder / "cluster"))
        fine = True
        for name, settings, kill in (
            ("two processes", Settings(workers=2), None),
            ("two workers of a cluster", Settings(scheduler=dask.scheduler), None),
            ("two workers of a cluster, one killed", Settings(scheduler=dask.scheduler), dask.parts[1]),
        ):
            started = time.perf_counter()
            found = played(scripts, folder / name, settings, kill=kill)
            wrong = differences(alone, found)
            fine = fine and not wrong and bool(found.result.lost) == (kill is not None)
            equal = f"DIFFERS: {', '.join(wrong[:10])}" if wrong else "equal"
            print(f"{name}: {equal}, {time.perf_counter() - started:.0f} s", *found.result.lost, sep="\n  ", flush=True)
        os.chdir(Path(__file__).parent)  # a folder that is worked in cannot be removed everywhere
    print("all equal" if fine else "NOT EQUAL, or nothing was lost")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
