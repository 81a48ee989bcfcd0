"""What an engine is to evseq: nobody subclasses, engines satisfy these protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

from evseq.cache.claim import RequestRow
from evseq.cache.guard import Admitted, Refused
from evseq.cache.identity import Identity
from evseq.cache.sealed import Sealed, SealedKind
from evseq.cache.state import CacheState, Scalar
from evseq.geometry import Description, Dtype, Layout
from evseq.history import Path

__all__ = [
    "Batch",
    "CacheView",
    "Declaring",
    "Drawn",
    "Engine",
    "Joining",
    "LayerView",
    "Loader",
    "Pool",
    "Probe",
    "Reader",
    "Rule",
    "Session",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Columns fed to every row in one forward.

    Where `mask` is False the column is a masked slot: it takes a slot, nothing may ever attend to it, its logits are
    ignored, its token is 0. `positions` is None where the engine numbers tokens itself.
    """

    tokens: Int[Tensor, "row column"]
    mask: Bool[Tensor, "row column"]
    positions: Int[Tensor, "row column"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """State read from the engine itself, never from what it was told.

    `lengths` are real tokens cached per row, `next_positions` the position the next token of each row would get,
    `visible` per layer and row the cached tokens the next query of that row would attend to (itself not counted),
    `cache_bytes` the bytes of all keys and values held.
    """

    lengths: tuple[int, ...]
    next_positions: tuple[int, ...]
    visible: tuple[tuple[int, ...], ...]
    cache_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerView:
    """One layer's cache in canonical axes. `positions` is -1 in masked, empty and dropped slots."""

    keys: Float[Tensor, "row kv_head slot head_dim"]
    values: Float[Tensor, "row kv_head slot head_dim"]
    positions: Int[Tensor, "row slot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheView:
    """Keys and values of every layer, to see what moved. May share memory with the cache: read only."""

    layers: tuple[LayerView, ...]


@runtime_checkable
class Session(Protocol):
    """One batch of rows with one cache.

    Rows are numbered as in the first batch. Any operation an engine cannot do right raises `EngineError`; it never does
    something close to it.
    """

    def prefill(self, batch: Batch) -> Float[Tensor, "row column vocab"]:
        """Feed the first columns, or the next chunk of them; return the logits of every column."""
        ...

    def append(self, batch: Batch) -> Float[Tensor, "row column vocab"]:
        """Feed more columns onto a filled cache; return the logits of every column."""
        ...

    def select(self, parents: Sequence[int]) -> None:
        """Make row i a copy of row `parents[i]`; the batch may grow, shrink or repeat parents."""
        ...

    def crop(self, lengths: Sequence[int]) -> None:
        """Keep the first `lengths[i]` real tokens of row i.

        Columns behind the last kept token of the longest-reaching row are cut off; dropped tokens before that
        column become masked slots.
        """
        ...

    def fork(self) -> Session:
        """Return a second session with the same contents and nothing shared."""
        ...

    def reset(self) -> None:
        """Forget every row; keep the buffers and the layout."""
        ...

    def export(self) -> CacheState:
        """Return a copy of the whole cache; later steps do not move it."""
        ...

    def restore(self, state: CacheState) -> None:
        """Take over `state` in a newly opened session, with no forward. Raise `EngineError` if it cannot fit."""
        ...

    def probe(self) -> Probe:
        """Read lengths, next positions, visible counts and bytes."""
        ...

    def view(self) -> CacheView | None:
        """Return keys and values in canonical axes, or None where the engine cannot show them."""
        ...


@runtime_checkable
class Joining(Protocol):
    """A session that rows may join. It is no part of `Session`: an engine that declares `Capability.JOIN` has it."""

    def join(self, other: Session) -> None:
        """Take over the rows of `other`, a session of the same engine and layout but for the rows, behind one's own.

        The side that has fewer columns gets masked slots in front; every token keeps its keys, values and position.
        Nothing is forwarded; `other` is not used any more.
        """
        ...


@runtime_checkable
class Declaring(Protocol):
    """An engine that offers cache kinds of promise `masked`. It is no part of `Engine`: most offer none."""

    def uncached_under(self, path: Path, cache: str) -> Float[Tensor, "position vocab"]:
        """Run one row without any cache, under what the kind `cache` declares of each token: how seen, how held."""
        ...


class Rule(Protocol):
    """Who may go on from a cache. An engine that has a rule of its own carries it as its attribute `reuse`."""

    def __call__(self, recorded: Identity, asked: Identity) -> Admitted | Refused:
        """Admit the cache of `recorded` to what asks, or refuse and name every field that differs, first ones first."""
        ...


class Reader(Protocol):
    """Who reads a sealed cache. An engine that has a reader of its own carries it as its attribute `unseal`."""

    def __call__(self, path: str | PathLike[str], *, kind: SealedKind) -> Sealed:
        """Return what the file holds, every byte verified; raise a `Damage` for one that is not sound."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What a pool gives for a request: a session that holds its first `columns` columns, pads included; None for none.

    Every row has a token behind them, which is still to be fed: only a forward gives its logits.
    """

    session: Session | None
    columns: int


@runtime_checkable
class Pool(Protocol):
    """What sessions held that ended. An engine that declares `Capability.POOL` carries one as its attribute `pool`.

    What was kept belongs to the model, adapters and numbers that filled it, to the salt and to the tokens with their
    positions up to each of its own. Nothing here forwards a token.
    """

    def clear(self) -> None:
        """Forget everything."""
        ...

    def keep(self, session: Session, rows: Sequence[RequestRow], *, salt: str | None) -> None:
        """Take what `session` holds of `rows`, which it was fed; its layout is `pooled`. It is not used any more."""
        ...

    def draw(self, layout: Layout, rows: Sequence[RequestRow], *, salt: str | None) -> Drawn:
        """Open a session of `layout` with as many first columns of `rows` as are kept, whoever they were kept from."""
        ...


@runtime_checkable
class Engine(Protocol):
    """A decoder with its weights loaded in one dtype.

    An engine may carry a `Rule` as `reuse`, which then decides in place of evseq's own guard, a `Reader` as `unseal` in
    place of evseq's own, and a `Pool` as `pool`. They are no members of this protocol, for most engines have none.
    """

    @property
    def dtype(self) -> Dtype:
        """The dtype weights, cache and logits have."""
        ...

    @property
    def forwarded(self) -> int:
        """Token columns (rows times columns) that went through the embedding since loading, counted by a hook on it."""
        ...

    def identity(self) -> Mapping[str, Scalar]:
        """Read the `model`, `tokenizer` and `numeric` fields of the registry from the live objects, now."""
        ...

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Return the ids of `text`, with whatever special tokens the tokenizer adds by default."""
        ...

    def uncached(self, path: Path) -> Float[Tensor, "position vocab"]:
        """Run one row without any cache, positions and masked slots of `path` kept; return every slot's logits."""
        ...

    def open(self, layout: Layout) -> Session:
        """Open an empty session. Raise `EngineError` for a layout the engine does not know."""
        ...


@runtime_checkable
class Loader(Protocol):
    """What a target text names: a decoder that can be described without weights, then loaded in a dtype."""

    def describe(self) -> Description:
        """Read geometry and capabilities from configuration; load no weights."""
        ...

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Return the ids of `text` without loading weights. Only called where `Capability.TEXT` is declared."""
        ...

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Engine:
        """Load the weights, cast to `dtype`, under the engine's own options (names without namespace)."""
        ...
