"""A decoder described, not loaded: what a plan can know before any weight is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

__all__ = [
    "PROCESSOR",
    "CacheKind",
    "Capability",
    "Deciding",
    "Description",
    "Dtype",
    "Geometry",
    "Keep",
    "Layer",
    "Layout",
    "PoolShape",
    "PositionRule",
    "Positions",
    "Promise",
    "WindowCounts",
]


PROCESSOR = "cpu"
"""The device that every machine has."""


class Dtype(StrEnum):
    """A number format, with what the allowances need of it."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"

    @property
    def epsilon(self) -> float:
        """Distance from 1 to the next number (IEEE 754; bfloat16 has 7 fraction bits)."""
        bits = {Dtype.FLOAT64: 52, Dtype.FLOAT32: 23, Dtype.BFLOAT16: 7, Dtype.FLOAT16: 10}
        return 2.0 ** -bits[self]

    @property
    def itemsize(self) -> int:
        """Bytes of one number."""
        return {Dtype.FLOAT64: 8, Dtype.FLOAT32: 4, Dtype.BFLOAT16: 2, Dtype.FLOAT16: 2}[self]


class Deciding(StrEnum):
    """The arm that judges logic: float64 all through, float64 with some float32 inside, or float32."""

    PURE = "float64, pure"
    MIXED = "float64, mixed"
    SINGLE = "float32"

    @property
    def dtype(self) -> Dtype:
        """The dtype in which the truth is computed."""
        return Dtype.FLOAT32 if self is Deciding.SINGLE else Dtype.FLOAT64


class PositionRule(StrEnum):
    """How an engine numbers tokens when positions are left to it."""

    MASK = "mask"  # count of unmasked slots before the token
    SLOT = "slot"  # index of the token's slot, pads and holes included


class Positions(StrEnum):
    """The built-in arm `positions`: who numbers the tokens."""

    GIVEN = "given"
    ENGINE = "engine"


class WindowCounts(StrEnum):
    """What a sliding window counts: a row's own tokens, or slots with pads and holes."""

    POSITIONS = "positions"
    SLOTS = "slots"


class Capability(StrEnum):
    """Something a plan may need of an engine."""

    BATCH = "batch"  # more than one row
    PADDING = "padding"  # masked slots before a row's tokens in a prefill
    TRAILING = "trailing"  # masked slots behind a row's tokens in a prefill
    HOLES = "holes"  # masked slots between a row's tokens
    RAGGED = "ragged"  # rows fed or cropped by different numbers in one step
    BEAM = "beam"  # select
    CROP = "crop"
    JOIN = "join"  # the rows of another session enter this one
    FORK = "fork"
    SERIALIZE = "serialize"  # export and restore
    RESET = "reset"  # drop what is cached, keep the buffers
    TOGETHER = "together"  # several tokens in one forward onto a filled cache
    POSITIONS = "positions"  # positions given with the tokens
    TEXT = "text"  # a tokenizer
    FRESH = "fresh"  # the target is text, so another process can open it
    POOL = "pool"  # what sessions held that ended serves later requests


class Promise(StrEnum):
    """What a cache kind promises, printed in every verdict."""

    EXACT = "exact"  # held to the uncached forward, and to goldens
    MASKED = "masked"  # held to an uncached forward under what its policy declares of each token
    LOSSY = "lossy"  # held to `solo`, each row replayed alone, and to an envelope around the uncached forward


