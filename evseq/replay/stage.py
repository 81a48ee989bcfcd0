"""Stage: the sessions that live while a plan is played, what is known of them, and the notebook."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evseq.engines.protocol import Engine, Probe, Session
from evseq.geometry import Description
from evseq.replay.altering import Changes, Made, made
from evseq.replay.asking import Claim
from evseq.replay.contents import Contents
from evseq.replay.forcing import batch_of, looked_at
from evseq.replay.fresh import RemoteEngine
from evseq.replay.recording import Fed, Probed, Recording
from evseq.script import steps as st
from evseq.script.request import Request, State

__all__ = ["STILL", "Live", "Stage"]

STILL = st.Fork | st.Select | st.Retire | st.Join | st.Crop
"""Steps that move rows without a forward."""


@dataclass(slots=True, kw_only=True)
class Live:
    """A session being played, with what the player must remember of it."""

    session: Session
    engine: Engine
    group: int
    rows: tuple[str, ...] = ()
    contents: Contents | None = None
    cache_bytes: int = 0
    made: Made | None = None  # what fills it, where the plan asks for what is live


class Stage:
    """Sessions by name, files by name, and what was observed so far. `index` is the step at hand."""

    def __init__(
        self,
        plan: st.Plan,
        *,
        engine: Engine,
        description: Description,
        folder: Path,
        fresh: Callable[[], RemoteEngine] | None,
    ) -> None:
        self.plan = plan
        self.engine = engine
        self.description = description
        self.folder = folder
        self.fresh = fresh
        self.index = 0
        self.before = 0
        self.live: dict[str, Live] = {}
        self.saved_rows: dict[str, tuple[str, ...]] = {}
        self.changes = Changes(engine=engine)
        self.asked_live = any(isinstance(step, st.Load) and step.held for step in plan.steps)
        self.recording = Recording(plan=plan)

    def opened(self, session: Session, engine: Engine, group: int, *, rows: tuple[str, ...] = ()) -> Live:
        """Return a session with what the stage must remember of it."""
        fills = made(engine) if self.asked_live else None
        return Live(session=session, engine=engine, group=group, rows=rows, made=fills)

    def feed(self, live: Live, step: st.Feed) -> None:
        """Feed a session one forward, and write down what came of it."""
        live.rows = step.rows
        batch = batch_of(step, self.plan.layouts[live.group])
        before, started = live.engine.forwarded, time.perf_counter()
        logits = live.session.prefill(batch) if step.prefill else live.session.append(batch)
        seconds = time.perf_counter() - started
        real = [(row, column) for row, nodes in enumerate(step.nodes) for column, node in enumerate(nodes) if node >= 0]
        table = looked_at(logits, batch, vocab=self.description.geometry.vocab)
        self.recording.fed.append(
            Fed(
                step=self.index,
                session=step.session,
                event=step.event,
                prefill=step.prefill,
                width=batch.tokens.shape[1],
                rows=tuple(step.rows[row] for row, _ in real),
                indices=tuple(step.indices[row][column] for row, column in real),
                nodes=tuple(step.nodes[row][column] for row, column in real),
                lineage=step.lineage,
                # A copy: an engine may reuse its buffer.
                logits=table[batch.mask] if len(real) < batch.mask.numel() else table.flatten(0, 1).clone(),
                columns=batch.tokens.numel(),
                forwarded=live.engine.forwarded - before,
                seconds=seconds,
            )
        )
        self.probe(live, step, step.after)

    def claim(self, group: int, request: Request, state: State) -> Claim:
        """Return who asks with `request`."""
        layout = self.plan.layouts[group]
        return Claim(description=self.description, layout=layout, request=request, furthest=state.furthest)

    def file(self, name: str) -> Path:
        """Return where the sealed cache of that name lies."""
        return self.folder / f"{name}.cache.safetensors"

    def probe(self, live: Live, step: st.Step, expected: State) -> None:
        """Read a session, and write down what it should say."""
        probe = _plain(live.session.probe())
        live.cache_bytes = probe.cache_bytes
        self.recording.probed.append(
            Probed(
                step=self.index,
                session=step.session,
                rows=live.rows,
                group=live.group,
                probe=probe,
                expected=expected,
                forwarded=live.engine.forwarded - self.before if isinstance(step, STILL) else 0,
            )
        )
        held = sum(other.cache_bytes for other in self.live.values())
        self.recording.peak_cache_bytes = max(self.recording.peak_cache_bytes, held)


def _plain(probe: Probe) -> Probe:
    """Return the same numbers as Python's own; an engine may have read them from arrays."""
    return Probe(
        lengths=tuple(map(int, probe.lengths)),
        next_positions=tuple(map(int, probe.next_positions)),
        visible=tuple(tuple(map(int, layer)) for layer in probe.visible),
        cache_bytes=int(probe.cache_bytes),
    )
