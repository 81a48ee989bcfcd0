"""Replaying: what evseq adds to the forwards that a script asks of a model."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch

from evseq.engines.protocol import Batch, Engine, Loader
from evseq.engines.registry import find
from evseq.faults.broken import BrokenEngine, BrokenSession, Forward, Logits, Rows
from evseq.geometry import Description, Dtype
from evseq.history import ROOT, Tree
from evseq.history import Path as History
from evseq.pipeline import Run, Settings, read_scripts, run
from evseq.replay.oracle import Oracle
from evseq.replay.player import play
from evseq.replay.target import Target
from evseq.script.cases import cases
from evseq.script.document import Script, parse
from evseq.script.lower import lower
from evseq.script.source import parse_yaml
from evseq.script.steps import Plan
from tools.bench.timing import Line, Timed, interleaved

__all__ = ["oracle", "replays", "runs"]

SMALLEST = "reference:full"

SLOW = "transformers:new/llama?hidden_size=512&intermediate_size=1536&num_hidden_layers=6"
"""A model whose decoding step takes more than a millisecond, the least for which an overhead in per cent is held."""

LONG = 512
"""Tokens of the path the oracle is asked about."""

LEAF = "transformers:new/llama?hidden_size=192&intermediate_size=512&num_hidden_layers=4"
"""The model it is asked on: six rounds of 512 forwards of a larger one take a quarter of an hour."""

MOST_EACH = 0.15e-3
"""Seconds an event of the smallest model may take beyond its forwards."""

CHEAPER = 40
"""How many times fewer seconds the oracle may take than a forward for every step."""

SCRIPT = """\
evseq: 1
name: bench
about: A prompt, a long run of single steps, a rollback and a few steps more.
rows:
  a: {random: {length: 160, seed: 1}}
  b: {random: {length: 150, seed: 2}}
events:
  - prefill: {rows: {a: 64, b: 60}}
  - append: {next: 64}
  - crop: {by: 8}
  - append: {next: 16}
