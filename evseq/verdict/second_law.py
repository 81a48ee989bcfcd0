"""Nothing is reused at or beyond the first difference, and what is admitted is really reused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from evseq.cache.fields import FIELDS
from evseq.cache.identity import Difference
from evseq.replay.recording import Asked, Forced
from evseq.script.steps import Load
from evseq.verdict.allowance import allowance
from evseq.verdict.bounds import holds
from evseq.verdict.compare import beyond, deviation
from evseq.verdict.evidence import Evidence
from evseq.verdict.malformed import malformed
from evseq.verdict.pooling import pool_admission, pool_reuse
from evseq.verdict.result import Check, Finding

__all__ = ["Shown", "refusal", "reuse", "shown_damage", "undamaged"]


def refusal(evidence: Evidence) -> Iterator[Finding]:
    """Find changes that were not refused by name, place and before any forward, and refusals without a change."""
    for asked in evidence.recording.asked:
        load = evidence.load(asked.step)
        if load.refused is not None:
            yield from _refused(evidence, asked, load)
            yield from _damage(evidence, asked.step, load)
        elif asked.differences and load.legal is None:
            yield _admission(evidence, asked)
    yield from malformed(evidence)
    yield from pool_admission(evidence)


def _refused(evidence: Evidence, asked: Asked, load: Load) -> Iterator[Finding]:
    assert load.refused is not None
    wanted = _wanted(evidence, asked, load)
    where = " ".join(part for part in (load.refused, wanted.place) if part)
    told: list[tuple[str, object, object]] = []
    named = [difference for difference in asked.differences if difference.field not in load.also]
    if not asked.differences:
        told.append((f"reuse was admitted, expected {load.refused} to be refused", "admitted", where))
    else:
        first = (named or asked.differences)[0]
        if not wanted.met(first):
            told.append((f"refused for {first}, expected {where}", first, where))
        others = named[1:]
        told += [(f"refused for {other} too, which was not changed", other, "nothing") for other in others]
    if asked.forwarded:
        ran = f"{asked.forwarded} token columns were forwarded before the refusal, expected 0"
        told.append((ran, asked.forwarded, 0))
    for message, actual, expected in told:
        yield evidence.finding(
            Check.REFUSAL, asked.step, message, row=wanted.row, index=wanted.index, actual=actual, expected=expected
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The field that must be refused, and as much of the place inside it as is known."""

    field: str
    row: str | None = None
    index: int | None = None
    key: str | None = None

    @property
    def place(self) -> str:
        """The place in words."""
        unit = FIELDS[self.field].unit
        parts = [] if self.row is None else [f"row {self.row!r}"]
        parts += [] if self.index is None else [f"{unit} {self.index}"]
        parts += [] if self.key is None else [f"{unit} {self.key!r}"]
        return " ".join(parts)

    def met(self, difference: Difference) -> bool:
        """Whether a difference is in the field, and where it must be."""
        here = difference.field == self.field
        here &= self.row is None or (difference.row, difference.index) == (self.row, self.index)
        return here and (self.key is None or difference.key == self.key)


def _wanted(evidence: Evidence, asked: Asked, load: Load) -> _Wanted:
    assert load.refused is not None
    row, index = load.place or (None, None)
    altered = (one for one in evidence.recording.altered if one.step < asked.step and one.field == load.refused)
    last = next(iter(sorted(altered, key=lambda one: -one.step)), None)
    return _Wanted(field=load.refused, row=row, index=index, key=last.key if last else None)


def _admission(evidence: Evidence, asked: Asked) -> Finding:
    first = asked.differences[0]
    rows = evidence.load(asked.step).request.rows
    in_row = isinstance(first.row, str)
    token = in_row and FIELDS[first.field].unit == "index"  # others count slots, characters or layers
    return evidence.finding(
        Check.REFUSAL,
        asked.step,
        f"refused for {first}, though nothing was changed",
        row=str(first.row) if in_row else rows[0].name,
        index=first.index if token and first.index is not None else 0,
        actual="refused",
        expected="admitted",
    )


def undamaged(evidence: Evidence, step: int) -> dict[str, str]:
    """Return touched rows in which the forced stale cache is not wrong by more than allowed, with what it is off by.

    Rows that truth itself does not tell apart are left out: the change is out of reach of the probe token.
    """
    shown = shown_damage(evidence, step)
    return {} if shown is None else {row: how.told for row, how in shown.items() if how.reached and not how.wrong}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How far a forced stale cache is off in one row, and what is allowed; whether truth tells the change at all."""

    off: float
    allowed: float
    reached: bool

    @property
    def wrong(self) -> bool:
        """Whether the damage shows."""
        return self.off > self.allowed

    @property
    def told(self) -> str:
        """How it is told where it does not."""
        return f"off by only {self.off:.3g}, allowed {self.allowed:.3g}"


def shown_damage(evidence: Evidence, step: int) -> dict[str, Shown] | None:
    """Return by touched row what a forced stale cache shows; None where none was forced, or the engine took none."""
    references, load = evidence.references, evidence.load(step)
    forced = next((forced for forced in evidence.recording.forced if forced.step == step), None)
    if forced is None or forced.logits is None or load.damage is None:
        return None
    right = load.damage.right[-1]
    places = references.places(tuple(nodes[-1] for nodes in right.nodes))
    known = references.truth[places]
    truths = known if forced.truth is None else forced.truth.double()
    limits = _limits(evidence, forced, places)
    off = deviation(forced.logits, truths).largest
    if forced.truth is not None:
        reach = deviation(known, truths).largest
    elif load.damage.stale:
        reach = deviation(references.truth[references.places(load.damage.stale)], truths).largest
    else:  # the cache is at no history of this engine
        reach = off + 1.0
    return {
        right.rows[row]: Shown(off=float(off[row]), allowed=float(limits[row]), reached=float(reach[row]) > 0)
        for row in load.damage.touched
    }


def _limits(evidence: Evidence, forced: Forced, places: Sequence[int]) -> Float[Tensor, " row"]:
    """Return what the probe column is allowed; a changed engine's logits may be larger, and so their rounding."""
    limits: Tensor = allowance(evidence.recording.dtype, evidence.references)[places]
    if forced.truth is None:
        return limits
    larger = forced.truth.double().abs().amax(-1) / evidence.references.scale[places].clamp_min(1e-300)
    return limits * larger.clamp_min(1.0)


