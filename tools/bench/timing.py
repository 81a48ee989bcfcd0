"""Timing: ours against the bare operation, interleaved in one process, told as a ratio."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles

__all__ = ["Line", "Timed", "interleaved"]

FEWEST = 5
"""Rounds below which quartiles say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Seconds of each round, ours and bare, taken in turns."""

    ours: tuple[float, ...]
    bare: tuple[float, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """Ours over bare, round by round: what slows the machine down for a while slows both."""
        return tuple(one / other for one, other in zip(self.ours, self.bare, strict=True))

    @property
    def ratio(self) -> float:
        """The median ratio."""
        return median(self.ratios)

    @property
    def more(self) -> float:
        """The median of what ours takes longer, in seconds."""
        return median(one - other for one, other in zip(self.ours, self.bare, strict=True))

    @property
    def spread(self) -> tuple[float, float]:
        """First and last quartile of the ratios."""
        first, _, last = quantiles(self.ratios, n=4)
        return first, last


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table. `target` is what was meant to hold, `held` whether it does; None where none was set."""

    what: str
    timed: Timed
    figure: str
    target: str = ""
    held: bool | None = None

    def told(self) -> str:
        """Return the line as the table shows it."""
        first, last = self.timed.spread
        mark = {True: "held", False: "MISSED", None: ""}[self.held]
        seconds = f"{_seconds(median(self.timed.ours))} / {_seconds(median(self.timed.bare))}"
        return f"{self.what:<58} {self.figure:<22} {first:6.3g}-{last:<6.3g} {seconds:<19} {self.target:<18} {mark}"


def interleaved(ours: Callable[[], object], bare: Callable[[], object], *, rounds: int) -> Timed:
    """Run both once unmeasured, then in turns, each round the other one first. Garbage is collected between them."""
    assert rounds >= FEWEST
    ours(), bare()
    taken: dict[Callable[[], object], list[float]] = {ours: [], bare: []}
    for number in range(rounds):
        for operation in (ours, bare) if number % 2 else (bare, ours):
            gc.collect()
            gc.disable()
            started = time.perf_counter()
            operation()
            taken[operation].append(time.perf_counter() - started)
            gc.enable()
    return Timed(ours=tuple(taken[ours]), bare=tuple(taken[bare]))


def _seconds(seconds: float) -> str:
    unit, factor = next((pair for pair in (("s", 1.0), ("ms", 1e3)) if seconds * pair[1] >= 1), ("us", 1e6))
    return f"{seconds * factor:.3g} {unit}"
