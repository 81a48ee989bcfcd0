"""Altering: what is changed of an engine, or of what a session holds, while a plan is played, and put back after it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from evseq.cache.state import CacheState, Scalar
from evseq.engines.protocol import Engine, Session
from evseq.errors import EngineError
from evseq.geometry import Description

__all__ = ["Changes", "Made", "cast", "made"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a session was filled by: the engine's fields and description as they were then."""

    fields: Mapping[str, Scalar]
    description: Description | None


def made(engine: Engine) -> Made:
    """Return what the engine is now."""
    return Made(fields=engine.identity(), description=getattr(engine, "description", None))


@dataclass(slots=True, kw_only=True)
class _Change:
    field: str
    operand: Mapping[str, Any]
    entered: AbstractContextManager[str | None]


@dataclass(slots=True, kw_only=True)
class Changes:
    """What is changed now, the oldest change first."""

    engine: Engine
    _now: dict[tuple[str, str], _Change] = field(default_factory=dict)

    def alter(self, name: str, operand: Mapping[str, Any], *, session: str = "") -> str | None:
        """Change a field; return the key inside its value, where the engine names one."""
        change = _Change(field=name, operand=operand, entered=self._altered(name, operand))
        key = change.entered.__enter__()
        self._now[name, session] = change
        return key

    def restore(self, name: str, *, session: str = "") -> None:
        """Put a field back."""
        self._now.pop((name, session)).entered.__exit__(None, None, None)

    def close(self) -> None:
        """Put everything back, the last change first."""
        for name, session in reversed(list(self._now)):
            self.restore(name, session=session)

    @contextlib.contextmanager
    def undone(self) -> Iterator[None]:
        """Put everything back for a while."""
        for change in reversed(self._now.values()):
            change.entered.__exit__(None, None, None)
        try:
            yield
        finally:
            for key, change in self._now.items():
                entered = self._altered(change.field, change.operand)
                entered.__enter__()
                self._now[key] = replace(change, entered=entered)

    def _altered(self, name: str, operand: Mapping[str, Any]) -> AbstractContextManager[str | None]:
        altered = getattr(self.engine, "altered", None)
        if altered is None:
            raise EngineError(f"mutate: this engine cannot change {name}\n  help: give it a method `altered`")
        entered: AbstractContextManager[str | None] = altered(name, operand)
        return entered


def cast(state: CacheState, session: Session) -> CacheState:
    """Return a state with the number formats that `session` exports, as a runtime does that does not look at them."""
    like = session.export().tensors
    tensors = {
        name: tensor.to(like[name].dtype) if name in like and torch.is_floating_point(tensor) else tensor
        for name, tensor in state.tensors.items()
    }
    return replace(state, tensors=tensors)
