"""Broken engines that a suite of plain sequences passes over: each fault waits for one turn of events."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Int
from torch import Tensor

from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch
from evseq.engines.reference.caches import Fixed, Ring
from evseq.engines.reference.session import ReferenceSession
from evseq.engines.reference.storage import Storage
from planted.faults import planted


def _numbered(session: ReferenceSession, batch: Batch) -> Int[Tensor, "row column"]:
    """Number the tokens of an append as a healthy engine does that is left alone."""
    behind: Int[Tensor, "row column"] = session.storages[0].next_positions()[:, None] + batch.mask.cumsum(1) - 1
    return behind


@planted("full")
@dataclass(kw_only=True)
class counts_holes(ReferenceSession):  # noqa: N801 - named as the target is
    """Left alone, a prefill numbers slots from the first token on, holes included."""

    def prefill(self, batch: Batch) -> Tensor:
        first = batch.mask.int().argmax(1, keepdim=True)  # row 1
        slots = torch.arange(batch.mask.shape[1]) - first  # row column
        return super().prefill(replace(batch, positions=slots.clamp(min=0)))


@planted("full")
@dataclass(kw_only=True)
class counts_the_first_row(ReferenceSession):  # noqa: N801
    """Left alone, every row is numbered as the first one once beams were selected."""

    selected: bool = False

    def select(self, parents: Sequence[int]) -> None:
        super().select(parents)
        self.selected = True

    def append(self, batch: Batch) -> Tensor:
        positions = _numbered(self, batch)  # row column
        return super().append(replace(batch, positions=positions[:1].expand_as(positions) if self.selected else None))


@planted("full")
@dataclass(kw_only=True)
class counts_waiting(ReferenceSession):  # noqa: N801
    """Left alone, the slot in which a row waited is a token when the row goes on."""

    waited: int | Tensor = 0

    def append(self, batch: Batch) -> Tensor:
        positions = _numbered(self, batch) + self.waited  # row column
        self.waited = (~batch.mask).sum(1, keepdim=True)  # row 1
        return super().append(replace(batch, positions=positions))


@planted("full")
@dataclass(kw_only=True)
class freed_with_its_source(ReferenceSession):  # noqa: N801
    """Once a session is dropped, what its fork shared with it is gone."""

    twin: ReferenceSession | None = None

    def fork(self) -> ReferenceSession:
        self.twin = super().fork()
        return self.twin

    def __del__(self) -> None:
        for storage in self.twin.storages if self.twin else ():
            storage.values = torch.zeros_like(storage.values)


@planted("full")
@dataclass(kw_only=True)
class reloads_share(ReferenceSession):  # noqa: N801
    """A second reload of a file gets the buffers of the first."""

    def restore(self, state: CacheState) -> None:
        super().restore(state)
        for storage, first in zip(self.storages, RELOADED.pop("first", ()), strict=False):
            storage.keys, storage.values = first.keys, first.values
        RELOADED["first"] = self.storages


RELOADED: dict[str, list[Storage]] = {}
"""The buffers `reloads_share` restored last."""


@planted("full")
@dataclass(kw_only=True)
class room_for_two(ReferenceSession):  # noqa: N801
    """A third live session is prefilled into the slots of the first."""

    def prefill(self, batch: Batch) -> Tensor:
        if self.rows is None:
            live = [session for known in PREFILLED if (session := known()) is not None]
            for storage in live[0].storages if len(live) > 1 else ():
                storage.values = storage.values * 0.9
            PREFILLED[:] = [weakref.ref(session) for session in (*live, self)]
        return super().prefill(batch)


PREFILLED: list[weakref.ref[ReferenceSession]] = []
"""The sessions of `room_for_two`, oldest first."""


@planted("full")
@dataclass(kw_only=True)
class stumbles_at_five(ReferenceSession):  # noqa: N801
    """A crop by exactly five tokens harms what it keeps."""

    def crop(self, lengths: Sequence[int]) -> None:
        held = self.storages[0].lengths().tolist()
        super().crop(lengths)
        for storage in self.storages if held[0] - lengths[0] == 5 else ():
            storage.values = storage.values * 0.5


@planted("full")
@dataclass(kw_only=True)
class remembers_beams(ReferenceSession):  # noqa: N801
    """In buffers kept after a selection the last layer still sees what the beams held."""

    selected: bool = False
    beams: list[Tensor] = field(default_factory=list)

    def select(self, parents: Sequence[int]) -> None:
        super().select(parents)
        self.selected = True

    def reset(self) -> None:
        self.beams = [self.storages[-1].positions.clone()] if self.selected else []
        super().reset()

    def prefill(self, batch: Batch) -> Tensor:
        logits = super().prefill(batch)
        last = self.storages[-1]
        for old in self.beams:
            assert isinstance(last, Fixed)
            last.positions = torch.where(last.positions < 0, old[: len(last.positions)], last.positions)
        return logits


@planted("full")
@dataclass(kw_only=True)
class half_selected(ReferenceSession):  # noqa: N801
    """In bfloat16, a batch that grows or shrinks gets the values of the neighbouring beams."""

    def select(self, parents: Sequence[int]) -> None:
        before = self.rows
        super().select(parents)
        for storage in self.storages if self.rows != before else ():
            if storage.dtype is torch.bfloat16:
                storage.values = storage.values.roll(1, 0)


@planted("window")
@dataclass(kw_only=True)
class lost_after_three_laps(ReferenceSession):  # noqa: N801
    """A ring that begins its fourth lap has its values one slot off."""

    def append(self, batch: Batch) -> Tensor:
        logits = super().append(batch)
        for storage in self.storages:
            if isinstance(storage, Ring) and bool((storage.counts == 3 * storage.slots + 1).any()):
                storage.values = storage.values.roll(1, 2)
        return logits


@planted("window")
@dataclass(kw_only=True)
class stumbles_at_the_window(ReferenceSession):  # noqa: N801
    """A crop to exactly one window harms what it keeps."""

    def crop(self, lengths: Sequence[int]) -> None:
        super().crop(lengths)
        for storage in self.storages:
            if storage.layer.window in lengths:
                storage.values = storage.values * 0.9
