"""What an engine's pool gave: nothing beyond the first difference, and what it keeps it really gives."""

from __future__ import annotations

from collections.abc import Iterator

from evseq.cache.fields import FIELDS, Kind
from evseq.replay.recording import Drawn
from evseq.script.steps import Draw
from evseq.verdict.bounds import holds
from evseq.verdict.evidence import Evidence
from evseq.verdict.result import Check, Finding, Note

__all__ = ["policies", "pool_admission", "pool_reuse"]

BY = "the engine's pool"


def pool_admission(evidence: Evidence) -> Iterator[Finding]:
    """Find what came from a pool under an engine that is not what it was when it was kept."""
    for drawn, draw in _drawn(evidence):
        if draw.refused is None:
            continue
        row = draw.request.rows[0].name
        for count, what in ((drawn.columns, f"{BY} reused"), (drawn.forwarded, f"{BY} forwarded")):
            if count:
                yield evidence.finding(
                    Check.REFUSAL,
                    drawn.step,
                    f"{what} {count} token columns, expected {draw.refused} to be refused",
                    row=row,
                    index=0,
                    actual=count,
                    expected=0,
                )


def pool_reuse(evidence: Evidence) -> Iterator[Finding]:
    """Find rows of which a pool gave more than was the same, or less than it keeps, and what it did not really give."""
    for drawn, draw in _drawn(evidence):
        if draw.refused is not None:
            continue
        used, total, first = sum(drawn.tokens), draw.request.tokens, draw.request.rows[0].name
        for row, tokens, bound in zip(draw.request.rows, drawn.tokens, draw.bounds, strict=True):
            if tokens > bound.tokens:
                yield evidence.finding(
                    Check.REUSE,
                    drawn.step,
                    f"{tokens} tokens came from {BY}, at most {bound.tokens} may: {bound.why}",
                    row=row.name,
                    index=bound.tokens,
                    actual=tokens,
                    expected=f"at most {bound.tokens}",
                )
        again = drawn.forwarded + _surplus(evidence, drawn)
        if again:
            yield evidence.finding(
                Check.REUSE,
                drawn.step,
                f"{BY} says that {used} tokens are reused, and {again} token columns more than the rest were forwarded",
                row=first,
                index=0,
                actual=again,
                expected=0,
            )
        wanted, failed = f"least {draw.least}", used < draw.least
        if draw.reused is not None and draw.reused_limit is not None:
            wanted = next(f"{word} {draw.reused_limit}" for word, number in draw.reused if number is not None)
            failed = not holds(draw.reused, draw.reused_limit, used)
        if failed:
            yield evidence.finding(
                Check.REUSE,
                drawn.step,
                f"{used} of {total} tokens came from {BY}, expected {wanted}",
                row=first,
                index=0,
                actual=used,
                expected=wanted,
            )


def policies(evidence: Evidence) -> Iterator[Note]:
    """Say of what a pool did not give why no number shows that this was right."""
    for drawn, draw in _drawn(evidence):
        bounds = zip(drawn.tokens, draw.bounds, strict=True)
        names = [bound.field for tokens, bound in bounds if bound.field and tokens == bound.tokens == 0]
        for name in dict.fromkeys(names):
            field = FIELDS[name]
            if field.kind is Kind.POLICY:
                yield Note(kind="policy", message=f"{name}: refused by {BY}; {field.reason}")
            elif draw.refused:
                told = f"{name}: refused by {BY}, which cannot be made to give it: no number shows the damage here"
                yield Note(kind="not forced", message=told)


def _drawn(evidence: Evidence) -> Iterator[tuple[Drawn, Draw]]:
    for drawn in evidence.recording.drawn:
        step = evidence.step(drawn.step)
        assert isinstance(step, Draw)
        yield drawn, step


def _surplus(evidence: Evidence, drawn: Drawn) -> int:
    """Return how many token columns the forward of the rest took beyond its own."""
    return sum(max(0, fed.forwarded - fed.columns) for fed in evidence.recording.fed if fed.step == drawn.step)
