"""Rules for what is fed: each logit of each way to feed against the uncached forward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from evseq.engines.conformance.bench import Bench
from evseq.engines.conformance.rule import rule
from evseq.engines.conformance.trial import Trial
from evseq.errors import EngineError
from evseq.geometry import Capability, Positions

__all__ = [
    "append",
    "chunks",
    "holes",
    "loud",
    "neighbours",
    "numbering",
    "padding",
    "positions",
    "ragged",
    "together",
]


@rule()
def append(bench: Bench) -> Iterator[str]:
    """Look at positions, masks and window edges of the cached step."""
    trial = Trial.opened(bench)
    trial.feed(bench.batch(bench.span - 3), prefill=True)
    trial.probe()
    trial.step(5)
    trial.probe()
    yield from trial.found()


@rule()
def chunks(bench: Bench) -> Iterator[str]:
    """Let a later prefill go on where the one before ended."""
    trial = Trial.opened(bench)
    for width in (2, 1, bench.span):
        trial.feed(bench.batch(width), prefill=True)
    trial.step()
    trial.probe()
    yield from trial.found()


@rule(Capability.TOGETHER)
def together(bench: Bench) -> Iterator[str]:
    """Give each of several new tokens its own position and its own view, before any is overwritten."""
    trial = Trial.filled(bench)
    for width in (3, 1, bench.span):
        trial.feed(bench.batch(width))
    trial.probe()
    yield from trial.found()


@rule(Capability.PADDING)
def padding(bench: Bench) -> Iterator[str]:
    """Hide masked slots from every query and leave them out of the numbering."""
    for left in (True, False):
        if not left and not bench.can(Capability.TRAILING):
            continue
        trial = Trial.opened(bench)
        rows: list[list[int | None]] = []
        for pads in range(bench.rows):
            tokens = bench.tokens(bench.span - pads)
            rows.append([None] * pads + tokens if left else tokens + [None] * pads)
        trial.feed(rows, prefill=True)
        trial.probe()
        trial.step(3)
        trial.probe()
        yield from (f"padded on the {'left' if left else 'right'}: {line}" for line in trial.found())


@rule(Capability.HOLES)
def holes(bench: Bench) -> Iterator[str]:
    """Hide masked slots between tokens, and count windows as the geometry says."""
    trial = Trial.opened(bench)
    rows: list[list[int | None]] = []
    for number in range(bench.rows):
        rows.append([*bench.tokens(bench.span)])
        rows[-1][1 + number] = rows[-1][3] = None
    trial.feed(rows, prefill=True)
    trial.step(3)
    trial.probe()
    yield from trial.found()


@rule(Capability.RAGGED, Capability.BATCH)
def ragged(bench: Bench) -> Iterator[str]:
    """Give a row that is not fed a masked slot and nothing else."""
    trial = Trial.filled(bench)
    for turn in range(2 * bench.rows):
        fed: list[list[int | None]] = [[*row] for row in bench.batch(1)]
        fed[turn % bench.rows] = [None]
        trial.feed(fed)
        trial.probe()
    yield from trial.found()


@rule()
def numbering(bench: Bench) -> Iterator[str]:
    """Count positions by the position rule of the geometry when none are given."""
    trial = Trial.filled(bench, bench.layout(positions=Positions.ENGINE))
    trial.probe()
    trial.step(3)
    trial.probe()
    yield from trial.found()


@rule(Capability.POSITIONS)
def positions(bench: Bench) -> Iterator[str]:
    """Use the positions given, gaps included, or raise EngineError for a gap."""
    trial = Trial.opened(bench)
    with suppress(EngineError):
        for jump in (3, 0, 2):
            # Only a gap shows: all positions moved alike are no change for rotary and ALiBi decoders.
            trial.feed(bench.batch(2), prefill=not trial.rows, jump=jump)
    yield from trial.found()


@rule()
def neighbours(bench: Bench) -> Iterator[str]:
    """Share nothing between sessions but the weights."""
    one, other = Trial.filled(bench), Trial.filled(bench)
    for _ in range(3):
        one.step()
        other.step()
    one.probe()
    other.probe()
    yield from [*one.found(), *other.found()]


@rule()
def loud(bench: Bench) -> Iterator[str]:
    """Raise EngineError for what the layout has no room for, or get it right."""
    full = Trial.opened(bench, bench.layout(capacity=bench.span))
    full.feed(bench.batch(bench.span), prefill=True)
    with suppress(EngineError):
        full.step()
    yield from (f"beyond the capacity: {line}" for line in full.found())
    if bench.can(Capability.CROP):
        deep = Trial.filled(bench, bench.layout(depth=1))
        with suppress(EngineError):
            deep.crop([1] * bench.rows)
            deep.step()
        yield from (f"cropped deeper than planned: {line}" for line in deep.found())
