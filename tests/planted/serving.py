"""Broken engines of serving: drafts rolled back wrongly, rows that leave or join at the cost of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from evseq.engines.protocol import Batch, Session
from evseq.engines.reference.caches import Fixed, Ring
from evseq.engines.reference.session import ReferenceSession
from planted.faults import planted


@planted("window")
@dataclass(kw_only=True)
class full_ring_keeps_drafts(ReferenceSession):  # noqa: N801 - named as the target is
    """A ring that is full is not rolled back (ml-explore/mlx-lm#1423)."""

    def crop(self, lengths: Sequence[int]) -> None:
        full = [one for one in self.storages if isinstance(one, Ring) and int(one.counts.min()) > one.slots]
        held = [(one.positions, one.counts) for one in full]
        super().crop(lengths)
        for storage, (positions, counts) in zip(full, held, strict=True):
            storage.positions, storage.counts = positions, counts


@planted("full")
@dataclass(kw_only=True)
class fixed_buffer_shrinks(ReferenceSession):  # noqa: N801
    """A rollback cuts the fixed buffers to what they hold (huggingface/transformers#30312)."""

    def crop(self, lengths: Sequence[int]) -> None:
        super().crop(lengths)
        for storage in self.storages:
            if isinstance(storage, Fixed):
                storage.keys = storage.keys[:, :, : storage.columns]
                storage.values = storage.values[:, :, : storage.columns]
                storage.positions = storage.positions[:, : storage.columns]


@planted("full")
@dataclass(kw_only=True)
class one_layer_starts_over(ReferenceSession):  # noqa: N801
    """A rollback empties the last layer in place of cutting it (paiml/aprender#2014)."""

    def crop(self, lengths: Sequence[int]) -> None:
        super().crop(lengths)
        self.storages[-1].values = torch.zeros_like(self.storages[-1].values)


@planted("full")
@dataclass(kw_only=True)
class rejected_still_seen(ReferenceSession):  # noqa: N801
    """Where rows keep unequal numbers, what the shorter ones rejected stays in their view (ml-explore/mlx-lm#1109)."""

    def crop(self, lengths: Sequence[int]) -> None:
        held = self.storages[0].lengths().tolist()
        dropped = min(have - keep for have, keep in zip(held, lengths, strict=True))
        super().crop([have - dropped for have in held])


@planted("full")
@dataclass(kw_only=True)
class adds_up_over_rounds(ReferenceSession):  # noqa: N801
    """From the third rollback on, positions are one too high (huggingface/transformers#48000)."""

    crops: int = 0

    def crop(self, lengths: Sequence[int]) -> None:
        super().crop(lengths)
        self.crops += 1

    def append(self, batch: Batch) -> Tensor:
        if self.crops > 2 and batch.positions is not None:
            batch = replace(batch, positions=batch.positions + 1)
        return super().append(batch)


@planted("full")
@dataclass(kw_only=True)
class rollback_recomputes(ReferenceSession):  # noqa: N801
    """A rollback starts from nothing and runs what is kept again; every logit is right."""

    def crop(self, lengths: Sequence[int]) -> None:
        super().crop(lengths)
        self.decoder.embedding(torch.zeros(len(lengths), max(lengths), dtype=torch.long))


@planted("full")
@dataclass(kw_only=True)
class values_not_filtered(ReferenceSession):  # noqa: N801
    """Where rows leave, keys are filtered and values are those of the first rows."""

    def select(self, parents: Sequence[int]) -> None:
        values = [storage.values[: len(parents)] for storage in self.storages]
        super().select(parents)
        for storage, first in zip(self.storages, values, strict=True):
            storage.values = first


@planted("full")
@dataclass(kw_only=True)
class survivors_requantised(ReferenceSession):  # noqa: N801
    """Those that stay are packed anew, and what they hold is rounded on the way."""

    def select(self, parents: Sequence[int]) -> None:
        super().select(parents)
        for storage in self.storages:
            storage.keys = storage.keys.to(torch.bfloat16).to(storage.keys.dtype)


@planted("full")
@dataclass(kw_only=True)
class pads_of_a_joiner_seen(ReferenceSession):  # noqa: N801
    """The masked slots in front of the narrower side are tokens of position 0 (Blaizzy/mlx-vlm#1946)."""

    def join(self, other: Session) -> None:
        assert isinstance(other, ReferenceSession)
        short = self.storages[0].positions.shape[1] - other.storages[0].positions.shape[1]
        rows = self.rows or 0
        super().join(other)
        for storage in self.storages:
            narrower = slice(rows, None) if short > 0 else slice(0, rows)
            storage.positions[narrower, : abs(short)] = 0


@planted("full")
@dataclass(kw_only=True)
class one_offset_for_all(ReferenceSession):  # noqa: N801
    """After rows joined, every token is numbered as those of the longest row."""

    joined: bool = False

    def join(self, other: Session) -> None:
        super().join(other)
        self.joined = True

    def append(self, batch: Batch) -> Tensor:
        if self.joined and batch.positions is not None:
            positions = batch.positions.amax(0, keepdim=True).expand_as(batch.positions)  # row column
            batch = replace(batch, positions=positions)
        return super().append(batch)


@planted("full")
@dataclass(kw_only=True)
class join_recomputes(ReferenceSession):  # noqa: N801
    """Where rows join, those in the batch are run again; every logit is right."""

    fed: list[Batch] = field(default_factory=list)

    def prefill(self, batch: Batch) -> Tensor:
        self.fed = [*self.fed, batch]
        return super().prefill(batch)

    def join(self, other: Session) -> None:
        super().join(other)
        for batch in self.fed:
            self.decoder.embedding(batch.tokens)


@planted("window")
@dataclass(kw_only=True)
class running_rows_shifted(ReferenceSession):  # noqa: N801
    """Where a longer row joins, the keys of those in the batch are moved by one slot and their positions are not."""

    def join(self, other: Session) -> None:
        rows = self.rows or 0
        super().join(other)
        for storage in self.storages:
            storage.keys[:rows] = storage.keys[:rows].roll(1, dims=2)


@planted("full")
@dataclass(kw_only=True)
class cannot_join(ReferenceSession):  # noqa: N801
    """Rows that join are declared and not implemented."""

    join = None  # type: ignore[assignment]


@planted("full")
@dataclass(kw_only=True)
class cannot_prefill_one(ReferenceSession):  # noqa: N801
    """A prefill of a single row raises."""

    def prefill(self, batch: Batch) -> Tensor:
        if len(batch.tokens) == 1:
            raise RuntimeError("out of memory")
        return super().prefill(batch)
