"""Accounting: checks that need no reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evseq.geometry import Layout
from evseq.replay.recording import Probed
from evseq.verdict.evidence import Evidence
from evseq.verdict.result import Check, Finding

__all__ = ["accounting", "completed"]


def completed(evidence: Evidence) -> Iterator[Finding]:
    """Find operations that raised, except where the script says `loud`, and cases in which nothing was observed."""
    if not evidence.recording.fed and not evidence.recording.failures:
        yield evidence.finding(Check.COMPLETED, 0, "no token was fed: nothing was observed")
    for failure in evidence.recording.failures:
        if evidence.step(failure.step).event not in evidence.recording.plan.loud:
            yield evidence.finding(Check.COMPLETED, failure.step, f"session {failure.session!r}: {failure.error}")


def accounting(evidence: Evidence) -> Iterator[Finding]:
    """Find counts of the engine that differ from the plan's: lengths, positions, visible tokens, bytes, forwards."""
    for probed in evidence.recording.probed:
        yield from _probe(evidence, probed)
    for fed in evidence.recording.fed:
        real = len(fed.nodes)
        if not real <= fed.forwarded <= fed.columns:
            yield evidence.finding(
                Check.ACCOUNTING,
                fed.step,
                f"{fed.forwarded} token columns were forwarded, expected {fed.columns}",
                row=next(iter(fed.rows), None),  # none where a chunk holds nothing but masked slots
                index=next(iter(fed.indices), None),
                actual=fed.forwarded,
                expected=fed.columns,
            )


def _probe(evidence: Evidence, probed: Probed) -> Iterator[Finding]:
    actual, expected = probed.probe, probed.expected
    if probed.forwarded:
        yield evidence.finding(
            Check.ACCOUNTING,
            probed.step,
            f"{probed.forwarded} token columns were forwarded, expected none",
            row=probed.rows[0],
            index=max(0, expected.lengths[0] - 1),
            actual=probed.forwarded,
            expected=0,
        )
    shape = _shape(actual.lengths, actual.next_positions, actual.visible)
    wanted_shape = _shape(expected.lengths, expected.next_positions, expected.visible)
    if shape != wanted_shape:
        yield evidence.finding(
            Check.ACCOUNTING,
            probed.step,
            f"the probe reads {shape}, expected {wanted_shape}",
            row=probed.rows[0],
            index=0,
            actual=shape,
            expected=wanted_shape,
        )
        return
    told = [
        ("tokens held", actual.lengths, expected.lengths),
        ("next position", actual.next_positions, expected.next_positions),
        *(
            (f"tokens visible in layer {layer}", *counts)
            for layer, counts in enumerate(zip(actual.visible, expected.visible, strict=True))
        ),
    ]
    for name, now, planned in told:
        for row, found, wanted in zip(probed.rows, now, planned, strict=True):
            if found != wanted:
                last = max(0, expected.lengths[probed.rows.index(row)] - 1)
                yield evidence.finding(
                    Check.ACCOUNTING,
                    probed.step,
                    f"{name}: {found}, expected {wanted}",
                    row=row,
                    index=last,
                    actual=found,
                    expected=wanted,
                )
    yield from _held(evidence, probed)


def _held(evidence: Evidence, probed: Probed) -> Iterator[Finding]:
    layout, held = evidence.recording.plan.layouts[probed.group], probed.probe.cache_bytes
    wanted = _bytes(evidence, layout, rows=len(probed.rows), probed=probed)
    packs = evidence.kind.packs and wanted > 0
    if 0 < held < wanted if packs else held == wanted:
        return
    yield evidence.finding(
        Check.ACCOUNTING,
        probed.step,
        f"cache bytes: {held}, expected {'less than ' if packs else ''}{wanted}",
        row=probed.rows[0],
        index=max(0, probed.expected.lengths[0] - 1),
        actual=held,
        expected=wanted,
    )


def _shape(lengths: Sequence[int], positions: Sequence[int], visible: Sequence[Sequence[int]]) -> str:
    rows = sorted({len(lengths), len(positions), *(len(layer) for layer in visible)})
    return f"{' or '.join(map(str, rows))} rows in {len(visible)} layers"


def _bytes(evidence: Evidence, layout: Layout, *, rows: int, probed: Probed) -> int:
    """Two arrays of rows, slots, kv heads and head dim per layer, slots being what the cache kind keeps."""
    kind = evidence.description.cache(layout.cache)
    assert kind is not None
    numbers = sum(
        2 * rows * layer.kv_heads * layer.head_dim * kind.slots(layer, fed=probed.expected.columns, layout=layout)
        for layer in evidence.description.geometry.layers
    )
    return numbers * evidence.recording.dtype.itemsize
