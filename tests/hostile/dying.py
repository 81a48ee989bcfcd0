"""Writers that die: real processes, killed before a chosen call to the system or at any moment, and what they left.

Run as `python dying.py KIND,... KILLS [EVERY]`, it prints how often each outcome was found; anything but a whole file,
the old or the new, ends it with the evidence. The processes are forked from one that has loaded everything.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import torch

from hostile.writing import WRITERS, Writer, next_writer

__all__ = ["MEMORY", "crowded", "killed"]

DONE = "done before"

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - quick, and gone with the machine

CALLS = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "fcntl.flock", "os.scandir", "os.listdir"})
"""What a process is killed before, by the names that Python tells its auditors."""


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
    next_writer(folder)
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
    writer: Writer,
    *,
    seconds: float,
    writers: int,
    readers: int,
    seed: int,
    reads: Callable[[Path], object] | None = None,
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
        next_writer(folder)
    return outcomes


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
