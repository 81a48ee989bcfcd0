"""Bench: what does one trial after another, and what all of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from evseq.audit.healthy import Healthy, Sound, sound
from evseq.audit.trial import Trial, Tried, tried
from evseq.golden.terms import Terms
from evseq.pipeline import Run, Settings

__all__ = ["bench"]


@contextmanager
def bench(*, threads: int, goldens: Terms) -> Iterator[Callable[[Trial | Healthy], Tried | Sound]]:
    """Give what does one trial after another, with what all of them share: goldens, and a process for fresh reloads."""
    with Run(Settings(threads=threads, goldens=goldens)) as running:
        yield partial(_attempt, running=running)


def _attempt(work: Trial | Healthy, *, running: Run) -> Tried | Sound:
    return tried(work, running) if isinstance(work, Trial) else sound(work, running)