def _damage(evidence: Evidence, step: int, load: Load) -> Iterator[Finding]:
    """Find forced stale caches that show no damage, or that do not answer as what was saved would."""
    if load.damage is None:
        return
    right, references = load.damage.right[-1], evidence.references
    if evidence.recording.dtype is references.deciding.dtype:
        for row, how in undamaged(evidence, step).items():
            yield evidence.finding(
                Check.REFUSAL,
                step,
                f"the stale cache, forced, is {how}: this change shows no damage, the script has no power",
                row=row,
                index=right.indices[right.rows.index(row)][-1],
            )
    for forced in evidence.recording.forced:
        if forced.step != step:
            continue
        if forced.truth is not None and forced.afresh is not None:
            if evidence.recording.dtype is not references.deciding.dtype:
                continue  # how far the changed engine rounds in another dtype, nobody measured
            what, actual, expected = "the changed engine, asked afresh,", forced.afresh, forced.truth.double()
            whose = "its own uncached forward"
            places = references.places(tuple(nodes[-1] for nodes in right.nodes))
        elif load.damage.stale and forced.logits is not None:
            what, whose, actual = "the stale cache, forced,", "what was saved", forced.logits
            places = references.places(load.damage.stale)
            expected = references.truth[places]
        else:
            continue
        for one in beyond(actual, expected, _limits(evidence, forced, places)):
            yield evidence.finding(
                Check.PARITY,
                step,
                f"{what} is off by {one.off:.3g} from {whose}, allowed {one.allowed:.3g}",
                row=right.rows[one.place],
                index=right.indices[one.place][-1],
                share=one.share,
            )


def reuse(evidence: Evidence) -> Iterator[Finding]:
    """Find admitted caches that were not used: prefix tokens forwarded again at the reload or the next step on it.

    What the engine reuses beyond the first difference is found too, by a rule or out of a pool.
    """
    yield from pool_reuse(evidence)
    for asked in evidence.recording.asked:
        load = evidence.load(asked.step)
        if load.refused is not None or (asked.differences and load.reused is None):
            continue
        again = asked.forwarded + _surplus(evidence, asked)
        used = max(0, load.request.tokens - again)
        message, actual, wanted = f"{again} token columns of the prefix were forwarded again", again, "0"
        failed = bool(again)
        yield from _beyond(evidence, asked, load)
        if load.reused is not None and load.reused_limit is not None:
            wanted = next(f"{word} {load.reused_limit}" for word, n in load.reused if n is not None)
            message, actual = f"{used} of {load.request.tokens} tokens came from the cache", used
            failed = not holds(load.reused, load.reused_limit, used)
        if failed:
            yield evidence.finding(
                Check.REUSE,
                asked.step,
                f"{message}, expected {wanted}",
                row=load.request.rows[0].name,
                index=0,
                actual=actual,
                expected=wanted,
            )


def _beyond(evidence: Evidence, asked: Asked, load: Load) -> Iterator[Finding]:
    """Find rows of which more was reused than stands before their first difference."""
    fed = [fed for fed in evidence.recording.fed if fed.session == asked.session and fed.step == asked.step]
    for row, legal in zip(load.request.rows, load.legal or (), strict=False):
        used = len(row.positions) - sum(one.rows.count(row.name) for one in fed)
        if used > legal:
            yield evidence.finding(
                Check.REUSE,
                asked.step,
                f"{used} tokens came from the cache, the first difference is at index {legal}",
                row=row.name,
                index=legal,
                actual=used,
                expected=f"at most {legal}",
            )


def _surplus(evidence: Evidence, asked: Asked) -> int:
    """Return the tokens of the prefix that were forwarded with what follows.

    What was not reused is fed with the question; whatever the next step on the session forwards beyond its own columns
    it forwards again.
    """
    fed = [fed for fed in evidence.recording.fed if fed.session == asked.session and fed.step >= asked.step]
    with_it = [one for one in fed if one.step == asked.step]
    following = next((one for one in fed if one.step > asked.step), None)
    surplus = sum(len(one.nodes) + max(0, one.forwarded - one.columns) for one in with_it)
    if following is not None and not following.prefill:  # else never fed, or dropped and another opened under its name
        surplus += max(0, following.forwarded - following.columns)
    return surplus
