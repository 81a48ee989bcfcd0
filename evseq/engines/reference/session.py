"""ReferenceSession: a batch of rows, its decoder and one storage per layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from evseq.cache.state import CacheState, Scalar
from evseq.engines.protocol import Batch, CacheView, LayerView, Probe, Session
from evseq.engines.reference.model import Decoder
from evseq.engines.reference.storage import Storage, behind
from evseq.errors import EngineError
from evseq.geometry import Layout

__all__ = ["ReferenceSession", "check_positions"]


@dataclass(slots=True, kw_only=True)
class ReferenceSession:
    """One batch of rows with one cache. `rows` is None until the first prefill or restore.

    `filler` is the digest of the engine that fills it, where what it holds is to be left to the pool.
    """

    decoder: Decoder
    layout: Layout
    storages: list[Storage]
    rows: int | None = None
    filler: str | None = None

    def prefill(self, batch: Batch) -> Float[Tensor, "row column vocab"]:
        """Feed the first columns, or the next chunk of them."""
        if self.rows is None:
            self.rows = len(batch.tokens)
            for storage in self.storages:
                storage.clear(self.rows)
        return self._forward(batch, "prefill")

    def append(self, batch: Batch) -> Float[Tensor, "row column vocab"]:
        """Feed more columns onto a filled cache."""
        return self._forward(batch, "append")

    def _forward(self, batch: Batch, word: str) -> Float[Tensor, "row column vocab"]:
        rows = self._opened(word)
        if len(batch.tokens) != rows:
            raise EngineError(f"{word}: {len(batch.tokens)} rows fed, the session has {rows}\n  help: feed every row")
        positions = batch.positions
        if positions is None:
            positions = self.storages[0].next_positions()[:, None] + batch.mask.cumsum(dim=-1) - 1  # row column
        positions = positions.masked_fill(~batch.mask, -1)  # row column
        check_positions(positions, self.decoder)
        for storage in self.storages:
            storage.check_room(batch.mask)
        logits: Float[Tensor, "row column vocab"] = self.decoder(batch.tokens, positions, self.storages)
        return logits

    def select(self, parents: Sequence[int]) -> None:
        """Make row i a copy of row `parents[i]`."""
        rows = self._opened("select")
        strange = [parent for parent in parents if not 0 <= parent < rows]
        if strange or not parents:
            raise EngineError(f"select: parents {list(parents)} of {rows} rows\n  help: name rows 0 to {rows - 1}")
        index = torch.tensor(list(parents))  # row
        for storage in self.storages:
            storage.select(index)
        self.rows = len(parents)

    def crop(self, lengths: Sequence[int]) -> None:
        """Keep the first `lengths[i]` tokens of row i, in every layer or, if one cannot, in none."""
        self._opened("crop")
        held = self.storages[0].lengths().tolist()
        if len(lengths) != len(held) or any(not 0 <= keep <= have for keep, have in zip(lengths, held, strict=True)):
            raise EngineError(f"crop: to {list(lengths)}, the rows hold {held}\n  help: keep 0 tokens or more, per row")
        ends = torch.tensor(list(lengths))  # row
        for storage in self.storages:
            storage.check_crop(ends)
        for storage in self.storages:
            storage.crop(ends)

    def join(self, other: Session) -> None:
        """Take over the rows of another session, behind one's own, in every layer or, if one cannot, in none."""
        rows = self._opened("join")
        if not isinstance(other, ReferenceSession) or other.rows is None or other is self:
            raise EngineError(
                "join: no rows to take over\n  help: prefill another session of this engine, and join that"
            )
        pairs = list(zip(self.storages, other.storages, strict=True))
        for mine, its in pairs:
            if (type(mine), mine.slots) != (type(its), its.slots):
                raise EngineError(
                    f"join: a cache of {its.slots} slots does not fit one of {mine.slots}\n"
                    "  help: open both with the same cache, capacity and depth"
                )
        for mine, its in pairs:
            mine.join(its)
        self.rows, other.rows = rows + other.rows, None

    def fork(self) -> ReferenceSession:
        """Return a second session with copies of every tensor."""
        return replace(self, storages=[storage.copy() for storage in self.storages])

    def reset(self) -> None:
        """Forget every row; buffers stay allocated and are not wiped."""
        for storage in self.storages:
            storage.clear(len(storage.positions))
        self.rows = None

    def export(self) -> CacheState:
        """Return a copy of every tensor as `layer.N.PART`, of the columns where they are counted, of how they round."""
        self._opened("export")
        tensors: dict[str, Tensor] = {}
        scalars: dict[str, Scalar] = {}
        for number, storage in enumerate(self.storages):
            tensors |= {f"layer.{number}.{part}": tensor for part, tensor in storage.exported().items()}
            scalars |= {f"layer.{number}.{name}": value for name, value in storage.scalars().items()}
            scalars |= {} if storage.quantisation is None else {"quantisation": dict(storage.quantisation)}
        return CacheState(kind=self.layout.cache, tensors=tensors, scalars=scalars)

    def restore(self, state: CacheState) -> None:
        """Take over `state`, all of it or, if it cannot fit, nothing."""
        if self.rows is not None:
            raise EngineError("restore: the session holds rows already\n  help: restore into a newly opened session")
        if state.kind != self.layout.cache:
            raise EngineError(
                f"restore: a {state.kind!r} cache does not fit a {self.layout.cache!r} one\n"
                f"  help: open the session with cache {state.kind!r}"
            )
        self._check_names(state)
        storages = [storage.restored(state, f"layer.{number}") for number, storage in enumerate(self.storages)]
        sizes = sorted({len(storage.positions) for storage in storages})
        if len(sizes) != 1:
            raise EngineError(f"restore: layers of {sizes} rows\n  help: restore an export as it was made")
        self.storages = storages
        self.rows = sizes[0]

    def _check_names(self, state: CacheState) -> None:
        layers = list(enumerate(self.storages))
        expected = {f"layer.{number}.{part}" for number, storage in layers for part in storage.parts()}
        expected |= {f"layer.{number}.{name}" for number, storage in layers for name in storage.scalars()}
        expected |= {"quantisation" for _, storage in layers if storage.quantisation is not None}
        actual = {*state.tensors, *state.scalars}
        odd = sorted(actual ^ expected)
        if odd:
            fault = "missing" if odd[0] in expected else "unknown"
            raise EngineError(
                f"restore: {odd[0]} is {fault}\n  help: restore an export of the same model and cache kind"
            )

    def probe(self) -> Probe:
        """Read every number from the position tags and the tensors' sizes."""
        bytes_held = sum(storage.keys.nbytes + storage.values.nbytes for storage in self.storages)
        if self.rows is None:
            return Probe(lengths=(), next_positions=(), visible=(), cache_bytes=bytes_held)
        held = [storage.held() for storage in self.storages]
        layers = zip(self.storages, self.decoder.config.layers, held, strict=True)
        return Probe(
            lengths=tuple(self.storages[0].counted(held[0])),
            next_positions=tuple(behind(held[0])),
            visible=tuple([tuple(storage.visible(layer, rows)) for storage, layer, rows in layers]),
            cache_bytes=bytes_held,
        )

    def view(self) -> CacheView:
        """Show the slots as they are stored; a ring's are in no order of positions."""
        return CacheView(
            layers=tuple(
                LayerView(keys=storage.keys, values=storage.values, positions=storage.positions)
                for storage in self.storages
            )
        )

    def _opened(self, word: str) -> int:
        if self.rows is None:
            raise EngineError(f"{word}: nothing was fed to this session\n  help: prefill or restore it first")
        return self.rows


def check_positions(positions: Int[Tensor, "row column"], decoder: Decoder) -> None:
    """Raise `EngineError` for a position the learned table has no row for."""
    most = decoder.config.max_positions
    if most is not None and int(positions.max()) >= most:
        raise EngineError(
            f"position {int(positions.max())}: this decoder has learned {most}\n  help: keep rows to {most} tokens"
        )
