"""Nothing of a damaged file is used: each damage is an error of its own, told before any forward."""

from __future__ import annotations

from collections.abc import Iterator

from evseq.script.steps import LoadDamaged
from evseq.verdict.evidence import Evidence
from evseq.verdict.result import Check, Finding

__all__ = ["malformed"]


def malformed(evidence: Evidence) -> Iterator[Finding]:
    """Find damaged files that were admitted, told as another error, or noticed only after a forward."""
    for damaged in evidence.recording.damaged:
        load = evidence.step(damaged.step)
        assert isinstance(load, LoadDamaged)
        where = f"a damaged file ({load.region} {damaged.place})"
        told: list[tuple[str, object, object]] = []
        if damaged.error is None:
            told.append((f"{where} was admitted, expected {load.malformed}", "admitted", load.malformed))
        elif damaged.error != load.malformed:
            told.append(
                (f"{where} is told as {damaged.told}, expected {load.malformed}", damaged.error, load.malformed)
            )
        if damaged.forwarded:
            told.append(
                (f"{where}: {damaged.forwarded} token columns were forwarded, expected 0", damaged.forwarded, 0)
            )
        for message, actual, expected in told:
            yield evidence.finding(Check.REFUSAL, damaged.step, message, actual=actual, expected=expected)