"""

Operation = Callable[[], object]


def replays() -> Iterator[Line]:
    """Hold the player to the same calls of the same engine in a bare loop."""
    for name, text, most in (("smallest model", SMALLEST, None), ("a step over 1 ms", SLOW, 1.05)):
        with Run(Settings(threads=1)) as running:
            target = running.target(text)
            plan = _plan(target)
            engine = target.engine(plan.dtype)
            ours = partial(_played, plan, engine, target.description)
            timed = interleaved(ours, _bare(plan, engine, target.description), rounds=15)
        each = timed.more / len(plan.steps)
        if most is None:
            figure, target_, held = f"{each * 1e3:.3f} ms an event", f"at most {MOST_EACH * 1e3} ms", each <= MOST_EACH
        else:
            figure, target_, held = f"{timed.ratio:.3f} x", f"at most {most} x", timed.ratio <= most
        yield Line(what=f"replay / bare loop, {name}", timed=timed, figure=figure, target=target_, held=held)


def runs() -> Iterator[Line]:
    """Hold whole runs to the seconds their forwards took."""
    for name, text, scripts in (
        ("smallest model, quick set", SMALLEST, read_scripts([], quick=True)),
        ("a step over 1 ms, long script", SLOW, (_script(),)),
    ):
        _run(scripts, text)  # loads and warms up
        pairs = [_run(scripts, text) for _ in range(5)]
        timed = Timed(ours=tuple(whole for whole, _ in pairs), bare=tuple(forwards for _, forwards in pairs))
        yield Line(what=f"evseq run / its forwards, {name}", timed=timed, figure=f"{timed.ratio:.2f} x")


def oracle() -> Line:
    """Hold one forward of a leaf to one forward for every step on the way there."""
    with Run(Settings(threads=1)) as running:
        target = running.target(LEAF)
        engine = target.engine(Dtype.FLOAT64)
        tokens = torch.randint(0, 256, (LONG,), generator=torch.Generator().manual_seed(1)).tolist()
        tree, node = Tree(), ROOT
        for position, token in enumerate(tokens):
            node = tree.extend(node, token, position)
        nodes = tree.ancestry(node)[-LONG:]

        def ours() -> object:
            asked = Oracle(
                tree=tree,
                engine=lambda _: engine,
                deciding=target.description.deciding,
                layers=len(target.description.geometry.layers),
                vocab=target.description.geometry.vocab,
            )
            return asked.references((), nodes)

        def bare() -> object:
            paths = (History(tokens=tuple(tokens[:end]), positions=tuple(range(end))) for end in range(1, LONG + 1))
            return [engine.uncached(path)[-1] for path in paths]

        with torch.no_grad():
            timed = interleaved(ours, bare, rounds=5)
    cheaper = 1 / timed.ratio
    return Line(
        what=f"oracle / a forward a step, {LONG} tokens",
        timed=timed,
        figure=f"{cheaper:.0f} times cheaper",
        target=f"at least {CHEAPER}",
        held=cheaper >= CHEAPER,
    )


def _script() -> Script:
    return parse(parse_yaml(SCRIPT, file="bench.evseq.yaml"))


def _plan(target: Target) -> Plan:
    script = _script()
    chosen = cases(script, target.description, engine=target.name, mode="pairwise")
    plan = lower(script, chosen, description=target.description).plans[0]
    assert isinstance(plan, Plan), plan
    return plan


def _played(plan: Plan, engine: Engine, description: Description) -> object:
    with tempfile.TemporaryDirectory() as folder:
        recording = play(plan, engine=engine, description=description, folder=Path(folder))
    assert not recording.failures, recording.failures
    return recording


def _bare(plan: Plan, engine: Engine, description: Description) -> Operation:
    """Return a loop over the calls that a replay of `plan` makes of its engine's sessions."""
    calls: list[tuple[str, tuple[object, ...]]] = []

    class Noted(BrokenSession):
        """Writes down what changes it, and does it."""

        def prefill(self, batch: Batch) -> Logits:
            calls.append(("prefill", (batch,)))
            return self.inner.prefill(batch)

        def append(self, batch: Batch) -> Logits:
            calls.append(("append", (batch,)))
            return self.inner.append(batch)

        def crop(self, lengths: Sequence[int]) -> None:
            calls.append(("crop", (lengths,)))
            self.inner.crop(lengths)

    _played(plan, BrokenEngine(engine, session=Noted), description)
    (layout,) = plan.layouts

    def loop() -> object:
        with torch.no_grad():
            session = engine.open(layout)
            return [getattr(session, name)(*given) for name, given in calls]

    return loop


class _Clock:
    """The seconds that forwards took."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, forward: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Do one forward on the clock."""
        started = time.perf_counter()
        logits = forward()
        self.seconds += time.perf_counter() - started
        return logits


class _Clocked:
    """A loader whose engines forward on a clock."""

    def __init__(self, healthy: Loader, clock: _Clock) -> None:
        self.healthy, self.clock = healthy, clock
        self.describe, self.tokenize = healthy.describe, healthy.tokenize

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Engine:
        """Load the engine and put it on the clock."""
        clock = self.clock

        class Session(BrokenSession):
            """Cached forwards on the clock."""

            def feed(self, batch: Batch, forward: Forward) -> Logits:
                return clock.timed(lambda: forward(batch))

        class Clocked(BrokenEngine):
            """Uncached forwards on the clock."""

            def uncached(self, path: History) -> Rows:
                return clock.timed(lambda: self.inner.uncached(path))

        return Clocked(self.healthy.load(dtype, options), session=Session)


def _run(scripts: Sequence[Script], text: str) -> tuple[float, float]:
    """Return the seconds of a whole run, and those of its forwards."""
    clock = _Clock()
    started = time.perf_counter()
    result = run(scripts, [_Clocked(find(text), clock)], settings=Settings(threads=1))
    seconds = time.perf_counter() - started
    assert result.cases, "nothing ran"
    return seconds, clock.seconds
