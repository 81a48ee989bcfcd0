"""Compact: little of each accepted row of a large vocabulary, and the bounds that hold for what is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
import torch
from jaxtyping import Float, Float32, Int, Int8, Int32, Int64
from torch import Tensor

from evseq.cache.canonical import Scalar
from evseq.geometry import Dtype
from evseq.verdict.standard import Quantity

__all__ = ["BLIND", "BLOCK", "Compact"]

TOP = 256
"""Logits kept of each row, largest first: 2 KB with their ids, and all that decides a next token."""

BUCKET = 64
"""Entries of one signed sum. At 49,152 entries the sums are 1/64 of a full row, everything kept 2.6 % of it."""

SEED = 20_251
"""Of the buckets and signs. Any number will do; another one makes files that only half compare with older ones."""

BLOCK = 1 << 22
"""Logits worked on at once: 32 MB a copy in float64, however many rows there are."""

BLIND = (
    f"outside the {TOP} largest logits of a row a compact golden sees only signed sums of {BUCKET}: one logit that "
    f"moves by less than {BUCKET} allowances and stays outside is not seen, nor are changes that cancel in their sum"
)
"""What a compact golden cannot see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """The largest logits of each row, the log-sum-exp of all, and signed sums of all, each logit in one bucket.

    It never fails what a full golden passes. Let x be a row in float32, as a full golden keeps it, and y what is held
    to it, each entry off by at most a. Then

    * a logit kept is off by at most a, as any other;
    * an entry outside has x at most t, the least kept, so y at most t + a;
    * log-sum-exp grows in every entry, and lse(x ± a) = lse(x) ± a, so it is off by at most a;
    * a sum of n entries with signs s is off by |Σ s (y - x)| ≤ Σ |y - x| ≤ n a.

    The last two are allowed their rounding besides, to float32 where they are kept and in the float64 arithmetic. The
    converse does not hold: outside the top one logit that moves by less than 64 a and stays outside is not seen, nor
    are changes that cancel in their bucket; `BLIND` says so to a reader. `top` descends, equal logits by id.
    """

    top: Float32[Tensor, "row rank"]
    ids: Int32[Tensor, "row rank"]
    lse: Float32[Tensor, " row"]
    sums: Float32[Tensor, "row bucket"]
    magnitude: Float32[Tensor, " row"]
    vocab: int
    bucket: int = BUCKET
    seed: int = SEED

    @classmethod
    def of(cls, truth: Float[Tensor, "row vocab"], *, top: int = TOP, bucket: int = BUCKET, seed: int = SEED) -> Self:
        """Keep rows of truth, a block at a time; a vocabulary below `top` entries is all kept."""
        vocab = truth.shape[-1]
        parts = []
        for block in _blocks(truth):
            rows = block.float()
            values, ids = rows.sort(dim=-1, descending=True, stable=True)  # row vocab
            lse, sums = _summed(rows.double(), bucket, seed)
            kept = (values[:, :top], ids[:, :top].int(), lse.float(), sums.float(), rows.abs().amax(-1))
            parts.append([tensor.clone() for tensor in kept])
        largest, which, lse, sums, magnitude = map(torch.cat, zip(*parts, strict=True))
        return cls(
            top=largest, ids=which, lse=lse, sums=sums, magnitude=magnitude, vocab=vocab, bucket=bucket, seed=seed
        )

    @property
    def scale(self) -> Float[Tensor, " row"]:
        """The largest magnitude in each row, which may be that of a large negative logit."""
        return self.magnitude.double()

    @property
    def finite(self) -> bool:
        """Whether every number kept is one; no logit is left out of the magnitudes."""
        return all(bool(tensor.isfinite().all()) for tensor in (self.top, self.lse, self.sums, self.magnitude))

    def taken(self, rows: Sequence[int]) -> Self:
        """Return some of the rows."""
        at = list(rows)
        return type(self)(
            top=self.top[at],
            ids=self.ids[at],
            lse=self.lse[at],
            sums=self.sums[at],
            magnitude=self.magnitude[at],
            vocab=self.vocab,
            bucket=self.bucket,
            seed=self.seed,
        )

    def at(self, ids: Int[Tensor, "row entry"]) -> Float[Tensor, "row entry"]:
        """Return the logits of these ids, NaN where they are not kept."""
        ordered, ranks = self.ids.sort(dim=-1)  # row rank
        place = torch.searchsorted(ordered, ids.int().contiguous()).clamp_max(ordered.shape[-1] - 1)  # row entry
        known = ordered.gather(-1, place) == ids
        return self.top.gather(-1, ranks.gather(-1, place)).double().where(known, torch.nan)

    def quantities(
        self, rows: Sequence[int], logits: Float[Tensor, "observation vocab"], allowed: Float[Tensor, " observation"]
    ) -> tuple[Quantity, ...]:
        """Compare observations with the rows of their histories, where each logit may be off by `allowed`."""
        return self.taken(rows).observed(logits, allowed)

    def observed(self, logits: Float[Tensor, "row vocab"], allowed: Float[Tensor, " row"]) -> tuple[Quantity, ...]:
        """Compare everything kept with whole rows, row by row, a block at a time."""
        parts = []
        for block, ids in zip(_blocks(logits), _blocks(self.ids.long(), like=logits), strict=True):
            rows = block.double()
            others = rows.scatter(-1, ids, -torch.inf).max(dim=-1, keepdim=True)
            parts.append((rows.gather(-1, ids), *others, *_summed(rows, self.bucket, self.seed)))
        here, largest, which, lse, sums = map(torch.cat, zip(*parts, strict=True))
        outside = (self._outside(which, largest, allowed),) if self.ids.shape[-1] < self.vocab else ()
        return (
            _entries("logit", self.ids, here, self.top, allowed),
            *outside,
            self._log_sum_exp(lse, allowed),
            self._buckets(sums, allowed),
        )

    def compared(self, now: Self, allowed: Float[Tensor, " row"]) -> tuple[Quantity, ...]:
        """Compare with what another compact golden keeps, row by row, as far as both know.

        An id that only one keeps is at most the other's least one: so much of it is compared. Sums over other buckets
        are not.
        """
        here, there = now.at(self.ids), self.at(now.ids)  # row rank
        most = self.top.double().minimum(now.top[:, -1:].double())
        risen = now.top.double().where(there.isnan(), self.top[:, -1:].double())
        alike = (self.bucket, self.seed) == (now.bucket, now.seed)
        return (
            _entries("logit", self.ids, here.where(~here.isnan(), most), self.top, allowed),
            self._outside(now.ids, risen, allowed),
            self._log_sum_exp(now.lse.double(), allowed),
            *((self._buckets(now.sums.double(), allowed),) if alike else ()),
        )

    def _outside(
        self, ids: Int[Tensor, "row entry"], logits: Float[Tensor, "row entry"], allowed: Float[Tensor, " row"]
    ) -> Quantity:
        """Hold logits that are not kept below the least kept; one that is below it is as expected."""
        noun = f"logit outside the top {self.ids.shape[-1]}, id"
        return _entries(noun, ids, logits, logits.minimum(self.top[:, -1:].double()), allowed)

    def _log_sum_exp(self, actual: Float[Tensor, " row"], allowed: Float[Tensor, " row"]) -> Quantity:
        # Two sums of `vocab` terms, each term rounded as its exponent is: an analysis to first order, doubled.
        arithmetic = 4 * self.vocab * Dtype.FLOAT64.epsilon * (1 + self.scale + allowed)
        return _rounded("log-sum-exp", None, actual[:, None], self.lse[:, None], (allowed + arithmetic)[:, None])

    def _buckets(self, actual: Float[Tensor, "row bucket"], allowed: Float[Tensor, " row"]) -> Quantity:
        buckets = actual.shape[-1]
        number = torch.arange(buckets)
        entries = (self.vocab - number * self.bucket).clamp_max(self.bucket)  # bucket; the last one may have fewer
        # Two sums of n terms of at most scale + allowed: (n - 1) roundings of at most n terms each.
        each = allowed + self.bucket * Dtype.FLOAT64.epsilon * (self.scale + allowed)
        return _rounded("sum of bucket", number.expand_as(actual), actual, self.sums, each[:, None] * entries)

    def tensors(self) -> dict[str, Tensor]:
        """Return what a file holds of it."""
        return {"top": self.top, "ids": self.ids, "lse": self.lse, "sums": self.sums, "magnitude": self.magnitude}

    def facts(self) -> dict[str, Scalar]:
        """Return what a file says of it besides tensors."""
        numbers = {"top": self.top.shape[-1], "vocab": self.vocab, "bucket": self.bucket, "seed": self.seed}
        return {"form": "compact", **numbers}

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor], facts: Mapping[str, Scalar]) -> Self:
        """Return what a file holds. Raises KeyError, TypeError or ValueError for what no compact golden is."""
        top, vocab, bucket, seed = (_count(facts, name) for name in ("top", "vocab", "bucket", "seed"))
        rows = len(tensors["magnitude"])
        shapes = {"top": (rows, top), "ids": (rows, top), "lse": (rows,), "magnitude": (rows,)}
        for name, shape in (shapes | {"sums": (rows, -(-vocab // bucket))}).items():
            dtype = torch.int32 if name == "ids" else torch.float32
            if tensors[name].dtype != dtype or tuple(tensors[name].shape) != shape:
                raise ValueError(
                    f"{name}: {tensors[name].dtype} {tuple(tensors[name].shape)}, expected {dtype} {shape}"
                )
        ordered = tensors["ids"].sort(dim=-1).values
        if bool((ordered < 0).any() or (ordered >= vocab).any() or (ordered.diff(dim=-1) == 0).any()):
            raise ValueError(f"ids: not different ids below {vocab}")
        if bool((tensors["top"].diff(dim=-1) > 0).any()):
            raise ValueError("top: not from the largest to the least")
        kept = {name: tensors[name] for name in ("top", "ids", "lse", "sums", "magnitude")}
        return cls(**kept, vocab=vocab, bucket=bucket, seed=seed)


def _count(facts: Mapping[str, Scalar], name: str) -> int:
    number = facts[name]
    if type(number) is not int or not 0 < number < 1 << 31:
        raise ValueError(f"{name}: {number!r}, expected a count")
    return number


def _blocks(rows: Tensor, *, like: Tensor | None = None) -> Iterator[Tensor]:
    """Return rows in blocks of at most `BLOCK` logits, or cut where those of `like` are."""
    yield from rows.split(max(1, BLOCK // (rows if like is None else like).shape[-1]))


@lru_cache(maxsize=4)
def _projection(vocab: int, seed: int) -> tuple[Int64[Tensor, " vocab"], Int8[Tensor, " vocab"]]:
    """Return the order in which entries are dealt into buckets, and the sign of each place in that order.

    Philox is a counter cipher on integers, and numpy promises that a key gives the same stream for ever; torch's own
    generator differs by device and version.
    """
    words = np.random.Philox(key=seed).random_raw(2 * vocab)
    order = np.argsort(words[:vocab], kind="stable")
    signs = 1 - 2 * (words[vocab:] >> np.uint64(63)).astype(np.int8)
    return torch.from_numpy(order), torch.from_numpy(signs)


def _summed(
    rows: Float[Tensor, "row vocab"], bucket: int, seed: int
) -> tuple[Float[Tensor, " row"], Float[Tensor, "row bucket"]]:
    """Return the log-sum-exp of each row of float64 and the signed sum of each bucket."""
    order, signs = _projection(rows.shape[-1], seed)
    signed = torch.nn.functional.pad(rows[:, order] * signs, (0, -rows.shape[-1] % bucket))
    return rows.logsumexp(-1), signed.unflatten(-1, (-1, bucket)).sum(-1)


def _entries(noun: str, ids: Tensor, actual: Tensor, expected: Tensor, allowed: Tensor) -> Quantity:
    limits = allowed[:, None].expand_as(actual)
    return Quantity(noun=noun, number=ids, actual=actual, expected=expected.double(), allowed=limits)


def _rounded(noun: str, number: Tensor | None, actual: Tensor, expected: Tensor, allowed: Tensor) -> Quantity:
    """Allow the rounding to float32 of either side, half a unit each."""
    rounding = Dtype.FLOAT32.epsilon * actual.abs().maximum(expected.double().abs())
    return Quantity(noun=noun, number=number, actual=actual, expected=expected.double(), allowed=allowed + rounding)
