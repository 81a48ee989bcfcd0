"""Fresh: the same target in a process that never saw the session.

Requests and answers are pickled over pipes between this process and a child it started itself; no file is ever
unpickled.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import torch
from jaxtyping import Float
from torch import Tensor

from evseq.cache.state import CacheState, Scalar
from evseq.engines.protocol import Batch, CacheView, Engine, Probe, Session
from evseq.engines.registry import find
from evseq.errors import EngineError
from evseq.geometry import Dtype, Layout
from evseq.history import Path as History
from evseq.replay.asking import Answer, Claim, ask

__all__ = ["Fresh", "RemoteEngine", "RemoteSession", "serve"]

Key = tuple[str, Dtype, tuple[tuple[str, str], ...]]
"""Target, dtype and options: one engine of the child."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One request to the child: a method of an engine, or of one of its sessions."""

    key: Key
    session: int | None
    method: str
    arguments: tuple[Any, ...]
    released: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Handle:
    """A session that stays in the child."""

    number: int


class Fresh:
    """A child process, started when first needed. One serves a whole run; every engine in it is its own."""

    def __init__(self, *, threads: int = 1) -> None:
        self.threads = threads
        self.released: list[int] = []
        self._child: subprocess.Popen[bytes] | None = None

    def engine(self, target: str, dtype: Dtype, options: Mapping[str, str]) -> RemoteEngine:
        """Return the child's engine of this target, dtype and options."""
        return RemoteEngine(self, (target, dtype, tuple(sorted(options.items()))))

    def call(self, call: _Call) -> Any:
        """Send one request and wait for its answer. Raises what the child raised; EngineError if it died."""
        child = self._child = self._child or self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        gone = tuple(self.released)
        del self.released[: len(gone)]
        try:
            pickle.dump(replace(call, released=gone), child.stdin)
            child.stdin.flush()
            answer = pickle.load(child.stdout)  # noqa: S301 - our own child's pipe
        except (BrokenPipeError, EOFError) as error:
            self._child = None
            raise EngineError(f"the fresh process ended with {child.wait()} during {call.method}") from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """End the child, if there is one."""
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.close()
        child.stdout.close()
        child.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        # The child must find the same modules, also those a test or script put on sys.path.
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        return subprocess.Popen(
            [sys.executable, "-c", f"from evseq.replay.fresh import serve; serve(threads={self.threads})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
        )


class RemoteEngine:
    """An engine whose sessions live in the child; satisfies `Engine`."""

    def __init__(self, fresh: Fresh, key: Key) -> None:
        self._fresh = fresh
        self._key = key

    @property
    def dtype(self) -> Dtype:
        """The dtype it was asked for in."""
        return self._key[1]

    @property
    def forwarded(self) -> int:
        """Token columns forwarded in the child."""
        return int(self._call("forwarded"))

    def identity(self) -> Mapping[str, Scalar]:
        """Read the child's live objects."""
        values: Mapping[str, Scalar] = self._call("identity")
        return values

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Tokenize in the child."""
        return tuple(self._call("tokenize", text))

    def uncached(self, path: History) -> Float[Tensor, "position vocab"]:
        """Run one row without a cache in the child."""
        logits: Tensor = self._call("uncached", path)
        return logits

    def open(self, layout: Layout) -> Session:
        """Open an empty session in the child."""
        return RemoteSession(self._fresh, self._key, self._call("open", layout))

    def ask(self, path: Path, *, claim: Claim) -> Answer:
        """Ask for a sealed cache in the child: file, identity and guard are read there."""
        answer: Answer = self._call("ask", path, claim)
        if answer.session is None:
            return answer
        return replace(answer, session=RemoteSession(self._fresh, self._key, answer.session))

    def _call(self, method: str, *arguments: Any) -> Any:
        return self._fresh.call(_Call(key=self._key, session=None, method=method, arguments=arguments))


class RemoteSession:
    """A session that lives in the child; satisfies `Session`."""

    def __init__(self, fresh: Fresh, key: Key, handle: Any) -> None:
        self._fresh = fresh
        self._key = key
        self._number: int = handle.number
        # Told with the next request: a collection may run in the middle of one.
        weakref.finalize(self, fresh.released.append, self._number)

    def prefill(self, batch: Batch) -> Float[Tensor, "row column vocab"]:
        """Feed the first columns."""
        logits: Tensor = self._call("prefill", batch)
        return logits

    def append(self, batch: Batch) -> Float[Tensor, "row column vocab"]:
        """Feed more columns."""
        logits: Tensor = self._call("append", batch)
        return logits

    def select(self, parents: Sequence[int]) -> None:
        """Make rows copies of their parents."""
        self._call("select", tuple(parents))

    def crop(self, lengths: Sequence[int]) -> None:
        """Keep the first tokens of each row."""
        self._call("crop", tuple(lengths))

    def fork(self) -> Session:
        """Return a second session, in the child too."""
        return RemoteSession(self._fresh, self._key, self._call("fork"))

    def reset(self) -> None:
        """Forget every row."""
        self._call("reset")

    def export(self) -> CacheState:
        """Return a copy of the whole cache."""
        state: CacheState = self._call("export")
        return state

    def restore(self, state: CacheState) -> None:
        """Take over a state."""
        self._call("restore", state)

    def probe(self) -> Probe:
        """Read the child's session."""
        probe: Probe = self._call("probe")
        return probe

    def view(self) -> CacheView | None:
        """Copy keys and values out of the child."""
        view: CacheView | None = self._call("view")
        return view

    def _call(self, method: str, *arguments: Any) -> Any:
        return self._fresh.call(_Call(key=self._key, session=self._number, method=method, arguments=arguments))


def serve(*, threads: int) -> None:
    """Answer requests on standard input until it closes. Prints of libraries go to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    torch.set_num_threads(threads)
    server = _Server()
    while True:
        try:
            call = pickle.load(sys.stdin.buffer)  # noqa: S301 - our own parent's pipe
        except EOFError:
            return
        _answer(answers, server, call)


def _answer(answers: IO[bytes], server: _Server, call: _Call) -> None:
    try:
        with torch.no_grad():
            value = server.do(call)
    except Exception as error:  # noqa: BLE001 - the parent records whatever an engine raises
        value = EngineError(f"{type(error).__name__}: {error}")
    pickle.dump(value, answers)
    answers.flush()


class _Server:
    def __init__(self) -> None:
        self.engines: dict[Key, Engine] = {}
        self.sessions: dict[int, Session] = {}
        self.made = 0

    def do(self, call: _Call) -> Any:
        """Carry out one request."""
        for number in call.released:
            self.sessions.pop(number, None)
        if call.session is not None:
            return self._on_session(call, call.session)
        engine = self._engine(call.key)
        match call.method:
            case "forwarded":
                return engine.forwarded
            case "open":
                return self._keep(engine.open(*call.arguments))
            case "ask":
                path, claim = call.arguments
                answer = ask(path, engine=engine, claim=claim)
                return answer if answer.session is None else replace(answer, session=self._keep(answer.session))
            case method:
                return getattr(engine, method)(*call.arguments)

    def _on_session(self, call: _Call, number: int) -> Any:
        value = getattr(self.sessions[number], call.method)(*call.arguments)
        return self._keep(value) if call.method == "fork" else value

    def _keep(self, session: Session) -> Any:
        self.made += 1
        self.sessions[self.made] = session
        return _Handle(number=self.made)

    def _engine(self, key: Key) -> Engine:
        if key not in self.engines:
            target, dtype, options = key
            self.engines[key] = find(target).load(dtype, dict(options))
        return self.engines[key]
