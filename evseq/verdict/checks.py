"""The checks, each a function from evidence to findings. None of them runs a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from evseq.verdict.accounting import accounting, completed
from evseq.verdict.evidence import Evidence
from evseq.verdict.first_law import continuity, finite, isolation, parity, reference
from evseq.verdict.golden import golden
from evseq.verdict.lossy import envelope, solo
from evseq.verdict.result import Check, Finding
from evseq.verdict.second_law import refusal, reuse

__all__ = ["CHECKS"]

CHECKS: dict[Check, Callable[[Evidence], Iterator[Finding]]] = {
    Check.COMPLETED: completed,
    Check.REFERENCE: reference,
    Check.REFUSAL: refusal,
    Check.REUSE: reuse,
    Check.FINITE: finite,
    Check.PARITY: parity,
    Check.SOLO: solo,
    Check.ENVELOPE: envelope,
    Check.GOLDEN: golden,
    Check.CONTINUITY: continuity,
    Check.ISOLATION: isolation,
    Check.ACCOUNTING: accounting,
}
"""Every check a recording is held to, in the order in which one event's findings are told."""
