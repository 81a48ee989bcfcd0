"""Broken engines: the reference with one fault each, opened as `planted.faults:NAME` in any process.

Their sessions are dataclasses without slots: with them, `super()` would look for the class as it was before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch, CacheView
from evseq.engines.reference import loader as healthy
from evseq.engines.reference.engine import ReferenceEngine
from evseq.engines.reference.loader import ReferenceLoader
from evseq.engines.reference.session import ReferenceSession
from evseq.geometry import Description, Dtype, Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A loader whose engine opens sessions of another class."""

    loader: ReferenceLoader
    session: type[ReferenceSession]

    def describe(self) -> Description:
        """Describe the healthy engine: a fault does not announce itself."""
        return self.loader.describe()

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Tokenize as the healthy engine."""
        return self.loader.tokenize(text)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> PlantedEngine:
        """Load the healthy weights."""
        return PlantedEngine(engine=self.loader.load(dtype, options), session=self.session)


@dataclass(slots=True, kw_only=True)
class PlantedEngine:
    """The healthy engine in everything but its sessions."""

    engine: ReferenceEngine
    session: type[ReferenceSession]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def open(self, layout: Layout) -> ReferenceSession:
        """Open a faulty session."""
        opened = self.engine.open(layout)
        return self.session(decoder=opened.decoder, layout=opened.layout, storages=opened.storages)


def planted(configuration: str) -> Callable[[type[ReferenceSession]], Callable[[], Planted]]:
    """Make a target of a faulty session class."""
    return lambda session: lambda: Planted(loader=healthy(configuration), session=session)


@planted("full")
@dataclass(kw_only=True)
class positions_after_crop(ReferenceSession):  # noqa: N801 - named as the target is
    """Positions are one too high once a session was cropped."""

    shift: int = 0

    def crop(self, lengths: Sequence[int]) -> None:
        super().crop(lengths)
        self.shift = 1

    def append(self, batch: Batch) -> Tensor:
        assert batch.positions is not None
        return super().append(replace(batch, positions=batch.positions + self.shift))


@planted("full")
@dataclass(kw_only=True)
class mask_ignored(ReferenceSession):  # noqa: N801
    """The pads of shorter rows are attended to, as tokens at position 0."""

    def prefill(self, batch: Batch) -> Tensor:
        return super().prefill(replace(batch, mask=torch.ones_like(batch.mask)))


@planted("full")
@dataclass(kw_only=True)
class values_not_selected(ReferenceSession):  # noqa: N801
    """Beam selection permutes keys and leaves values where they were."""

    def select(self, parents: Sequence[int]) -> None:
        values = [storage.values for storage in self.storages]
        super().select(parents)
        for storage, stayed in zip(self.storages, values, strict=True):
            if stayed.shape == storage.values.shape:
                storage.values = stayed


@planted("window")
@dataclass(kw_only=True)
class window_too_wide(ReferenceSession):  # noqa: N801
    """Sliding layers of the cached step see one token more than the window."""

    def append(self, batch: Batch) -> Tensor:
        config = self.decoder.config
        wide = [replace(layer, window=layer.window and layer.window + 1) for layer in config.layers]
        self.decoder.config = replace(config, layers=tuple(wide))
        try:
            return super().append(batch)
        finally:
            self.decoder.config = config


@planted("full")
@dataclass(kw_only=True)
class fork_shares_storage(ReferenceSession):  # noqa: N801
    """A fork writes into the buffers of its source."""

    def fork(self) -> ReferenceSession:
        twin = super().fork()
        for mine, its in zip(self.storages, twin.storages, strict=True):
            its.keys, its.values = mine.keys, mine.values
        return twin


@planted("full")
@dataclass(kw_only=True)
class reload_drops_last(ReferenceSession):  # noqa: N801
    """A restored cache lacks the last token of every row."""

    def restore(self, state: CacheState) -> None:
        super().restore(state)
        super().crop([length - 1 for length in self.storages[0].lengths().tolist()])


@planted("full")
@dataclass(kw_only=True)
class rounded_on_save(ReferenceSession):  # noqa: N801
    """Keys and values are rounded to float16 on their way to the file."""

    def export(self) -> CacheState:
        state = super().export()
        rounded = {
            name: tensor.half().to(tensor.dtype) if tensor.is_floating_point() else tensor
            for name, tensor in state.tensors.items()
        }
        return replace(state, tensors=rounded)


FED: dict[str, list[Batch]] = {}
"""What the recomputing engine remembers behind everybody's back, by the bytes of the keys it exported."""


