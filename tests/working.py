"""What tests give the workers of a cluster to do, and what is seen of it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from clusters import Cluster
from evseq.cluster import shared
from evseq.crew import LostWorker
from evseq.errors import TargetError

WAIT = 30.0
"""Seconds that something may take which takes a moment."""


def halved(number: int) -> float:
    return number / 2


@contextmanager
def halving() -> Iterator[Callable[[int], float]]:
    yield halved


def refused(_: int) -> float:
    raise TargetError("no such target\n  help: name another")


@contextmanager
def refusing() -> Iterator[Callable[[int], float]]:
    refused(0)
    yield halved


@contextmanager
def working(folder: Path) -> Iterator[Callable[[str], str]]:
    """Do what an item says; what is opened is a file that is removed at the end."""
    mark = folder / f"{os.getpid()}.held"
    mark.touch()
    try:
        yield partial(done, folder)
    finally:
        mark.unlink()


def done(folder: Path, item: str) -> str:
    with (folder / "begun").open("a") as file:
        file.write(f"{os.getppid()} {os.getpid()} {item}\n")
    match item:
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "die once" if begun(folder).count("die once") == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        case "take the worker along" if begun(folder).count(item) == 1:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(WAIT)
        case "stop the worker" if begun(folder).count(item) == 1:
            os.kill(os.getppid(), signal.SIGSTOP)
            time.sleep(WAIT)
        case "wait":
            time.sleep(WAIT)
        case "divide":
            return str(1 / 0)
        case _:
            pass
    return item.upper()


def begun(folder: Path) -> list[str]:
    return [line.split(" ", 2)[2] for line in (folder / "begun").read_text().splitlines()]


def until(true: Callable[[], object]) -> None:
    """Wait for what takes a moment; fail where it does not come."""
    end = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def held(folder: Path) -> list[Path]:
    """Return what is opened now."""
    return list(folder.glob("*.held"))


def same() -> Mapping[str, str]:
    return {"the weather": "fair"}


def told(
    cluster: Cluster, items: Sequence[str], folder: Path, *, devices: Sequence[str | None] | None = None
) -> list[tuple[int, object]]:
    """Have items done; an error is told as its text, a lost worker by how it ended and whether another one did it."""
    given = devices or [None] * len(items)
    return [
        (number, (made.ended, made.again) if isinstance(made, LostWorker) else str(made))
        for number, made in shared(
            partial(working, folder), items, scheduler=cluster.scheduler, devices=given, premises=same
        )
    ]
