"""Post: the process that works for one run on one worker of a Dask cluster, and what the worker does with it.

It is a process beside Dask's own: it works in the folder of the run, its main thread is nobody else's, it counts the
threads it is told to, and where it dies the worker lives and can say how. It ends with its lease, a result that the
cluster keeps for whoever runs: no longer than that one asks for it, lives, and is connected.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TYPE_CHECKING

from evseq.crew import GRACE, serve

if TYPE_CHECKING:
    from distributed import Worker

__all__ = ["Ended", "Lease", "greet", "hire", "work"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """In place of a result: the process is gone. `code` is how it ended, None where nobody saw it."""

    code: int | None


class Lease:
    """What the cluster keeps of a post: once nobody wants it, the post is closed. A copy elsewhere holds nothing."""

    def __init__(self, post: Post) -> None:
        weakref.finalize(self, post.close)

    def __reduce__(self) -> tuple[type[object], tuple[()]]:
        return object, ()


def greet(premises: Callable[[], Mapping[str, str]], dask_worker: Worker) -> tuple[str, Mapping[str, str]]:
    """Return who a worker is, another one each time it is started, and what results would rest on here."""
    return dask_worker.id, premises()


def hire(run: str, worker: str, opened: bytes, folder: str) -> Lease | None:
    """Open a post for `run`; None where this is another worker by now."""
    here = _here()
    if here.id != worker:
        return None
    post = Post(opened, folder)
    here.extensions[run] = post
    lease = Lease(post)
    weakref.finalize(lease, here.extensions.pop, run, None)  # a worker outlives many runs
    return lease


def work(run: str, item: bytes) -> bytes | Ended:
    """Have the post of `run` do an item, both pickled; where there is none, it ended with the worker that had it."""
    post = _here().extensions.get(run)
    return post.work(item) if isinstance(post, Post) else Ended(code=None)


def begin(descriptor: int) -> None:
    """Serve whoever started this process, until that one closes either of its pipes or is gone."""
    threading.Thread(target=_left, daemon=True).start()
    connection = Connection(descriptor)
    with contextlib.suppress(EOFError):
        serve(connection, connection.recv())


def _left() -> None:
    """Interrupt this process once nobody holds the other end of its standard input."""
    os.read(0, 1)  # not through `sys.stdin`, whose lock a thread must not hold when Python ends
    os.kill(os.getpid(), signal.SIGTERM)


def _here() -> Worker:
    from distributed import get_worker

    return get_worker()


class Post:
    """At most one process at a time, begun when there is work and again where it died; closed once."""

    def __init__(self, opened: bytes, folder: str) -> None:
        self._opened = opened
        self._folder = folder
        self._one = threading.Lock()  # a worker may have several threads, an engine never
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def work(self, item: bytes) -> bytes | Ended:
        """Do an item; nobody is interrupted for it, and what is closed meanwhile has ended."""
        with self._one:
            if self._closed:
                return Ended(code=None)
            if self._connection is None:
                self._connection = self._begun()
            try:
                self._connection.send_bytes(item)
                return self._connection.recv_bytes()
            except (EOFError, OSError):
                self._connection.close()
                self._connection = None
                return Ended(code=self._gone())

    def close(self) -> None:
        """Have the process end, at once or after what it lets go of; nobody waits for that."""
        self._closed = True
        if self._process is not None:
            threading.Thread(target=self._gone).start()

    def _begun(self) -> Connection:
        ours, theirs = Pipe()
        # It must find the modules that the worker finds.
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from evseq.post import begin; begin({theirs.fileno()})"],
            stdin=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            cwd=Path(self._folder),
            env={**os.environ, "PYTHONPATH": paths},
        )
        theirs.close()
        if self._closed:  # meanwhile, when there was none to be seen
            self.close()
        with contextlib.suppress(OSError):  # that it is gone already is heard in place of an answer
            ours.send_bytes(self._opened)
        return ours

    def _gone(self) -> int:
        """Let go of the process and return how it ended, killed where it does not."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            return process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