@planted("full")
@dataclass(kw_only=True)
class restore_recomputes(ReferenceSession):  # noqa: N801
    """A restore throws the file away and runs the whole prefix again; every logit is right."""

    history: list[Batch] = field(default_factory=list)

    def prefill(self, batch: Batch) -> Tensor:
        self.history = [*self.history, batch]
        return super().prefill(batch)

    def export(self) -> CacheState:
        state = super().export()
        FED[_key(state)] = list(self.history)
        return state

    def restore(self, state: CacheState) -> None:
        for batch in FED[_key(state)]:
            super().prefill(batch)


def _key(state: CacheState) -> str:
    return state.tensors["layer.0.keys"].numpy().tobytes().hex()


@planted("full")
@dataclass(kw_only=True)
class not_finite(ReferenceSession):  # noqa: N801
    """One logit of every append is not a number."""

    def append(self, batch: Batch) -> Tensor:
        logits = super().append(batch)
        logits[..., 3] = torch.nan
        return logits


@planted("full")
@dataclass(kw_only=True)
class crop_raises(ReferenceSession):  # noqa: N801
    """Rolling back is not implemented, and says so."""

    def crop(self, lengths: Sequence[int]) -> None:
        raise NotImplementedError("no crop for this cache")


@planted("full")
@dataclass(kw_only=True)
class append_moves_cache(ReferenceSession):  # noqa: N801
    """Every append scales the first cached key a little."""

    def append(self, batch: Batch) -> Tensor:
        for storage in self.storages:
            storage.keys = storage.keys * 1.0
            storage.keys[:, :, 0] *= 1.001
        return super().append(batch)


@planted("full")
@dataclass(kw_only=True)
class forwards_twice(ReferenceSession):  # noqa: N801
    """Every append runs the embedding twice."""

    def append(self, batch: Batch) -> Tensor:
        self.decoder.embedding(batch.tokens)
        return super().append(batch)


@planted("full")
@dataclass(kw_only=True)
class recomputes_lazily(ReferenceSession):  # noqa: N801
    """A restored cache is complete, but the first append on it runs the whole prefix through the decoder again."""

    restored: bool = False

    def restore(self, state: CacheState) -> None:
        super().restore(state)
        self.restored = True

    def append(self, batch: Batch) -> Tensor:
        if self.restored:
            self.restored = False
            self.decoder.embedding(torch.zeros(len(batch.tokens), 7, dtype=torch.long))
        return super().append(batch)


@planted("full")
@dataclass(kw_only=True)
class restored_otherwise(ReferenceSession):  # noqa: N801
    """A restored session adds up in another order: every logit is right, and not the same bits."""

    restored: bool = False

    def restore(self, state: CacheState) -> None:
        super().restore(state)
        self.restored = True

    def append(self, batch: Batch) -> Tensor:
        logits = super().append(batch)
        return logits + 2.0**-48 if self.restored else logits


@planted("full")
@dataclass(kw_only=True)
class never_the_same(ReferenceSession):  # noqa: N801
    """No two forwards of the engine give the same bits."""

    def append(self, batch: Batch) -> Tensor:
        logits = super().append(batch)
        return logits + torch.randn_like(logits) * 2.0**-48


