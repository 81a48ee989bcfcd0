"""Serving: the other end of the pipes, where a child opens engines and keeps their sessions."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
from dataclasses import replace
from typing import Any

import torch

from evseq.engines.protocol import Engine, Session
from evseq.engines.registry import find
from evseq.errors import CacheError, EngineError
from evseq.replay.asking import ask
from evseq.replay.child import Call, Handle, Key
from evseq.replay.joining import joined
from evseq.replay.opening import told

__all__ = ["serve"]


def serve(*, threads: int) -> None:
    """Answer requests on standard input until it closes. Prints of libraries go to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt goes to the parent too, which ends this process
    torch.set_num_threads(threads)
    server = _Server()
    with contextlib.suppress(EOFError, BrokenPipeError, pickle.UnpicklingError):  # the parent is gone
        while True:
            call = pickle.load(sys.stdin.buffer)  # noqa: S301 - our own parent's pipe
            answers.write(_answer(server, call))
            answers.flush()


def _answer(server: _Server, call: Call) -> bytes:
    """Return the answer, which for whatever an engine raises is an error the parent can read."""
    try:
        with torch.no_grad():
            return pickle.dumps(server.do(call))
    except (CacheError, EngineError) as error:
        return pickle.dumps(error if isinstance(error, CacheError) else EngineError(str(error)))
    except Exception as error:  # noqa: BLE001 - the parent records it
        return pickle.dumps(EngineError(told(error)))


class _Server:
    """The engines and sessions of this process, by key and by number."""

    def __init__(self) -> None:
        self.engines: dict[Key, Engine] = {}
        self.sessions: dict[int, Session] = {}
        self.made = 0

    def do(self, call: Call) -> Any:
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

    def _on_session(self, call: Call, number: int) -> Any:
        if call.method == "join":
            (other,) = call.arguments
            return joined(self.sessions[number], self.sessions[other])
        value = getattr(self.sessions[number], call.method)(*call.arguments)
        return self._keep(value) if call.method == "fork" else value

    def _keep(self, session: Session) -> Any:
        self.made += 1
        self.sessions[self.made] = session
        return Handle(number=self.made)

    def _engine(self, key: Key) -> Engine:
        if key not in self.engines:
            target, dtype, options = key
            self.engines[key] = find(target).load(dtype, dict(options))
        return self.engines[key]
