"""Rollback: drafts that stay, tokens that go with them, and counters that forget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evseq.cache.guard import Admitted, Refused, admit
from evseq.cache.identity import Identity
from evseq.engines.protocol import Batch, Session
from evseq.faults.broken import BrokenEngine, BrokenSession, Forward, Logits
from evseq.faults.fault import ANY, FULL, SLIDING, Area, Side, fault
from evseq.faults.inside import layers, scale, shifted, views, window
from evseq.faults.needs import in_reference, known_inside, layered, sliding
from evseq.verdict.result import Check


@fault(
    area=Area.CROP,
    report="ml-explore/mlx-lm#1109",
    catches=("crop-and-rewrite", "crop", Check.ACCOUNTING),
    shows={FULL: {"cache": "growing"}},
    needs=(in_reference, layered),
)
class DraftStaysInOneLayer(BrokenSession):
    """The last layer cannot be trimmed, and keeps what was rejected."""

    def crop(self, lengths: Sequence[int]) -> None:
        last = layers(self)[-1]
        kept = last.keys, last.values, last.positions
        self.inner.crop(lengths)
        last.keys, last.values, last.positions = kept


@fault(
    area=Area.CROP,
    report="microsoft/onnxruntime-genai#2140",
    catches=("crop-to-the-start", "crop", Check.ACCOUNTING),
    shows=ANY,
)
class RewindToNothing(BrokenSession):
    """A rollback to the start does nothing."""

    def crop(self, lengths: Sequence[int]) -> None:
        self.inner.crop(lengths if any(lengths) else self.inner.probe().lengths)


@fault(
    area=Area.CROP,
    report="nicedreamzapp/claude-code-local#47",
    catches=("crop-and-rewrite", "crop", Check.ACCOUNTING),
    shows=ANY,
)
class TrimByAllocation(BrokenSession):
    """How much to trim is reckoned from what is allocated, comes out negative, and nothing is trimmed."""

    def crop(self, lengths: Sequence[int]) -> None:
        del lengths
        self.inner.crop(self.inner.probe().lengths)


@fault(
    area=Area.CROP,
    report="huggingface/transformers#30312",
    catches=("crop-and-rewrite", "crop", Check.ACCOUNTING),
    shows={FULL: {"cache": "fixed"}},
    needs=(in_reference,),
)
class CropShrinksBuffer(BrokenSession):
    """A rollback builds shorter tensors where a fixed buffer must stay."""

    def crop(self, lengths: Sequence[int]) -> None:
        self.inner.crop(lengths)
        for storage in layers(self):
            columns = getattr(storage, "columns", storage.positions.shape[1])
            for part in ("keys", "values"):
                setattr(storage, part, getattr(storage, part)[:, :, :columns])
            storage.positions = storage.positions[:, :columns]


@fault(
    area=Area.CROP,
    report="paiml/aprender#2014",
    catches=("crop-and-rewrite", "crop", Check.ISOLATION),
    shows=ANY,
)
class MirrorReset(BrokenSession):
    """Of two mirrored copies one is reset to nothing where both must be rolled back."""

    def crop(self, lengths: Sequence[int]) -> None:
        self.inner.crop(lengths)
        scale(self, lambda positions: positions >= 0, layer=0)


@fault(
    area=Area.CROP,
    report="Blaizzy/mlx-vlm#1715",
    catches=("crop-past-window", "crop", Check.ISOLATION),
    shows=SLIDING,
    needs=(known_inside, sliding),
)
class RingCutByLength(BrokenSession):
    """Past its window a ring is cut by a logical length while its index stays."""

    def crop(self, lengths: Sequence[int]) -> None:
        full = max(self.inner.probe().lengths) > window(self)
        self.inner.crop(lengths)
        for held in views(self) if full else ():
            held.values.copy_(held.values.roll(1, dims=2))


@fault(
    area=Area.CROP,
    report="microsoft/onnxruntime-genai#2555",
    catches=("draft-and-rollback", "append", Check.PARITY),
    shows=ANY,
)
class StaleLogitsAfterRewind(BrokenSession):
    """The first logits after a rollback are those of before it."""

    last: Logits | None = None
    stale = False

    def crop(self, lengths: Sequence[int]) -> None:
        self.inner.crop(lengths)
        self.stale = True

    def append(self, batch: Batch) -> Logits:
        logits = self.inner.append(batch)
        before, self.last = self.last, logits
        if self.stale and before is not None and before.shape[1] >= logits.shape[1]:
            logits = before[:, : logits.shape[1]]
        self.stale = False
        return logits


@fault(
    area=Area.CROP,
    report="ggml-org/llama.cpp#12160",
    catches=("draft-and-rollback", "crop", Check.ACCOUNTING),
    shows=ANY,
)
class SecondRangeUnshifted(BrokenSession):
    """The second rollback still reckons with where tokens stood before the first, and keeps one too many."""

    crops = 0

    def crop(self, lengths: Sequence[int]) -> None:
        self.crops += 1
        held = self.inner.probe().lengths
        more = [min(have, keep + 1) for have, keep in zip(held, lengths, strict=True)]
        self.inner.crop(more if self.crops > 1 else lengths)


@fault(
    area=Area.CROP,
    report="huggingface/transformers#48000",
    catches=("draft-and-rollback", "append", Check.PARITY),
    shows=ANY,
)
class RoundsAddUp(BrokenSession):
    """Each round of draft and rollback after the first numbers tokens one further."""

    rounds = 0

    def crop(self, lengths: Sequence[int]) -> None:
        self.inner.crop(lengths)
        self.rounds += 1

    def append(self, batch: Batch) -> Logits:
        return self.inner.append(shifted(batch, max(0, self.rounds - 1)))


@fault(
    area=Area.CROP,
    report="huggingface/text-generation-inference#2711",
    catches=("crop-per-row", "crop", Check.ACCOUNTING),
    shows=ANY,
)
class UnevenCropEvened(BrokenSession):
    """Where rows drop different numbers of tokens, all drop the smallest number."""

    def crop(self, lengths: Sequence[int]) -> None:
        held = self.inner.probe().lengths
        fewest = min(have - keep for have, keep in zip(held, lengths, strict=True))
        self.inner.crop([have - fewest for have in held])


@fault(
    area=Area.CROP,
    report="Blaizzy/mlx-vlm#1715",
    catches=("crop-in-fork", "crop", Check.ISOLATION),
    shows=ANY,
)
class CropOfForkMovesSource(BrokenSession):
    """A rollback in a fork halves its source's newest token."""

    source: BrokenSession | None = None

    def fork(self) -> Session:
        twin = self.twin()
        twin.source = self
        return twin

    def crop(self, lengths: Sequence[int]) -> None:
        self.inner.crop(lengths)
        if self.source is not None:
            scale(self.source, lambda positions: positions == positions.amax(dim=1, keepdim=True), 0.5)


class Last(BrokenSession):
    """Remembers the last column it was fed."""

    last: Batch | None = None

    def feed(self, batch: Batch, forward: Forward) -> Logits:
        given = batch.positions
        self.last = replace(
            batch,
            tokens=batch.tokens[:, -1:],
            mask=batch.mask[:, -1:],
            positions=None if given is None else given[:, -1:],
        )
        return forward(batch)

    def fork(self) -> Session:
        twin = self.twin()
        if vars(self.engine).pop("hit", False) and self.last is not None:
            twin.inner.append(self.last)
        return twin


@fault(
    area=Area.CROP,
    report="lablup/mlxcel#1760",
    catches=("prompt-replayed", "reuse", Check.REUSE),
    shows=ANY,
    side=Side.REUSE,
)
class WholeHitRunsLastAgain(BrokenEngine):
    """Where all of a prompt is cached its last token is run again, on top of the cache that holds it."""

    session = Last

    def reuse(self, recorded: Identity, asked: Identity) -> Admitted | Refused:
        """Admit or refuse as evseq's guard."""
        verdict = admit(recorded, asked)
        vars(self)["hit"] = isinstance(verdict, Admitted)
        return verdict
