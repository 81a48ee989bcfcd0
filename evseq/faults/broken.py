"""Broken: an engine and a session that are healthy in everything a fault leaves alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Self

from jaxtyping import Float
from torch import Tensor

from evseq.cache.claim import RequestRow
from evseq.cache.state import CacheState, Scalar
from evseq.engines.protocol import Batch, CacheView, Drawn, Engine, Pool, Probe, Session
from evseq.geometry import Dtype, Layout
from evseq.history import Path

__all__ = ["BrokenEngine", "BrokenSession", "Forward", "Logits", "Rows"]

Logits = Float[Tensor, "row column vocab"]

Rows = Float[Tensor, "position vocab"]

Forward = Callable[[Batch], Logits]
"""The healthy prefill or append."""


class BrokenSession:
    """A healthy session, asked for everything. A fault overrides what it breaks.

    What a fault remembers stands in attributes of its class, so that a fork begins with what its source remembers.
    """

    def __init__(self, inner: Session, engine: BrokenEngine) -> None:
        self.inner = inner
        self.engine = engine

    def prefill(self, batch: Batch) -> Logits:
        """Feed the first columns, or the next chunk of them."""
        return self.feed(batch, self.inner.prefill)

    def append(self, batch: Batch) -> Logits:
        """Feed more columns."""
        return self.feed(batch, self.inner.append)

    def feed(self, batch: Batch, forward: Forward) -> Logits:
        """Feed columns of either kind: for faults that make no difference between them."""
        return forward(batch)

    def select(self, parents: Sequence[int]) -> None:
        """Make rows copies of their parents."""
        self.inner.select(parents)

    def crop(self, lengths: Sequence[int]) -> None:
        """Keep the first tokens of each row."""
        self.inner.crop(lengths)

    def fork(self) -> Session:
        """Return a second session, broken as this one is."""
        return self.twin()

    def twin(self) -> Self:
        """Return a fork with what this session remembers."""
        twin = copy.copy(self)
        twin.inner = self.inner.fork()
        return twin

    def join(self, other: Session) -> None:
        """Take over the rows of another broken session."""
        inner: Any = self.inner
        inner.join(_inside(other))

    def reset(self) -> None:
        """Forget every row."""
        self.inner.reset()

    def export(self) -> CacheState:
        """Return a copy of the whole cache."""
        return self.inner.export()

    def restore(self, state: CacheState) -> None:
        """Take over a state."""
        self.inner.restore(state)

    def probe(self) -> Probe:
        """Read the healthy session's counts."""
        return self.inner.probe()

    def view(self) -> CacheView | None:
        """Show what is cached."""
        return self.inner.view()


class BrokenEngine:
    """A healthy engine that opens sessions of a broken class. A fault overrides what it breaks."""

    session: type[BrokenSession] = BrokenSession

    def __init__(self, inner: Engine, session: type[BrokenSession] | None = None) -> None:
        self.inner = inner
        self.session = session or self.session

    def __getattr__(self, name: str) -> Any:
        # A reuse rule of its own, and whatever else not every engine has.
        return getattr(self.inner, name)

    @property
    def dtype(self) -> Dtype:
        """The healthy engine's dtype."""
        return self.inner.dtype

    @property
    def forwarded(self) -> int:
        """Token columns that went through the healthy engine's embedding."""
        return self.inner.forwarded

    def identity(self) -> Mapping[str, Scalar]:
        """Read the live objects."""
        return self.inner.identity()

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Tokenize as the healthy engine."""
        return self.inner.tokenize(text)

    def altered(self, field: str, operand: Mapping[str, Any]) -> AbstractContextManager[str | None]:
        """Change a field of the healthy engine, or of a healthy session, while this is entered."""
        inner: Any = self.inner
        inside = {"session": _inside(operand["session"])} if "session" in operand else {}
        changed: AbstractContextManager[str | None] = inner.altered(field, {**operand, **inside})
        return changed

    def uncached(self, path: Path) -> Rows:
        """Run one row without any cache."""
        return self.inner.uncached(path)

    def open(self, layout: Layout) -> Session:
        """Open a broken session."""
        return self.session(self.inner.open(layout), self)

    @property
    def pool(self) -> Pool:
        """The healthy engine's pool, where it has one, that keeps and opens broken sessions."""
        inner: Any = self.inner
        return _BrokenPool(inner.pool, self)


class _BrokenPool:
    """A healthy pool; sessions it opens are broken."""

    def __init__(self, inner: Pool, engine: BrokenEngine) -> None:
        self.inner = inner
        self.engine = engine

    def clear(self) -> None:
        self.inner.clear()

    def keep(self, session: Session, rows: Sequence[RequestRow], *, salt: str | None) -> None:
        self.inner.keep(_inside(session), rows, salt=salt)

    def draw(self, layout: Layout, rows: Sequence[RequestRow], *, salt: str | None) -> Drawn:
        drawn = self.inner.draw(layout, rows, salt=salt)
        return (
            drawn if drawn.session is None else replace(drawn, session=self.engine.session(drawn.session, self.engine))
        )


def _inside(session: Session) -> Session:
    """Return the session that a broken one asks."""
    return session.inner if isinstance(session, BrokenSession) else session
