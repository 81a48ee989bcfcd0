"""The keys of an engine's pool: blocks found by too little, so that what is found was made of something else."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from evseq.cache.claim import RequestRow
from evseq.engines.reference.pool import ReferencePool
from evseq.engines.reference.session import ReferenceSession
from evseq.faults.fault import FULL, Area, Side, fault
from evseq.faults.needs import in_reference
from evseq.faults.pool import Pooling
from evseq.verdict.result import Check


class Keyless(ReferencePool):
    """A key of engines that leaves a field out."""

    field = ""

    def filler(self) -> str:
        return self.digest({name: value for name, value in self.engine.identity().items() if name != self.field})


@fault(
    area=Area.REUSE,
    report="vllm-project/vllm#44701",
    catches=("pool-keys", "reuse", Check.REUSE),
    shows={FULL: {}},
    needs=(in_reference,),
)
class PoolForgetsSalt(Pooling):
    """The salt is no part of a block's key."""

    class _Rule(ReferencePool):
        def root(self, filler: str, salt: str | None) -> str:
            del salt
            return super().root(filler, None)


@fault(
    area=Area.REUSE,
    report="vllm-project/vllm#44701",
    catches=("pool-salted-throughout", "reuse", Check.REUSE),
    shows={FULL: {}},
    needs=(in_reference,),
)
class PoolSaltsFirstBlock(Pooling):
    """The salt is part of the first block's key, and what stands behind it is found without."""

    class _Rule(ReferencePool):
        def chain(self, root: str, row: RequestRow, blocks: int) -> Iterator[tuple[str, int]]:
            unsalted = super().chain("", row, blocks)
            first = super().chain(root, row, min(blocks, 1))
            yield from first
            yield from itertools.islice(unsalted, 1, None)


@fault(
    area=Area.REUSE,
    report="vllm-project/vllm#3264",
    catches=("pool-models", "reuse", Check.REFUSAL),
    shows={FULL: {"field": "model.adapters"}},
    needs=(in_reference,),
    side=Side.GUARD,
)
class PoolForgetsAdapters(Pooling):
    """The adapters are no part of a block's key."""

    class _Rule(Keyless):
        field = "model.adapters"


@fault(
    area=Area.REUSE,
    report="vllm-project/vllm#9744",
    catches=("pool-models", "reuse", Check.REFUSAL),
    shows={FULL: {"field": "weights.live"}},
    needs=(in_reference,),
    side=Side.GUARD,
)
class PoolOutlivesWeights(Pooling):
    """Weights are loaded anew, and the pool goes on serving what the old ones made."""

    class _Rule(Keyless):
        field = "weights.live"


@fault(
    area=Area.REUSE,
    report="NVIDIA-NeMo/RL#4018",
    catches=("pool-models", "reuse", Check.REFUSAL),
    shows={FULL: {"field": "weights.live"}},
    needs=(in_reference,),
    side=Side.GUARD,
)
class PoolKeysWhenKept(Pooling):
    """What the old weights made is keyed by the new ones where the request ends after they were loaded."""

    class _Rule(ReferencePool):
        def filler_of(self, session: ReferenceSession) -> str:
            del session
            return self.filler()


@fault(
    area=Area.REUSE,
    report="LMCache/LMCache#690",
    catches=("pool-spliced", "reuse", Check.REUSE),
    shows={FULL: {}},
    needs=(in_reference,),
)
class PoolForgetsParent(Pooling):
    """A block is keyed by its own tokens, whatever stands before them."""

    class _Rule(ReferencePool):
        def chain(self, root: str, row: RequestRow, blocks: int) -> Iterator[tuple[str, int]]:
            for _, start in super().chain(root, row, blocks):
                span = slice(start, start + self.block)
                yield self.link(root, row.tokens[span], row.positions[span]), start


@fault(
    area=Area.REUSE,
    report="ROCm/ATOM#1358",
    catches=("pool-keys", "reuse", Check.REUSE),
    shows={FULL: {}},
    needs=(in_reference,),
)
class PoolForgetsPositions(Pooling):
    """Tokens alone are hashed, not where they stand."""

    class _Rule(ReferencePool):
        def link(self, before: str, tokens: Sequence[int], positions: Sequence[int]) -> str:
            del positions
            return super().link(before, tokens, ())


@fault(
    area=Area.HYBRID,
    report="vllm-project/vllm#34587",
    catches=("pool-keys", "reuse", Check.REUSE),
    shows={FULL: {"index": "block-1"}},
    needs=(in_reference,),
)
class PoolClosesBlockEarly(Pooling):
    """A block is taken for full one token early: its key lacks its last token."""

    class _Rule(ReferencePool):
        def link(self, before: str, tokens: Sequence[int], positions: Sequence[int]) -> str:
            return super().link(before, tokens[:-1], positions[:-1])
