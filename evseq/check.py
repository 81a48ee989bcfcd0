"""The names of the checks: what a script may allow, and what a finding is of."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Check"]


class Check(StrEnum):
    """The checks, in the order in which one event's findings are told."""

    ARITHMETIC = "arithmetic"
    COMPLETED = "completed"
    REFERENCE = "reference"
    REFUSAL = "refusal"
    REUSE = "reuse"
    FINITE = "finite"
    PARITY = "parity"
    SOLO = "solo"
    ENVELOPE = "envelope"
    GOLDEN = "golden"
    CONTINUITY = "continuity"
    ISOLATION = "isolation"
    ACCOUNTING = "accounting"