class Keep(StrEnum):
    """How many slots of a layer a cache kind keeps."""

    EVERY = "every"  # each slot fed so far
    CAPACITY = "capacity"  # all slots of the layout, allocated at once
    RING = "ring"  # window + deepest crop, never more than the capacity, allocated at once
    WINDOW = "window"  # window, never more than the capacity, allocated at once
    TAIL = "tail"  # the last window - 1 slots fed; every slot while recording because a crop is planned


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer. `window` counts the query itself; None sees everything.

    Beside its window a layer sees the `sinks` places from a row's first token on. A `chunked` layer sees no further
    than its own chunk of `window` places, counted from a row's first token. A `recurrent` one also has a state, which
    has no slots; where nothing else is cached `kv_heads` and `head_dim` are 0.
    """

    kv_heads: int
    head_dim: int
    window: int | None = None
    sinks: int = 0
    chunked: bool = False
    recurrent: bool = False

    @property
    def attends(self) -> bool:
        """Whether keys and values are cached."""
        return self.kv_heads > 0

    def sees(self, place: int, *, here: int, first: int) -> bool:
        """Tell whether a query `here` attends to what stands at `place`; a row's first token stands at `first`."""
        if self.window is None:
            return self.attends
        if self.chunked:
            return (place - first) // self.window == (here - first) // self.window
        return here - place < self.window or place - first < self.sinks


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheKind:
    """A kind of cache an engine offers, by the word the `cache` arm uses.

    Without `crops_past_window` columns can be cut off only while no sliding layer has been fed more than its window,
    without `crops` never; without `joins` no rows can enter.

    `streams` shows a layer that would see everything only so many first and last tokens of a row. `quantisation` is how
    numbers are rounded, nothing where they are held as computed. Of a lossy kind `envelope` is the largest distance
    from the uncached forward that it declares, as a share of the history's largest logit. What a kind that `packs`
    holds takes fewer bytes than its numbers, how many depends on the splits.
    """

    name: str
    full: Keep
    sliding: Keep
    promise: Promise = Promise.EXACT
    crops_past_window: bool = True
    crops: bool = True
    joins: bool = True
    streams: tuple[int, int] | None = None
    quantisation: tuple[tuple[str, int | str], ...] = ()
    envelope: float | None = None
    packs: bool = False

    def halved(self) -> CacheKind:
        """Return this kind with half the bits, if it rounds numbers at all: what a changed engine would offer."""
        bits = [(name, int(value) // 2 if name == "bits" else value) for name, value in self.quantisation]
        return replace(self, quantisation=tuple(bits))

    def shown(self, layer: Layer) -> Layer:
        """Return `layer` as this kind lets its queries see it."""
        if self.streams is None or layer.window is not None:
            return layer
        first, last = self.streams
        return replace(layer, window=last, sinks=first)

    def slots(self, layer: Layer, *, fed: int, layout: Layout) -> int:
        """Return how many slots `layer` keeps when it holds `fed` columns under `layout`."""
        if not layer.attends:
            return 0
        keep = self.full if layer.window is None else self.sliding
        match keep:
            case Keep.EVERY:
                return fed
            case Keep.CAPACITY:
                return layout.capacity
            case Keep.RING:
                assert layer.window is not None
                return min(layer.window + layout.depth, layout.capacity)
            case Keep.WINDOW:
                assert layer.window is not None
                return min(layer.window, layout.capacity)
            case Keep.TAIL:
                assert layer.window is not None
                return fed if layout.depth else min(fed, layer.window - 1)
        assert_never(keep)


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Sizes and rules read from a configuration."""

    layers: tuple[Layer, ...]
    vocab: int
    position_rule: PositionRule
    window_counts: WindowCounts = WindowCounts.POSITIONS
    max_positions: int | None = None
    routed: bool = False  # each token goes to some experts of many, which rounding may choose otherwise

    @property
    def window(self) -> int | None:
        """The smallest window of any layer, the number word `window`; None if every layer sees all."""
        windows = [layer.window for layer in self.layers if layer.window is not None]
        return min(windows) if windows else None

    @property
    def gaps_matter(self) -> bool:
        """Whether inner masked slots shape what follows, so that they belong to a history."""
        return self.window is not None and self.window_counts is WindowCounts.SLOTS

    @property
    def recurrent(self) -> bool:
        """Whether a layer has a state, which no masked slot behind a token may move."""
        return any(layer.recurrent for layer in self.layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a session must have room for, known from the plan before it is opened."""

    rows: int
    capacity: int  # columns, pads and holes included
    depth: int  # deepest crop planned, in columns
    cache: str
    positions: Positions = Positions.GIVEN
    pooled: bool = False  # what the session holds is to be left to the engine's pool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShape:
    """An engine's pool: it stores and matches `block` tokens of a row at once, and has room for so many `blocks`."""

    block: int
    blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A target before its weights are loaded."""

    geometry: Geometry
    capabilities: frozenset[Capability]
    caches: tuple[CacheKind, ...]  # the first is the default
    dtypes: tuple[Dtype, ...]
    deciding: Deciding
    options: dict[str, tuple[str, ...]]  # the engine's own arms, without namespace; first is default
    alterable: tuple[str, ...] = ()  # identity fields it can really change while it lives
    absent: tuple[tuple[str, str], ...] = ()  # cache kinds it does not offer, with the reason
    pool: PoolShape | None = None  # with the capability `pool`
    device: str = PROCESSOR  # where its weights will lie, as torch names kinds of devices

    def cache(self, name: str) -> CacheKind | None:
        """Return the cache kind of that name, or None."""
        return next((kind for kind in self.caches if kind.name == name), None)

    @property
    def exact(self) -> tuple[CacheKind, ...]:
        """The cache kinds that `cache: all` stands for: those held to the uncached forward itself."""
        return tuple(kind for kind in self.caches if kind.promise is Promise.EXACT)

    def shown(self, cache: str) -> Geometry:
        """Return the geometry as a cache kind lets queries see its layers."""
        kind = self.cache(cache)
        if kind is None:
            return self.geometry
        return replace(self.geometry, layers=tuple(kind.shown(layer) for layer in self.geometry.layers))

    def keeps_whole(self, name: str) -> bool:
        """Tell whether every layer of the cache kind of that name holds the first slot as long as the last."""
        kind = self.cache(name)
        if kind is None:
            return False
        keeps = {kind.full if layer.window is None else kind.sliding for layer in self.geometry.layers}
        return keeps <= {Keep.EVERY, Keep.CAPACITY}
