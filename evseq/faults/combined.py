"""Combinations: an operation that is right by itself, and wrong on what another one left."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from evseq.cache.claim import RequestRow
from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch, Drawn, Pool, Session
from evseq.faults.broken import BrokenEngine, BrokenSession, Forward, Logits
from evseq.faults.fault import ANY, AT_ONCE, FULL, Area, fault
from evseq.faults.fork import share
from evseq.faults.inside import lengths
from evseq.faults.lossy import BLOCKS, blocks
from evseq.faults.needs import allocates, in_reference, known_inside, offers
from evseq.faults.serialize import Restored
from evseq.geometry import Layout
from evseq.verdict.result import Check

AGAIN: Mapping[str, Mapping[str, str]] = {target: {"opened": "again"} for target in ANY}


@fault(
    area=Area.SERIALIZE,
    report="lablup/mlxcel#1760",
    catches=("opened-and-reshaped", "crop", Check.ACCOUNTING),
    shows=AGAIN,
)
class RollbackStopsAtReload(Restored):
    """What came from a file is not rolled back: of it every token stays, whatever is asked."""

    loaded: Sequence[int] = ()

    def restore(self, state: CacheState) -> None:
        super().restore(state)
        self.loaded = lengths(self)

    def crop(self, lengths: Sequence[int]) -> None:
        held = self.inner.probe().lengths
        least = [min(loaded, now) for loaded, now in zip(self.loaded, held, strict=False)] or [0] * len(held)
        self.inner.crop([max(keep, least[row]) for row, keep in enumerate(lengths)])


@fault(
    area=Area.FORK,
    report="sgl-project/sglang#23392",
    catches=("joined-and-copied", "append", Check.ISOLATION),
    shows=AT_ONCE,
    needs=(known_inside, allocates),
)
class ForkOfJoinedShares(BrokenSession):
    """Once rows entered a batch, a fork writes into its buffers."""

    joined = False

    def join(self, other: Session) -> None:
        super().join(other)
        self.joined = True

    def fork(self) -> Session:
        twin = self.twin()
        if self.joined:
            share(self, twin)
        return twin


@fault(
    area=Area.BEAM,
    report="vllm-project/vllm#31081",
    catches=("joined-and-copied", "beam-select", Check.ACCOUNTING),
    shows=ANY,
)
class SecondGrowthRepeatsParent(BrokenSession):
    """A batch of beams that grows a second time takes the parent before for its last row."""

    grown = 0

    def select(self, parents: Sequence[int]) -> None:
        self.grown += len(parents) > len(lengths(self))
        again = self.grown > 1 and len(parents) > 1
        self.inner.select([*parents[:-1], parents[-2]] if again else parents)


@fault(
    area=Area.DTYPE,
    report="huggingface/transformers#45510",
    catches=("rounded-rows-move", "append", Check.SOLO),
    shows=BLOCKS,
    needs=(in_reference, offers("blocks")),
)
class PackedCountStays(BrokenSession):
    """A row that changes its place takes its tokens with it, and the number of them that are rounded not."""

    def select(self, parents: Sequence[int]) -> None:
        before = [layer.packed for layer in blocks(self)]
        self.inner.select(parents)
        for layer, packed in zip(blocks(self), before, strict=True):
            rows = min(len(packed), len(parents))
            layer.packed[:rows] = packed[:rows]


class Retold:
    """A pool that is told something else of the rows it is to keep."""

    def __init__(self, inner: Pool) -> None:
        self.inner = inner

    def clear(self) -> None:
        self.inner.clear()

    def keep(self, session: Session, rows: Sequence[RequestRow], *, salt: str | None) -> None:
        told = session.told(rows) if isinstance(session, Telling) else rows
        self.inner.keep(session, told, salt=salt)

    def draw(self, layout: Layout, rows: Sequence[RequestRow], *, salt: str | None) -> Drawn:
        return self.inner.draw(layout, rows, salt=salt)


class Telling(BrokenSession, ABC):
    """Tells the pool what its rows hold."""

    @abstractmethod
    def told(self, rows: Sequence[RequestRow]) -> Sequence[RequestRow]:
        """Return what the pool is told."""


class Retelling(BrokenEngine):
    """An engine whose pool believes its sessions."""

    @property
    def pool(self) -> Pool:
        return Retold(super().pool)


class FedFirst(Telling):
    """Tells of every place the token it was fed first."""

    first: Mapping[tuple[int, int], int] = MappingProxyType({})

    def feed(self, batch: Batch, forward: Forward) -> Logits:
        logits = forward(batch)
        if batch.positions is None:  # the scripts about pools give them
            return logits
        for row, column in batch.mask.nonzero().tolist():
            place = (row, int(batch.positions[row, column]))
            self.first = {place: int(batch.tokens[row, column])} | dict(self.first)
        return logits

    def told(self, rows: Sequence[RequestRow]) -> Sequence[RequestRow]:
        return [
            replace(
                row,
                tokens=tuple(
                    self.first.get((number, position), token)
                    for position, token in zip(row.positions, row.tokens, strict=True)
                ),
            )
            for number, row in enumerate(rows)
        ]


@fault(
    area=Area.CROP,
    report="huggingface/text-generation-inference#2711",
    catches=("pool-after-rollback", "reuse", Check.PARITY),
    shows={FULL: {}},
    needs=(in_reference,),
)
class PoolKeepsDrafts(Retelling):
    """A block goes by the tokens its places were fed first, also where others took those places since."""

    session = FedFirst


class Placed(Telling):
    """Tells of every row what stood there before rows were chosen."""

    places: Sequence[int] = ()

    def select(self, parents: Sequence[int]) -> None:
        before = self.places or range(len(lengths(self)))
        self.inner.select(parents)
        self.places = [before[parent] for parent in parents]

    def told(self, rows: Sequence[RequestRow]) -> Sequence[RequestRow]:
        known = [place for place in self.places if place < len(rows)]
        return [rows[known[number]] if number < len(known) else row for number, row in enumerate(rows)]


@fault(
    area=Area.BEAM,
    report="sgl-project/mini-sglang#142",
    catches=("pool-rows-moved", "reuse", Check.REUSE),
    shows={FULL: {}},
    needs=(in_reference,),
)
class PoolRowsStay(Retelling):
    """A pool goes by the order rows had when they were prefilled."""

    session = Placed
