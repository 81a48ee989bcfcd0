"""Broken engines whose fault is on the uncached side too, and their one-sided twins: `planted.sides:NAME`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from evseq.cache.canonical import Scalar
from evseq.engines.reference import loader as healthy
from evseq.engines.reference.engine import ReferenceEngine
from evseq.engines.reference.session import ReferenceSession
from evseq.geometry import Description, Dtype, Layout
from evseq.history import Path

THETA = 1010.0
"""The rotary base of the fault; that of the weights is 1000."""


@dataclass(slots=True, kw_only=True)
class TwoBases:
    """A healthy engine for uncached forwards, one with another rotary base for sessions, or the other way round."""

    cached: ReferenceEngine
    alone: ReferenceEngine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cached, name)

    def uncached(self, path: Path) -> Any:
        return self.alone.uncached(path)

    def open(self, layout: Layout) -> ReferenceSession:
        return self.cached.open(layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """The reference engine whose code has another rotary base: in its cached steps, its uncached forward, or both."""

    cached: bool
    uncached: bool

    def describe(self) -> Description:
        return healthy("full").describe()

    def tokenize(self, text: str) -> tuple[int, ...]:
        return healthy("full").tokenize(text)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> TwoBases:
        return TwoBases(cached=_engine(dtype, turned=self.cached), alone=_engine(dtype, turned=self.uncached))


def _engine(dtype: Dtype, *, turned: bool) -> ReferenceEngine:
    engine = healthy("full").load(dtype, {})
    if turned:
        engine.decoder.config = replace(engine.decoder.config, theta=THETA)
    return engine


def both_sides() -> Turned:
    """Change the base everywhere: cached and uncached agree."""
    return Turned(cached=True, uncached=True)


def cached_side() -> Turned:
    """Change the base in cached steps."""
    return Turned(cached=True, uncached=False)


def uncached_side() -> Turned:
    """Change the base in the uncached forward."""
    return Turned(cached=False, uncached=True)


@dataclass(slots=True, kw_only=True)
class Nameless:
    """The healthy engine, which does not say whose weights it has."""

    engine: ReferenceEngine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def identity(self) -> Mapping[str, Scalar]:
        known = self.engine.identity()
        return {name: known[name] for name in known if name != "weights.source"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Anonymous(Turned):
    """Loads nameless engines."""

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Any:
        return Nameless(engine=_engine(dtype, turned=False))


def nobody() -> Anonymous:
    """Leave the weights out of the identity."""
    return Anonymous(cached=False, uncached=False)
