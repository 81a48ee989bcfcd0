"""Forms: how much of each accepted row of logits a golden keeps, and what an observation can be held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self, assert_never

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from evseq.cache.canonical import Scalar
from evseq.golden.compact import Compact
from evseq.golden.terms import FormWord
from evseq.verdict.standard import Quantity

__all__ = ["FORMS", "Form", "Full", "form_of"]

LARGE = 8192
"""Entries from which `auto` keeps a vocabulary compact. A compact row is 2 KB and a sixty-fourth of the full one: at
8,192 entries that is 8 % of 32 KB, and a script of 250 histories stays below a megabyte instead of taking eight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """Every logit of every row, in float32."""

    logits: Float32[Tensor, "row vocab"]

    @classmethod
    def of(cls, truth: Float[Tensor, "row vocab"]) -> Self:
        """Keep rows of truth."""
        return cls(logits=truth.float())

    @property
    def scale(self) -> Float[Tensor, " row"]:
        """The largest magnitude in each row."""
        return self.logits.double().abs().amax(-1)

    @property
    def vocab(self) -> int:
        """Entries of a row."""
        return self.logits.shape[-1]

    @property
    def lse(self) -> Float[Tensor, " row"]:
        """The log-sum-exp of each row."""
        return self.logits.double().logsumexp(-1)

    @property
    def finite(self) -> bool:
        """Whether every number kept is one."""
        return bool(self.logits.isfinite().all())

    def taken(self, rows: Sequence[int]) -> Self:
        """Return some of the rows."""
        return type(self)(logits=self.logits[list(rows)])

    def at(self, ids: Int[Tensor, "row entry"]) -> Float[Tensor, "row entry"]:
        """Return the logits of these ids."""
        return self.logits.gather(-1, ids.long()).double()

    def quantities(
        self, rows: Sequence[int], logits: Float[Tensor, "observation vocab"], allowed: Float[Tensor, " observation"]
    ) -> tuple[Quantity, ...]:
        """Compare every logit."""
        expected = self.logits[list(rows)].double()  # observation vocab
        return (
            Quantity(
                noun="logit",
                number=torch.arange(expected.shape[-1]).expand_as(expected),
                actual=logits.double(),
                expected=expected,
                allowed=allowed[:, None].expand_as(expected),
            ),
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return what a file holds of it."""
        return {"logits": self.logits}

    def facts(self) -> dict[str, Scalar]:
        """Return what a file says of it besides tensors."""
        return {"form": "full"}

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor], facts: Mapping[str, Scalar]) -> Self:
        """Return what a file holds. Raises KeyError or ValueError for what no full golden is."""
        del facts
        logits = tensors["logits"]
        _, vocab = logits.shape
        if logits.dtype != torch.float32 or not vocab:
            raise ValueError(f"logits: {logits.dtype} {tuple(logits.shape)}, expected rows of float32")
        return cls(logits=logits)


Form = Full | Compact

FORMS: Mapping[str, type[Full | Compact]] = {"full": Full, "compact": Compact}
"""Every form by the word a file says."""


def form_of(word: FormWord, truth: Float[Tensor, "row vocab"]) -> Form:
    """Keep rows of truth in the form asked for; `auto` chooses by the size of the vocabulary."""
    match word:
        case FormWord.FULL:
            return Full.of(truth)
        case FormWord.COMPACT:
            return Compact.of(truth)
        case FormWord.AUTO:
            return Compact.of(truth) if truth.shape[-1] >= LARGE else Full.of(truth)
    assert_never(word)