@planted("full")
@dataclass(kw_only=True)
class stale_is_right(ReferenceSession):  # noqa: N801
    """Whatever a restored cache holds, an append on it answers as the append before it did, in another session."""

    restored: bool = False

    def restore(self, state: CacheState) -> None:
        super().restore(state)
        self.restored = True

    def append(self, batch: Batch) -> Tensor:
        logits = super().append(batch)
        if not self.restored:
            ANSWERS[:] = [logits]
        return ANSWERS[0] if self.restored else logits


ANSWERS: list[Tensor] = []
"""What `stale_is_right` answered last."""


@planted("full")
@dataclass(kw_only=True)
class logits_of_last_token(ReferenceSession):  # noqa: N801
    """Only the last column's logits are returned."""

    def prefill(self, batch: Batch) -> Tensor:
        return super().prefill(batch)[:, -1]


@planted("full")
@dataclass(kw_only=True)
class one_buffer(ReferenceSession):  # noqa: N801
    """Every append writes its logits into the same buffer. Nothing is wrong with that, for who takes a copy."""

    buffer: Tensor | None = None

    def append(self, batch: Batch) -> Tensor:
        logits = super().append(batch)
        if self.buffer is None:
            self.buffer = torch.empty_like(logits)
        return self.buffer.copy_(logits)


@planted("full")
@dataclass(kw_only=True)
class exits(ReferenceSession):  # noqa: N801
    """An append ends the process, and says that all is well."""

    def append(self, batch: Batch) -> Tensor:
        sys.exit(0)


@planted("full")
@dataclass(kw_only=True)
class prefills_twice(ReferenceSession):  # noqa: N801
    """Every prefill runs the embedding twice."""

    def prefill(self, batch: Batch) -> Tensor:
        self.decoder.embedding(batch.tokens)
        return super().prefill(batch)


@planted("full")
@dataclass(kw_only=True)
class fork_goes_blind(ReferenceSession):  # noqa: N801
    """A fork can be looked at once, and then no more."""

    looks: int | None = None

    def fork(self) -> ReferenceSession:
        twin: Any = super().fork()
        twin.looks = 1
        return twin  # type: ignore[no-any-return]

    def view(self) -> CacheView:
        if self.looks is not None:
            self.looks -= 1
            if self.looks < 0:
                raise RuntimeError("freed")
        return super().view()


@planted("full")
@dataclass(kw_only=True)
class interrupted(ReferenceSession):  # noqa: N801
    """Someone presses Ctrl-C during the first append."""

    def append(self, batch: Batch) -> Tensor:
        raise KeyboardInterrupt


@planted("full")
@dataclass(kw_only=True)
class shows_nothing(ReferenceSession):  # noqa: N801
    """Keys and values cannot be looked at. Nothing is wrong with that."""

    def view(self) -> None:  # type: ignore[override]
        return None


@planted("full")
@dataclass(kw_only=True)
class exports_other_names(ReferenceSession):  # noqa: N801
    """The exported tensors go by names of the engine's own."""

    def export(self) -> CacheState:
        state = super().export()
        return replace(state, tensors={f"past.{name}": tensor for name, tensor in state.tensors.items()})


@planted("full")
@dataclass(kw_only=True)
class exports_flat(ReferenceSession):  # noqa: N801
    """The heads of exported keys are one after the other in one axis."""

    def export(self) -> CacheState:
        state = super().export()
        flat = {name: tensor.flatten(1, 2) if tensor.dim() > 3 else tensor for name, tensor in state.tensors.items()}
        return replace(state, tensors=flat)


@planted("full")
@dataclass(kw_only=True)
class fork_moves_source(ReferenceSession):  # noqa: N801
    """A fork scales the source's first cached key a little, after the fork took its copy."""

    def fork(self) -> ReferenceSession:
        twin = super().fork()
        for storage in self.storages:
            storage.keys[:, :, 0] *= 1.001
        return twin
