"""The engine's pool: blocks gone stale, given away twice, given whole, or never found."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from evseq.cache.claim import RequestRow
from evseq.engines.protocol import Drawn, Engine
from evseq.engines.reference.pool import Block, ReferencePool
from evseq.engines.reference.session import ReferenceSession
from evseq.faults.broken import BrokenEngine, BrokenSession
from evseq.faults.fault import FULL, Area, Side, fault
from evseq.faults.inside import raw
from evseq.faults.needs import in_reference
from evseq.geometry import Layout
from evseq.history import Path
from evseq.verdict.result import Check


class Pooling(BrokenEngine):
    """An engine that is healthy but for the rule of its pool."""

    _Rule: type[ReferencePool] = ReferencePool

    def __init__(self, inner: Engine, session: type[BrokenSession] | None = None) -> None:
        super().__init__(inner, session)
        own = raw(inner)
        own.pool = self._Rule(own)


@fault(
    area=Area.CROP,
    report="lablup/mlxcel#1760",
    catches=("pool-blocks", "reuse", Check.REUSE),
    shows={FULL: {"kept": "2*block", "asked": "2*block"}},
    needs=(in_reference,),
    side=Side.REUSE,
)
class PoolAnswersWhole(Pooling):
    """A prompt that is there whole is given whole, and nothing is left to answer with."""

    class _Rule(ReferencePool):
        def servable(self, row: RequestRow) -> int:
            return self.whole(row)


@fault(
    area=Area.CROP,
    report="lablup/mlxcel#1760",
    catches=("pool-blocks", "reuse", Check.PARITY),
    shows={FULL: {"kept": "2*block", "asked": "2*block"}},
    needs=(in_reference,),
)
class PoolRunsLastTokenTwice(Pooling):
    """Of a prompt that is there whole the last token is fed again, behind itself."""

    class _Rule(ReferencePool):
        def servable(self, row: RequestRow) -> int:
            return self.whole(row)

        def draw(self, layout: Layout, rows: Sequence[RequestRow], *, salt: str | None) -> Drawn:
            drawn = super().draw(layout, rows, salt=salt)
            return replace(drawn, columns=min(drawn.columns, len(rows[0].mask) - 1))


@fault(
    area=Area.FORK,
    report="ovg-project/kvcached#362",
    catches=("pool-evicts", "reuse", Check.PARITY),
    shows={FULL: {}},
    needs=(in_reference,),
)
class PoolFindsEvicted(Pooling):
    """A block that was evicted is still found under its old key, with what was written over it."""

    class _Rule(ReferencePool):
        def evict(self, digest: str, block: Block) -> None:
            oldest = next(iter(self.blocks))
            self.blocks[oldest] = self.blocks.pop(oldest) if oldest == digest else block


@fault(
    area=Area.MEMORY,
    report="Avarok-Cybersecurity/atlas#373",
    catches=("pool-evicts", "drop", Check.ISOLATION),
    shows={FULL: {}},
    needs=(in_reference,),
)
class PoolEvictsLive(Pooling):
    """A block is evicted, and written over, that a live session still reads."""

    class _Rule(ReferencePool):
        last: ReferenceSession | None = None

        def draw(self, layout: Layout, rows: Sequence[RequestRow], *, salt: str | None) -> Drawn:
            drawn = super().draw(layout, rows, salt=salt)
            if isinstance(drawn.session, ReferenceSession):
                self.last = drawn.session
            return drawn

        def evict(self, digest: str, block: Block) -> None:
            super().evict(digest, block)
            live = self.last.storages if self.last is not None else []
            for storage, (_, values) in zip(live, block.layers, strict=False):
                storage.values[0, :, : self.block] = values


@fault(
    area=Area.FORK,
    report="EricLBuehler/mistral.rs#1026",
    catches=("pool-shared", "append", Check.ISOLATION),
    shows={FULL: {"cache": "fixed"}},
    needs=(in_reference,),
)
class PoolSharesBuffers(Pooling):
    """Two sessions that begin alike are given the same buffers, which both write on."""

    class _Rule(ReferencePool):
        last: ReferenceSession | None = None

        def draw(self, layout: Layout, rows: Sequence[RequestRow], *, salt: str | None) -> Drawn:
            drawn = super().draw(layout, rows, salt=salt)
            if isinstance(drawn.session, ReferenceSession):
                before = self.last.storages if self.last is not None else []
                for mine, its in zip(drawn.session.storages, before, strict=False):
                    if mine.keys.shape == its.keys.shape:
                        mine.keys, mine.values = its.keys, its.values
                self.last = drawn.session
            return drawn


@fault(
    area=Area.SERIALIZE,
    report="ggml-org/llama.cpp#26676",
    catches=("pool-blocks", "reuse", Check.REUSE),
    shows={FULL: {"kept": "2*block", "asked": "2*block+1"}},
    needs=(in_reference,),
    side=Side.REUSE,
)
class PoolForwardsAgain(Pooling):
    """The pool says what it reuses, and runs it through the model all the same."""

    class _Rule(ReferencePool):
        def draw(self, layout: Layout, rows: Sequence[RequestRow], *, salt: str | None) -> Drawn:
            drawn = super().draw(layout, rows, salt=salt)
            if drawn.session is not None:
                self.engine.uncached(Path(tokens=rows[0].tokens, positions=rows[0].positions))
            return drawn


@fault(
    area=Area.REUSE,
    report="LMCache/LMCache#1139",
    catches=("pool-blocks", "reuse", Check.REUSE),
    shows={FULL: {"kept": "2*block", "asked": "2*block+1"}},
    needs=(in_reference,),
    side=Side.REUSE,
)
class PoolFindsNothing(Pooling):
    """The root of the chain is another one each time, so that no block is ever found."""

    class _Rule(ReferencePool):
        turn = itertools.count()

        def root(self, filler: str, salt: str | None) -> str:
            return super().root(f"{filler} {next(self.turn)}", salt)


@fault(
    area=Area.REUSE,
    report="vllm-project/vllm-omni#6739",
    catches=("pool-blocks", "reuse", Check.REUSE),
    shows={FULL: {"asked": "2*block+1"}},
    needs=(in_reference,),
)
class PoolClearsNothing(Pooling):
    """Clearing the pool is answered with success, and does nothing."""

    class _Rule(ReferencePool):
        def clear(self) -> None:
            pass
