"""Player: the only loop over steps. It does what the plan says and writes down what it saw."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

import torch
from jaxtyping import Float
from torch import Tensor

from evseq.cache.damage import NotWritable
from evseq.engines.protocol import Batch, Engine, Probe, Session
from evseq.errors import EngineError
from evseq.geometry import Description, Positions
from evseq.replay.asking import Claim, ask, force, save
from evseq.replay.contents import Contents, contents, moved
from evseq.replay.fresh import RemoteEngine
from evseq.replay.opening import RAISED, told
from evseq.replay.recording import Asked, Failure, Fed, Forced, Moved, Probed, Recording
from evseq.script import steps as st
from evseq.script.events import Process

__all__ = ["play"]


def play(
    plan: st.Plan,
    *,
    engine: Engine,
    description: Description,
    folder: Path,
    fresh: Callable[[], RemoteEngine] | None = None,
) -> Recording:
    """Play every step of `plan` and return what was observed.

    Sealed files go to `folder`. `fresh` gives the same engine in a process that never saw the session. An operation
    that raises is recorded, its session is gone, and later steps on it are left out. Only interrupts reach the caller,
    and NotWritable where `folder` takes no more.
    """
    player = _Player(plan, engine=engine, description=description, folder=folder, fresh=fresh)
    started = time.perf_counter()
    with torch.no_grad():
        for player.index, step in enumerate(plan.steps):
            player.step(step)
    player.recording.seconds = time.perf_counter() - started
    return player.recording


@dataclass(slots=True, kw_only=True)
class _Live:
    """A session being played, with what the player must remember of it."""

    session: Session
    engine: Engine
    group: int
    rows: tuple[str, ...] = ()
    contents: Contents | None = None
    cache_bytes: int = 0


class _Player:
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
        self.live: dict[str, _Live] = {}
        self.saved_rows: dict[str, tuple[str, ...]] = {}
        self.recording = Recording(plan=plan)

    def step(self, step: st.Step) -> None:
        """Do one step; record what raised, and what it moved that it should not have."""
        if not self._ready(step):
            self.recording.skipped += 1
            return
        try:
            self._do(step)
        except NotWritable:  # a disk that is full is no fault of the engine
            raise
        except RAISED as error:
            self._fail(step.session, error)
        self._watch(step)

    def _fail(self, session: str, error: BaseException) -> None:
        self.live.pop(session, None)
        self.recording.failures.append(Failure(step=self.index, session=session, error=told(error)))

    def _ready(self, step: st.Step) -> bool:
        match step:
            case st.Open():
                return True
            case st.Fork(source=source):
                return source in self.live
            case st.Load(source=source):
                return source in self.saved_rows
            case _:
                return step.session in self.live

    def _do(self, step: st.Step) -> None:
        match step:
            case st.Open():
                session = self.engine.open(self.plan.layouts[step.group])
                self.live[step.session] = _Live(session=session, engine=self.engine, group=step.group)
            case st.Feed():
                self._feed(self.live[step.session], step)
            case st.Select():
                live = self.live[step.session]
                live.session.select(step.parents)
                live.rows = step.rows
                self._probe(live, step, step.after)
            case st.Crop():
                live = self.live[step.session]
                live.session.crop(step.lengths)
                self._probe(live, step, step.after)
            case st.Fork():
                source = self.live[step.source]
                live = replace(source, session=source.session.fork(), contents=None)
                self.live[step.session] = live
                self._probe(live, step, step.after)
            case st.Save():
                live = self.live[step.session]
                claim = self._claim(step.group, step.request, step.after)
                save(self._file(step.to), engine=live.engine, session=live.session, claim=claim)
                self.saved_rows[step.to] = live.rows
                self._probe(live, step, step.after)
            case st.Load():
                self._load(step)
            case st.Read():
                self._probe(self.live[step.session], step, step.after)
            case st.Reset():
                live = self.live[step.session]
                live.session.reset()
                live.rows, live.contents, live.cache_bytes = (), None, 0
            case st.Drop():
                del self.live[step.session]
            case _:
                assert_never(step)

    # -- forwards ------------------------------------------------------------------------------------------------

    def _feed(self, live: _Live, step: st.Feed) -> None:
        live.rows = step.rows
        batch = self._batch(step, live.group)
        before, started = live.engine.forwarded, time.perf_counter()
        logits = live.session.prefill(batch) if step.prefill else live.session.append(batch)
        seconds = time.perf_counter() - started
        real = batch.mask.nonzero().tolist()
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
                logits=self._looked_at(logits, batch)[batch.mask],  # a copy: an engine may reuse its buffer
                columns=batch.tokens.numel(),
                forwarded=live.engine.forwarded - before,
                seconds=seconds,
            )
        )
        self._probe(live, step, step.after)

    def _batch(self, step: st.Feed, group: int) -> Batch:
        given = self.plan.layouts[group].positions is Positions.GIVEN
        return Batch(
            tokens=torch.tensor(step.tokens),
            mask=torch.tensor(step.nodes) >= 0,
            positions=torch.tensor(step.positions) if given else None,
        )

    def _looked_at(self, logits: object, batch: Batch) -> Float[Tensor, "row column vocab"]:
        """Return the logits on the CPU. Raises EngineError for anything but a table of them."""
        expected = [*batch.tokens.shape, self.description.geometry.vocab]
        if not isinstance(logits, Tensor) or not logits.is_floating_point() or list(logits.shape) != expected:
            found = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise EngineError(f"a forward returned {found}, expected logits of shape {expected}")
        return logits.detach().cpu()

    # -- reuse ---------------------------------------------------------------------------------------------------

    def _load(self, step: st.Load) -> None:
        claim, path = self._claim(step.group, step.request, step.state), self._file(step.source)
        if step.process is Process.FRESH:
            assert self.fresh is not None
            engine: Engine = self.fresh()
            answer = self.fresh().ask(path, claim=claim)
        else:
            engine, answer = self.engine, ask(path, engine=self.engine, claim=claim)
        self.recording.asked.append(
            Asked(
                step=self.index,
                session=step.session,
                differences=answer.differences,
                forwarded=answer.forwarded,
                seconds=answer.seconds,
            )
        )
        if step.refused is None and answer.session is not None:
            rows = self.saved_rows[step.source]
            live = _Live(session=answer.session, engine=engine, group=step.group, rows=rows)
            self.live[step.session] = live
            self._probe(live, step, step.state)
        if step.damage is not None:
            self._show_damage(step, step.damage)

    def _show_damage(self, step: st.Load, damage: st.Damage) -> None:
        """Play the changed request afresh, then force the stale cache to answer its last column."""
        layouts = self.plan.layouts
        scratch = _Live(session=self.engine.open(layouts[damage.group]), engine=self.engine, group=damage.group)
        for feed in damage.right:
            self._feed(scratch, feed)
        stale = force(self._file(step.source), engine=self.engine, layout=layouts[step.group])
        batch = self._batch(damage.right[-1], step.group)
        logits = self._looked_at(stale.append(batch), batch)
        self.recording.forced.append(Forced(step=self.index, logits=logits[:, -1].clone()))

    def _claim(self, group: int, request: st.Request, state: st.State) -> Claim:
        layout = self.plan.layouts[group]
        return Claim(description=self.description, layout=layout, request=request, furthest=state.furthest)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.cache.safetensors"

    # -- state ---------------------------------------------------------------------------------------------------

    def _probe(self, live: _Live, step: st.Step, expected: st.State) -> None:
        probe = _plain(live.session.probe())
        live.cache_bytes = probe.cache_bytes
        self.recording.probed.append(
            Probed(
                step=self.index, session=step.session, rows=live.rows, group=live.group, probe=probe, expected=expected
            )
        )
        held = sum(other.cache_bytes for other in self.live.values())
        self.recording.peak_cache_bytes = max(self.recording.peak_cache_bytes, held)

    def _watch(self, step: st.Step) -> None:
        """Compare what every session holds with what it held before this step."""
        rebuilt = isinstance(step, st.Open | st.Select | st.Load | st.Fork | st.Reset)
        looks = isinstance(step, st.Save | st.Read)
        for name, live in list(self.live.items()):
            own = name == step.session
            try:
                self.recording.moved += self._moved(name, live, rebuilt=rebuilt and own, whole=looks or not own)
            except RAISED as error:
                self._fail(name, error)

    def _moved(self, name: str, live: _Live, *, rebuilt: bool, whole: bool) -> list[Moved]:
        now = contents(live.session.view()) if live.rows else None
        before, live.contents = live.contents, now
        self.recording.shown |= now is not None
        if before is None or now is None or rebuilt:
            return []
        return [
            Moved(step=self.index, session=name, layer=layer, row=live.rows[row], position=position)
            for layer, row, position in moved(before, now, whole=whole)
        ]


def _plain(probe: Probe) -> Probe:
    """Return the same numbers as Python's own; an engine may have read them from arrays."""
    return Probe(
        lengths=tuple(map(int, probe.lengths)),
        next_positions=tuple(map(int, probe.next_positions)),
        visible=tuple(tuple(map(int, layer)) for layer in probe.visible),
        cache_bytes=int(probe.cache_bytes),
    )
