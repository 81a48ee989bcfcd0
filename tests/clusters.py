"""A real Dask cluster on loopback, of processes that a test may kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parent.parent

HERE = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests")))}
"""What lets a process find evseq and what tests share."""

READY = {"scheduler": re.compile(r"Scheduler at: +(\S+)"), "worker": re.compile(r"Start worker at: +(\S+)")}


@dataclass(slots=True, kw_only=True)
class Part:
    """A process of the cluster, and the address it has."""

    process: subprocess.Popen[bytes]
    address: str

    def kill(self) -> None:
        """End it as a machine does that fails."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@dataclass(kw_only=True)
class Cluster:
    """A scheduler and its workers, which are ended when it is left."""

    folder: Path
    env: Mapping[str, str] = field(default_factory=lambda: HERE)
    parts: list[Part] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.start("scheduler", "--port", "0", env=self.env)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for part in reversed(self.parts):
            part.kill()

    @property
    def scheduler(self) -> str:
        """Its address."""
        return self.parts[0].address

    def worker(self, *options: str, env: Mapping[str, str] = HERE, again: bool = False) -> Part:
        """Start a worker, which Dask starts again if that is wanted, and wait until the scheduler knows it."""
        nanny = "--nanny" if again else "--no-nanny"
        return self.start("worker", self.scheduler, nanny, "--nthreads", "2", *options, env=env)

    def start(self, what: str, *arguments: str, env: Mapping[str, str] = HERE) -> Part:
        """Start a process and wait until it is ready."""
        log = self.folder / f"{len(self.parts)}.log"
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *arguments, "--host", "127.0.0.1"]
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*command, "--no-dashboard"], cwd=self.folder, env={**os.environ, **env}, stdout=file, stderr=file
            )
        part = Part(process=process, address="")
        self.parts.append(part)
        wanted = "Registered to:" if what == "worker" else "Scheduler at:"
        while wanted not in (text := log.read_text()):
            assert process.poll() is None, text
            time.sleep(0.05)
        found = READY[what].search(text)
        assert found is not None
        part.address = found[1]
        return part


@contextmanager
def cluster(folder: Path, *, workers: int = 2) -> Iterator[Cluster]:
    """Start a cluster with so many workers."""
    with Cluster(folder=folder) as started:
        for _ in range(workers):
            started.worker()
        yield started
