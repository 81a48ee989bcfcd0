"""Drift: how far two goldens of one script are apart, history by history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import assert_never

import torch
from jaxtyping import Float
from torch import Tensor

from evseq.geometry import Dtype
from evseq.golden.compact import BLOCK, Compact
from evseq.golden.forms import Form, Full
from evseq.golden.golden import Golden
from evseq.golden.histories import TOP, Histories
from evseq.verdict.standard import Quantity, worst

__all__ = ["Drift", "Flip", "Moved", "drift"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The number of one row that uses the largest share of what it is allowed; `row` is one of the golden now.

    `allowance` is what each logit of the row may be off, `scale` its largest magnitude before.
    """

    row: int
    share: float
    name: str
    actual: float
    expected: float
    allowed: float
    allowance: float
    scale: float

    @property
    def deviation(self) -> float:
        """By how much some logit moved, in logits.

        Exact for a logit that both sides keep. Else it moved at least so much: one outside the top is told by as much
        as it is above the least kept, a log-sum-exp and a sum by what each logit in them moved on average.
        """
        return self.share * max(self.allowance, 1e-300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A row whose largest logit is another token's; `margin` is what it led by before, `scale` as in `Moved`."""

    row: int
    before: int
    after: int
    margin: float
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Two goldens of one script, compared where they have the same histories; every row is one of the golden now.

    `moved` are the rows beyond their allowance, `largest` the worst whatever its share, `flips` the rows with another
    next token; `kl` is the largest KL(before ‖ now) in nats and `kl_row` where. Unless `exact` a side is compact, and
    KL is that of two coarser distributions: over the ids known to both, and one outcome for the rest. By the data
    processing inequality it is a lower bound, to float32's rounding: beyond a limit it proves too much drift, within
    one it proves nothing.
    """

    matched: int
    added: int
    removed: int
    moved: tuple[Moved, ...]
    largest: Moved | None
    flips: tuple[Flip, ...]
    kl: float
    kl_row: int | None
    exact: bool

    @property
    def share(self) -> float:
        """The largest share of an allowance used; above 1 something moved."""
        return self.largest.share if self.largest else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    moved: Moved
    flip: Flip | None
    kl: float


def drift(now: Golden, before: Golden) -> Drift:
    """Compare two goldens of one script. Rows of other vocabularies never match."""
    alike = now.logits.vocab == before.logits.vocab
    pairs = _matched(now.histories, before.histories) if alike else []
    rows = list(_rows(now, before, pairs))
    most = max(rows, key=lambda row: row.kl, default=None)
    return Drift(
        matched=len(pairs),
        added=len(now.histories.observed) - len(pairs),
        removed=len(before.histories.observed) - len(pairs),
        moved=tuple(row.moved for row in rows if row.moved.share > 1),
        largest=max((row.moved for row in rows), key=lambda moved: moved.share, default=None),
        flips=tuple(row.flip for row in rows if row.flip),
        kl=most.kl if most else 0.0,
        kl_row=most.moved.row if most else None,
        exact=isinstance(now.logits, Full) and isinstance(before.logits, Full),
    )


def _matched(now: Histories, before: Histories) -> list[tuple[int, int]]:
    """Return the rows of both that end one history, ascending by those now."""
    slots = {key: slot for slot, key in enumerate(zip(before.parents, before.tokens, before.positions, strict=True))}
    row_of = {slot: row for row, slot in enumerate(before.observed)}
    found = {TOP: TOP}  # slot now → slot before; a parent stands before what it carries
    for slot, (parent, token, position) in enumerate(zip(now.parents, now.tokens, now.positions, strict=True)):
        there = slots.get((found[parent], token, position)) if parent in found else None
        if there is not None:
            found[slot] = there
    ends = [found.get(slot, TOP) for slot in now.observed]
    return [(row, row_of[slot]) for row, slot in enumerate(ends) if slot in row_of]


def _rows(now: Golden, before: Golden, pairs: Sequence[tuple[int, int]]) -> Iterator[_Row]:
    """Compare matched rows, a block at a time."""
    left = iter(pairs)
    while block := list(islice(left, max(1, BLOCK // now.logits.vocab))):
        numbers, rows = zip(*block, strict=True)
        yield from _block(numbers, now.logits.taken(numbers), before.logits.taken(rows), before.allowed[list(rows)])


def _block(numbers: Sequence[int], now: Form, before: Form, allowed: Float[Tensor, " row"]) -> Iterator[_Row]:
    off = worst(_quantities(now, before, allowed.double()))
    kls, scales = _kl(now, before).tolist(), before.scale.tolist()
    (first, margins), (after, _) = _leading(before), _leading(now)
    for place, number in enumerate(numbers):
        moved = Moved(
            row=number,
            share=float(off.share[place]),
            name=off.name[place],
            actual=float(off.actual[place]),
            expected=float(off.expected[place]),
            allowed=float(off.allowed[place]),
            allowance=float(allowed[place]),
            scale=scales[place],
        )
        flip = None
        if after[place] != first[place]:
            flip = Flip(row=number, before=first[place], after=after[place], margin=margins[place], scale=scales[place])
        yield _Row(moved=moved, flip=flip, kl=kls[place])


def _quantities(now: Form, before: Form, allowed: Float[Tensor, " row"]) -> tuple[Quantity, ...]:
    """Hold rows to rows, in as much as both keep."""
    match now, before:
        case Full(), _:
            return before.quantities(range(len(allowed)), now.logits.double(), allowed)
        case Compact(), Full():
            there = Compact.of(before.logits, top=now.top.shape[-1], bucket=now.bucket, seed=now.seed)
            return there.compared(now, allowed)
        case Compact(), Compact():
            return before.compared(now, allowed)
        case _:
            assert_never(now)


def _leading(form: Form) -> tuple[list[int], list[float]]:
    """Return the next token of each row, the first of equals, and by how much it leads."""
    match form:
        case Full(logits=logits):
            ids, top = logits.argmax(-1), logits.topk(min(2, form.vocab)).values
        case Compact(ids=kept, top=top):
            ids = kept[:, 0]
        case _:
            assert_never(form)
    second = min(1, top.shape[-1] - 1)  # a vocabulary of one entry has none, and its token never changes
    return ids.tolist(), (top[:, 0].double() - top[:, second].double()).tolist()


def _kl(now: Form, before: Form) -> Float[Tensor, " row"]:
    """Return KL(before ‖ now) of each row in nats, in float64; infinite where a side is not finite."""
    if isinstance(now, Full) and isinstance(before, Full):
        p, q = (form.logits.double().log_softmax(-1) for form in (before, now))  # row vocab
        total = (p.exp() * (p - q)).sum(-1)
    else:
        total = _coarse_kl(now, before)
    return total.clamp_min(0.0).nan_to_num(nan=torch.inf, posinf=torch.inf)


def _coarse_kl(now: Form, before: Form) -> Float[Tensor, " row"]:
    ids = next(form.ids for form in (before, now) if isinstance(form, Compact))  # row rank
    p, q = (form.at(ids) - form.lse.double()[:, None] for form in (before, now))  # row rank
    known = ~(p.isnan() | q.isnan())
    # The rest is known to the rounding of log-sum-exp; what is smaller may as well be nothing on either side.
    least = Dtype.FLOAT32.epsilon * (1 + before.scale.maximum(now.scale))
    rest_p, rest_q = ((1 - x.exp().where(known, 0).sum(-1)).maximum(least).log() for x in (p, q))
    return (p.exp() * (p - q)).where(known, 0).sum(-1) + rest_p.exp() * (rest_p - rest_q)
