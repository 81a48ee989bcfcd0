"""TransformersSession: a batch of rows, a cache of transformers, and the mask of every slot fed so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import Cache, QuantizedLayer, StaticLayer

from evseq.cache.state import CacheState, Scalar
from evseq.engines.protocol import Batch, CacheView, Probe, Session
from evseq.engines.transformers import recurrent
from evseq.engines.transformers.caches import (
    copied,
    crop,
    held_bytes,
    new_cache,
    numbered,
    states,
    stored,
)
from evseq.engines.transformers.exports import exported, restore
from evseq.engines.transformers.joining import join
from evseq.engines.transformers.quantised import rounding
from evseq.engines.transformers.seeing import seen, shown, span
from evseq.errors import EngineError
from evseq.geometry import Layout, PositionRule, Positions

if TYPE_CHECKING:
    from evseq.engines.transformers.engine import TransformersEngine

__all__ = ["TransformersSession"]


@dataclass(slots=True, kw_only=True)
class TransformersSession:
    """One batch of rows. transformers keeps neither mask nor positions, so the session does, slot by slot.

    Both are on the CPU. A slot's position counts only where its mask is True.
    """

    engine: TransformersEngine
    layout: Layout
    cache: Cache
    mask: Bool[Tensor, "row slot"]
    positions: Int[Tensor, "row slot"]

    @classmethod
    def opened(cls, engine: TransformersEngine, layout: Layout) -> TransformersSession:
        """Return an empty session of `layout`."""
        return cls(
            engine=engine,
            layout=layout,
            cache=new_cache(engine.model.config, layout, offered=engine.description.caches),
            mask=torch.zeros((layout.rows, 0), dtype=torch.bool),
            positions=torch.zeros((layout.rows, 0), dtype=torch.int64),
        )

    def prefill(self, batch: Batch) -> Float[Tensor, "row column vocab"]:
        """Feed the first columns, or the next chunk of them."""
        return self._feed(batch, "prefill")

    def append(self, batch: Batch) -> Float[Tensor, "row column vocab"]:
        """Feed more columns onto a filled cache."""
        return self._feed(batch, "append")

    def _feed(self, batch: Batch, word: str) -> Float[Tensor, "row column vocab"]:
        rows, before = self.mask.shape
        if len(batch.tokens) != rows:
            raise EngineError(f"{word}: {len(batch.tokens)} rows fed, the session has {rows}\n  help: feed every row")
        mask = torch.cat((self.mask, batch.mask), dim=1)  # row slot
        columns = mask.shape[1]
        self._check_masked(batch.mask, word)
        if columns > self.layout.capacity and self.allocated:
            raise EngineError(
                f"{word}: {columns} columns do not fit, the layout has room for {self.layout.capacity}\n"
                "  help: open the session with a larger capacity"
            )
        numbered = self._numbered(mask)[:, before:]  # row column
        given = batch.positions
        if self.layout.positions is Positions.GIVEN and given is None:
            raise EngineError(f"{word}: no positions, the layout says they are given\n  help: give one per column")
        logits = self.engine.forward(
            batch.tokens,
            mask=self._padded(mask),
            positions=None if given is None else given.where(batch.mask, 0),  # 0 is valid in every table
            counted=numbered.where(batch.mask, 0),
            cache=self.cache,
            word=word,
        )
        self.mask = mask
        self.positions = torch.cat((self.positions, numbered if given is None else given), dim=1)  # row slot
        return logits

    @property
    def allocated(self) -> bool:
        """Whether the slots of the layout are allocated at once."""
        return any(isinstance(layer, StaticLayer) for layer in self.cache.layers)

    def _check_masked(self, mask: Bool[Tensor, "row column"], word: str) -> None:
        """Raise `EngineError` for masked columns that would move a recurrent state without a word."""
        if not self.engine.description.geometry.recurrent or bool(mask.all()):
            return
        begun = torch.cat((self.mask, mask), dim=1).cumsum(dim=1)[:, -mask.shape[1] :] > 0  # row column
        if mask.shape[1] == 1 or bool((begun & ~mask).any()):
            raise EngineError(
                f"{word}: a masked column {'alone' if mask.shape[1] == 1 else 'behind a token'} moves the state of a "
                "recurrent layer\n"
                "  help: put masked columns before a row's first token, several columns in one forward"
            )

    def _numbered(self, mask: Bool[Tensor, "row slot"]) -> Int[Tensor, "row slot"]:
        """Return the positions the model gives to the slots of `mask` when none are given."""
        match self.engine.description.geometry.position_rule:
            case PositionRule.MASK:
                return (mask.cumsum(dim=1) - 1).clamp(min=0)
            case PositionRule.SLOT:
                return torch.arange(mask.shape[1]).expand(mask.shape)

    def _padded(self, mask: Bool[Tensor, "row slot"]) -> Bool[Tensor, "row padded"]:
        """Return `mask`, as wide as a static cache where ALiBi biases are made from it: they must reach every slot."""
        if not self.allocated or not self.engine.biased:
            return mask
        return pad(mask, (0, self.layout.capacity - mask.shape[1]))

    def select(self, parents: Sequence[int]) -> None:
        """Make row i a copy of row `parents[i]`, in every layer, the mask and the positions."""
        rows = len(self.mask)
        if not parents or any(not 0 <= parent < rows for parent in parents):
            raise EngineError(f"select: parents {list(parents)} of {rows} rows\n  help: name rows 0 to {rows - 1}")
        index = torch.tensor(list(parents))  # row
        self.cache.reorder_cache(index)  # type: ignore[arg-type]  # a LongTensor is a Tensor of int64
        for layer in stored(self.cache):
            if hasattr(layer, "batch_size"):  # of a static layer, which the library leaves as it was
                layer.batch_size = len(parents)
            if (pair := states(layer)) and layer.get_seq_length() == 0:
                # Rolled back to nothing, it is passed over by the library and would keep its old number of rows.
                layer.keys, layer.values = (state.index_select(0, index) for state in pair)
        self.mask = self.mask[index]  # row slot
        self.positions = self.positions[index]  # row slot

    def crop(self, lengths: Sequence[int]) -> None:
        """Keep the first tokens of each row; cut columns behind the last kept one, mask what is dropped before it."""
        have = self.mask.sum(dim=1).tolist()
        if len(lengths) != len(have) or any(not 0 <= keep <= own for keep, own in zip(lengths, have, strict=True)):
            raise EngineError(f"crop: to {list(lengths)}, the rows hold {have}\n  help: keep 0 tokens or more, per row")
        rank = self.mask.cumsum(dim=1)  # row slot: 1 for a row's first token
        mask = self.mask & (rank <= torch.tensor(list(lengths))[:, None])  # row slot
        used = mask.any(dim=0).nonzero()  # slot 1
        columns = int(used[-1]) + 1 if len(used) else 0
        if self.engine.description.geometry.recurrent and not torch.equal(mask[:, :columns], self.mask[:, :columns]):
            raise EngineError(
                "crop: a token dropped before the last one another row keeps stays in the state of a recurrent layer\n"
                "  help: drop the same columns of every row"
            )
        if columns < mask.shape[1]:
            crop(self.cache, mask.shape[1] - columns, fed=mask.shape[1])
        self.mask = mask[:, :columns]  # row slot
        self.positions = self.positions[:, :columns]  # row slot

    def join(self, other: Session) -> None:
        """Take over the rows of another session, behind one's own; the narrower side gets masked slots in front."""
        if not isinstance(other, TransformersSession) or other is self or not min(self.columns, other.columns):
            raise EngineError(
                "join: no rows to take over\n  help: prefill another session of this engine, and join that"
            )
        if replace(other.layout, rows=self.layout.rows) != self.layout:
            raise EngineError(f"join: {other.layout} beside {self.layout}\n  help: open both with the same layout")
        join(self.cache, other.cache)
        width = max(self.columns, other.columns)
        self.mask, self.positions = (
            torch.cat([pad(mine, (width - mine.shape[1], 0)), pad(its, (width - its.shape[1], 0))])  # row slot
            for mine, its in ((self.mask, other.mask), (self.positions, other.positions))
        )

    @property
    def quantisation(self) -> dict[str, Scalar]:
        """How the layers round, read from them; nothing where they hold what was computed."""
        told: dict[str, Scalar] = {}
        for layer in stored(self.cache):
            told |= rounding(layer) if isinstance(layer, QuantizedLayer) else {}
        return told

    @property
    def columns(self) -> int:
        """Slots of each row."""
        return self.mask.shape[1]

    def fork(self) -> TransformersSession:
        """Return a second session with a deep copy of the cache."""
        return replace(self, cache=copied(self.cache), mask=self.mask.clone(), positions=self.positions.clone())

    def reset(self) -> None:
        """Forget every row. Static buffers stay, unless a selection left them with another number of rows."""
        for layer in stored(self.cache):
            layer.reset()
            pair = states(layer)
            if pair and len(pair[0]) != self.layout.rows:
                layer.is_initialized = False
        for each in self.cache.layers:
            recurrent.forget(each, rows=self.layout.rows)
        self.mask = torch.zeros((self.layout.rows, 0), dtype=torch.bool)
        self.positions = torch.zeros((self.layout.rows, 0), dtype=torch.int64)

    def export(self) -> CacheState:
        """Return a copy of every attribute of every layer, and of the mask and the positions."""
        tensors, scalars = exported(self.cache)
        tensors |= {"mask": self.mask.clone(), "positions": self.positions.clone()}
        if self.quantisation:
            scalars["quantisation"] = self.quantisation
        return CacheState(kind=self.layout.cache, tensors=tensors, scalars=scalars)

    def restore(self, state: CacheState) -> None:
        """Take over `state`, all of it or, if it cannot fit, nothing."""
        if self.mask.shape[1]:
            raise EngineError("restore: the session holds rows already\n  help: restore into a newly opened session")
        if state.kind != self.layout.cache:
            raise EngineError(
                f"restore: a {state.kind!r} cache does not fit a {self.layout.cache!r} one\n"
                f"  help: open the session with cache {state.kind!r}"
            )
        mask, positions = state.tensors.get("mask"), state.tensors.get("positions")
        if mask is None or positions is None or mask.dim() != 2 or mask.shape != positions.shape:  # noqa: PLR2004
            raise EngineError("restore: mask and positions are not one value per row and slot\n  help: export anew")
        cache = new_cache(self.engine.model.config, self.layout, offered=self.engine.description.caches)
        rows, columns = mask.shape
        restore(
            cache,
            {name: tensor for name, tensor in state.tensors.items() if name not in ("mask", "positions")},
            {name: value for name, value in state.scalars.items() if name != "quantisation"},
            layers=self.engine.description.geometry.layers,
            like=self.engine.embedding.weight,
            example=self._example() if self.engine.description.geometry.recurrent else None,
            rows=rows,
            columns=columns,
        )
        self.cache, self.mask, self.positions = cache, mask.bool(), positions.clone()

    def _example(self) -> Cache:
        """Return a cache one token was fed to: nobody's tokens, so they are not counted as forwarded."""
        cache = new_cache(
            self.engine.model.config,
            replace(self.layout, rows=1, depth=0),
            offered=self.engine.description.caches,
        )
        one, before = torch.zeros((1, 1), dtype=torch.int64), self.engine.forwarded  # row column
        self.engine.forward(one, mask=one == 0, positions=one, counted=one, cache=cache, word="restore")
        self.engine.forwarded = before
        return cache

    def probe(self) -> Probe:
        """Read counts from the mask and from the sizes of the tensors the layers hold."""
        sizes, config = self.engine.description.geometry.layers, self.engine.text_config
        spans = [
            span(layer, config, chunked=size.chunked) for layer, size in zip(numbered(self.cache), sizes, strict=True)
        ]
        counts = {one: tuple(seen(self.mask, one).tolist()) for one in dict.fromkeys(spans)}  # most see the same
        return Probe(
            lengths=tuple(self.mask.sum(dim=1).tolist()),
            next_positions=tuple(self._next_positions().tolist()),
            visible=tuple(counts[one] for one in spans),
            cache_bytes=sum(held_bytes(layer) for layer in stored(self.cache)),
        )

    def _next_positions(self) -> Int[Tensor, " row"]:
        """Return the position behind each row's last token, or what the model itself would count."""
        if self.layout.positions is Positions.GIVEN:
            held_positions = self.positions.masked_fill(~self.mask, -1)  # row slot
            return pad(held_positions, (1, 0), value=-1).amax(dim=1) + 1
        match self.engine.description.geometry.position_rule:
            case PositionRule.MASK:
                return self.mask.sum(dim=1)
            case PositionRule.SLOT:
                return torch.full((len(self.mask),), int(self.cache.get_seq_length()))

    def view(self) -> CacheView:
        """Show every layer's slots in the order they are stored."""
        return shown(self.cache, self.mask, self.positions)
