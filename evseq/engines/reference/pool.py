"""ReferencePool: blocks of what sessions held that ended, each under a digest of everything that shaped it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from evseq.cache.canonical import Scalar, canonical
from evseq.cache.claim import RequestRow
from evseq.engines.protocol import Drawn, Session
from evseq.engines.reference.config import POOL
from evseq.engines.reference.session import ReferenceSession
from evseq.errors import EngineError
from evseq.geometry import Layout

if TYPE_CHECKING:
    from evseq.engines.reference.engine import ReferenceEngine
    from evseq.engines.reference.storage import Storage

__all__ = ["Block", "ReferencePool"]

Cells = Float[Tensor, "kv_head token head_dim"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block's tokens: their positions, and keys and values by layer."""

    positions: Int[Tensor, " token"]
    layers: tuple[tuple[Cells, Cells], ...]


class ReferencePool:
    """Whole blocks by a chain of digests: engine, salt, and every token with its position up to the block's last.

    The least recently used block goes first; of a row the last one, for without those before it nobody finds it.
    """

    block = POOL.block
    """Tokens of a block."""

    def __init__(self, engine: ReferenceEngine) -> None:
        self.engine = engine
        self.blocks: dict[str, Block] = {}

    def clear(self) -> None:
        """Forget everything."""
        self.blocks.clear()

    def filler(self) -> str:
        """Return the digest of all that the engine computes with now."""
        return self.digest([dict(self.engine.identity()), self.engine.cache_dtype.value])

    def digest(self, value: Scalar) -> str:
        """Return SHA-256 of a value."""
        return hashlib.sha256(canonical(value)).hexdigest()

    def root(self, filler: str, salt: str | None) -> str:
        """Return where the chain of a row begins."""
        return self.digest([filler, salt])

    def link(self, before: str, tokens: Sequence[int], positions: Sequence[int]) -> str:
        """Return the digest of a block that stands behind another."""
        return self.digest([before, list(tokens), list(positions)])

    def keep(self, session: Session, rows: Sequence[RequestRow], *, salt: str | None) -> None:
        """Store every whole block that all layers still hold, up to the first that one does not."""
        if not isinstance(session, ReferenceSession) or session.filler is None:
            raise EngineError("keep: not known what filled this session\n  help: open it with a layout that is pooled")
        root = self.root(self.filler_of(session), salt)
        for number, row in enumerate(rows):
            held: dict[str, Block] = {}
            for digest, start in self.chain(root, row, self.whole(row)):
                block = _read(session.storages, number, row.positions[start : start + self.block])
                if block is None:
                    break
                held[digest] = block
            for digest in reversed(held):
                self.store(digest, held[digest])

    def draw(self, layout: Layout, rows: Sequence[RequestRow], *, salt: str | None) -> Drawn:
        """Open a session with as many first columns as every row has in blocks; of each one token stays to be fed."""
        root = self.root(self.filler(), salt)
        found = [self.found(root, row) for row in rows]
        ends = zip(rows, found, strict=True)
        columns = min(_column(row, len(blocks) * self.block) for row, blocks in ends)
        if not any(any(row.mask[:columns]) for row in rows):
            return Drawn(session=None, columns=0)
        session = self.engine.open(layout)
        session.rows = len(rows)
        for number, storage in enumerate(session.storages):
            _write(storage, number, rows, found, columns)
        return Drawn(session=session, columns=columns)

    def filler_of(self, session: ReferenceSession) -> str:
        """Return the digest of what filled a session."""
        assert session.filler is not None
        return session.filler

    def whole(self, row: RequestRow) -> int:
        """Return how many blocks of a row are full."""
        return len(row.tokens) // self.block

    def servable(self, row: RequestRow) -> int:
        """Return how many blocks of a request may be taken: its last token has to be fed for its logits."""
        return (len(row.tokens) - 1) // self.block

    def found(self, root: str, row: RequestRow) -> list[Block]:
        """Return the blocks a row begins with, and let them stay longest."""
        digests: list[str] = []
        for digest, _ in self.chain(root, row, self.servable(row)):
            if digest not in self.blocks:
                break
            digests.append(digest)
        for digest in reversed(digests):
            self.blocks[digest] = self.blocks.pop(digest)
        return [self.blocks[digest] for digest in digests]

    def chain(self, root: str, row: RequestRow, blocks: int) -> Iterator[tuple[str, int]]:
        """Yield digest and first token of each of a row's first blocks."""
        digest = root
        for start in range(0, blocks * self.block, self.block):
            span = slice(start, start + self.block)
            digest = self.link(digest, row.tokens[span], row.positions[span])
            yield digest, start

    def store(self, digest: str, block: Block) -> None:
        """Put a block in, and let the one go that nobody asked for longest if there is no room."""
        if self.blocks.pop(digest, None) is None and len(self.blocks) >= POOL.blocks:
            self.evict(digest, block)
        self.blocks[digest] = block

    def evict(self, digest: str, block: Block) -> None:
        """Let a block go for a new one."""
        del digest, block
        del self.blocks[next(iter(self.blocks))]


def _read(storages: Sequence[Storage], row: int, positions: Sequence[int]) -> Block | None:
    """Return a copy of what every layer holds of a row at these positions; None where one of them holds less."""
    wanted = torch.tensor(list(positions))  # token
    layers = []
    for storage in storages:
        same = storage.positions[row][None] == wanted[:, None]  # token slot
        if not bool(same.any(dim=-1).all()):
            return None
        slots = same.int().argmax(dim=-1)  # token
        layers.append((storage.keys[row][:, slots].clone(), storage.values[row][:, slots].clone()))
    return Block(positions=wanted, layers=tuple(layers))


def _write(
    storage: Storage, layer: int, rows: Sequence[RequestRow], found: Sequence[Sequence[Block]], columns: int
) -> None:
    """Put the first columns of each row into an empty storage, masked ones as such."""
    heads, size = storage.layer.kv_heads, storage.layer.head_dim
    keys = torch.zeros((len(rows), heads, columns, size), dtype=storage.dtype)  # row kv_head column head_dim
    values = torch.zeros_like(keys)  # row kv_head column head_dim
    positions = torch.full((len(rows), columns), -1)  # row column
    for number, (row, blocks) in enumerate(zip(rows, found, strict=True)):
        real = torch.tensor(row.mask[:columns]).nonzero().flatten()  # token
        if not len(real):
            continue
        parts = [block.layers[layer] for block in blocks]
        keys[number, :, real] = torch.cat([part[0] for part in parts], dim=1)[:, : len(real)]
        values[number, :, real] = torch.cat([part[1] for part in parts], dim=1)[:, : len(real)]
        positions[number, real] = torch.cat([block.positions for block in blocks])[: len(real)]
    storage.clear(len(rows))
    storage.append(keys, values, positions)


def _column(row: RequestRow, tokens: int) -> int:
    """Return the column of the token behind the first `tokens`, or the row's end."""
    return [*(column for column, real in enumerate(row.mask) if real), len(row.mask)][tokens]
