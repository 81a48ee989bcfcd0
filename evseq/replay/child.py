"""Child: one process started for reloads, and the pipes to it.

Requests and answers are pickled over pipes between this process and a child it started itself; no file is ever
unpickled.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import IO, Any

from evseq.errors import EngineError
from evseq.geometry import Dtype

__all__ = ["Call", "Child", "Handle", "Key"]

Key = tuple[str, Dtype, tuple[tuple[str, str], ...]]
"""Target, dtype and options: one engine of the child."""

GRACE = 10.0
"""Seconds a child has to end by itself once its pipes are closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to the child: a method of an engine, or of one of its sessions."""

    key: Key
    session: int | None
    method: str
    arguments: tuple[Any, ...]
    released: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """A session that stays in the child."""

    number: int


class Child:
    """One process from start to end. A session belongs to the child that opened it and ends with it."""

    def __init__(self, *, threads: int) -> None:
        self.released: list[int] = []
        self.ended = False
        # The child must find the same modules, also those a test or script put on sys.path.
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"from evseq.replay.serving import serve; serve(threads={threads})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
        )

    def call(self, call: Call) -> Any:
        """Send one request and wait for its answer. Raises what the child raised; EngineError if it died."""
        if self.ended:
            raise EngineError(f"the fresh process this belongs to has ended, no {call.method}")
        requests, answers = self._pipes()
        gone = tuple(self.released)
        del self.released[: len(gone)]
        request = pickle.dumps(replace(call, released=gone))
        try:
            requests.write(request)
            requests.flush()
            answer = pickle.load(answers)  # noqa: S301 - our own child's pipe
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            told = f"the fresh process ended with {self.end()} before it answered {call.method}"
            raise EngineError(told) from error
        except BaseException:  # half a message is in a pipe: nothing after it could be understood
            self.process.kill()
            self.end()
            raise
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> int:
        """Close the pipes and return how the process ended; it is killed if it does not end by itself."""
        self.ended = True
        for pipe in self._pipes():
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            return self.process.wait(timeout=GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        return self.process.stdin, self.process.stdout
