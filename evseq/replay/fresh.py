"""Fresh: the same target in a process that never saw the session, as an engine like any other."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from evseq.cache.state import CacheState, Scalar
from evseq.engines.protocol import Batch, CacheView, Probe, Session
from evseq.geometry import Dtype, Layout
from evseq.history import Path as History
from evseq.replay.asking import Answer, Claim
from evseq.replay.child import Call, Child, Key

__all__ = ["Fresh", "RemoteEngine", "RemoteSession"]


class Fresh:
    """A child process, started when first needed. One serves a whole run; every engine in it is its own."""

    def __init__(self, *, threads: int = 1) -> None:
        self.threads = threads
        self._child: Child | None = None

    def engine(self, target: str, dtype: Dtype, options: Mapping[str, str]) -> RemoteEngine:
        """Return the child's engine of this target, dtype and options."""
        return RemoteEngine(self, (target, dtype, tuple(sorted(options.items()))))

    def child(self) -> Child:
        """Return the process, another one if it has died."""
        if self._child is None or self._child.ended:
            self._child = Child(threads=self.threads)
        return self._child

    def close(self) -> None:
        """End the child, if there is one."""
        child, self._child = self._child, None
        if child is not None and not child.ended:
            child.end()


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
        child = self._fresh.child()
        return RemoteSession(child, self._key, child.call(self._asked("open", layout)))

    def ask(self, path: Path, *, claim: Claim) -> Answer:
        """Ask for a sealed cache in the child: file, identity and guard are read there."""
        child = self._fresh.child()
        answer: Answer = child.call(self._asked("ask", path, claim))
        if answer.session is None:
            return answer
        return replace(answer, session=RemoteSession(child, self._key, answer.session))

    def _call(self, method: str, *arguments: Any) -> Any:
        return self._fresh.child().call(self._asked(method, *arguments))

    def _asked(self, method: str, *arguments: Any) -> Call:
        return Call(key=self._key, session=None, method=method, arguments=arguments)


class RemoteSession:
    """A session that lives in the child; satisfies `Session`."""

    def __init__(self, child: Child, key: Key, handle: Any) -> None:
        self._child = child
        self._key = key
        self._number: int = handle.number
        # Told with the next request: a collection may run in the middle of one.
        weakref.finalize(self, child.released.append, self._number)

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
        return RemoteSession(self._child, self._key, self._call("fork"))

    def join(self, other: Session) -> None:
        """Take over the rows of another session of the child."""
        assert isinstance(other, RemoteSession)
        self._call("join", other._number)  # noqa: SLF001 - its own kind

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
        return self._child.call(Call(key=self._key, session=self._number, method=method, arguments=arguments))
