"""Bench: what does one trial after another, and what all of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from evseq.audit.healthy import Healthy, Sound, sound
from evseq.audit.trial import Trial, Tried, tried
from evseq.golden.terms import Terms
from evseq.pipeline import Run, Settings
from evseq.replay.oracle import Known

__all__ = ["bench"]


ROOM = 1 << 28
"""Bytes of uncached logits that are kept for other faults of the same target."""


@contextmanager
def bench(*, threads: int, goldens: Terms) -> Iterator[Callable[[Trial | Healthy], Tried | Sound]]:
    """Give what does one trial after another.

    They share goldens, a process for fresh reloads, and what the uncached side of a target says, as long as its fault
    is elsewhere.
    """
    with Run(Settings(threads=threads, goldens=goldens)) as running:
        yield partial(_attempt, running=running, known={})


def _attempt(work: Trial | Healthy, *, running: Run, known: dict[str, Known]) -> Tried | Sound:
    if isinstance(work, Healthy):
        return sound(work, running)
    shared = known.setdefault(work.target, {})
    if sum(logits.nbytes for logits in shared.values()) > ROOM:
        shared.clear()
    return tried(work, running, known=shared)
