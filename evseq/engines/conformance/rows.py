"""Rules for what moves rows without a forward: each is followed by a step that would show it."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from evseq.engines.conformance.bench import Bench
from evseq.engines.conformance.rule import rule
from evseq.engines.conformance.trial import Trial, repeats
from evseq.engines.protocol import Joining
from evseq.geometry import Capability

__all__ = ["beam", "crop", "crop_rows", "fork", "join", "reset"]


@rule(Capability.BEAM, Capability.BATCH)
def beam(bench: Bench) -> Iterator[str]:
    """Move keys, values, masks and lengths of every layer alike."""
    trial = Trial.filled(bench)
    last = bench.rows - 1
    for parents in ([last, 0, 0, last], [3, 1], [1, 1], [0, 1, 1, 0, 1]):
        trial.select(parents)
        trial.probe()
        trial.step(2)
    trial.probe()
    yield from trial.found()


@rule(Capability.CROP)
def crop(bench: Bench) -> Iterator[str]:
    """Drop the last tokens in every layer, and their positions with them."""
    if bench.croppable is None:
        return
    trial = Trial.opened(bench, bench.layout(depth=4))
    trial.feed(bench.batch(bench.croppable), prefill=True)
    for by, fed in ((0, 1), (2, 2), (4, 1)):
        trial.crop([length - by for length in trial.expected().lengths])
        trial.probe()
        trial.step(fed)
    trial.probe()
    yield from trial.found()


@rule(Capability.CROP, Capability.RAGGED, Capability.BATCH)
def crop_rows(bench: Bench) -> Iterator[str]:
    """Mask dropped tokens of a row that does not reach as far as the longest."""
    if bench.croppable is None:
        return
    trial = Trial.opened(bench, bench.layout(depth=4))
    trial.feed(bench.batch(bench.croppable), prefill=True)
    for bys in ((0, 2, 1), (3, 0, 1)):
        lengths = trial.expected().lengths
        trial.crop([length - by for length, by in zip(lengths, bys, strict=False)])
        trial.probe()
        trial.step()
    trial.probe()
    yield from trial.found()


@rule(Capability.JOIN, Capability.BATCH)
def join(bench: Bench) -> Iterator[str]:
    """Take over rows with their keys, values, positions and lengths in every layer, whichever side is narrower."""
    depth = 2 if bench.crops else 0
    for first, then in ((bench.span, 2), (2, bench.span), (bench.span, bench.span)):
        trial, other = (Trial.opened(bench, bench.layout(depth=depth)) for _ in range(2))
        trial.feed(bench.batch(first), prefill=True)
        other.feed(bench.batch(then), prefill=True)
        trial.step()
        if not isinstance(trial.session, Joining):
            yield f"{type(trial.session).__name__} has no `join`, and the capability is declared"
            return
        trial.join(other)
        trial.probe()
        trial.step(2)
        if depth:
            trial.crop([length - depth for length in trial.expected().lengths])
            trial.step()
        if bench.can(Capability.BEAM):
            trial.select([len(trial.rows) - 1, 0])
            trial.step()
        trial.probe()
        yield from (f"{then} columns beside {first + 1}: {line}" for line in trial.found())


@rule(Capability.FORK)
def fork(bench: Bench) -> Iterator[str]:
    """Copy every tensor and counter."""
    trial = Trial.filled(bench, bench.layout(depth=2))
    twin, quiet = trial.fork(), trial.fork()
    trial.step()
    fed = bench.batch(1)
    twin.feed(fed)
    quiet.feed(fed)
    if repeats(bench) and not torch.equal(twin.logits, quiet.logits):
        yield "two forks fed alike differ"
    if bench.crops:
        twin.crop([length - 2 for length in twin.expected().lengths])
        twin.step()
    for one in (trial, twin, quiet):
        one.step()
        one.probe()
    for one in (trial, twin, quiet):
        one.found()
    yield from trial.complaints


@rule(Capability.RESET)
def reset(bench: Bench) -> Iterator[str]:
    """Hide what the buffers still hold."""
    trial = Trial.filled(bench)
    trial.reset()
    trial.feed(bench.batch(2), prefill=True)
    trial.probe()
    trial.step(3)
    trial.probe()
    yield from trial.found()
