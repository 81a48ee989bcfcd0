"""Player: the only loop over steps. It does what the plan says and writes down what it saw."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

import torch

from evseq.engines.protocol import Batch, Engine, Session
from evseq.geometry import Description, Positions
from evseq.replay.asking import Claim, ask, force, save
from evseq.replay.contents import Contents, contents, moved
from evseq.replay.fresh import RemoteEngine
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
    that raises is recorded, its session is gone, and later steps on it are left out; only interrupts reach the caller.
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
        self.recording = Recording(plan=plan, dtype=engine.dtype)

    def step(self, step: st.Step) -> None:
        """Do one step; record what raised, and what it moved that it should not have."""
        if not self._ready(step):
            return
        try:
            self._do(step)
            self._watch(step)
        except Exception as error:  # noqa: BLE001 - whatever an engine raises is an observation
            self.live.pop(step.session, None)
            self.recording.failures.append(
                Failure(step=self.index, session=step.session, error=f"{type(error).__name__}: {error}")
            )

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
                self.live[step.session].session.select(step.parents)
                self.live[step.session].rows = step.rows
                self._probe(step.session, step.after)
            case st.Crop():
                self.live[step.session].session.crop(step.lengths)
                self._probe(step.session, step.after)
            case st.Fork():
                source = self.live[step.source]
                self.live[step.session] = replace(source, session=source.session.fork(), contents=None)
                self._probe(step.session, step.after)
            case st.Save():
                live = self.live[step.session]
                claim = self._claim(step.group, step.request, step.after)
                save(self._file(step.to), engine=live.engine, session=live.session, claim=claim)
                self.saved_rows[step.to] = live.rows
                self._probe(step.session, step.after)
            case st.Load():
                self._load(step)
            case st.Read():
                self._probe(step.session, step.after)
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
                logits=logits[batch.mask].clone(),
                columns=batch.tokens.numel(),
                forwarded=live.engine.forwarded - before,
                seconds=seconds,
            )
        )
        self._probe(step.session, step.after)

    def _batch(self, step: st.Feed, group: int) -> Batch:
        given = self.plan.layouts[group].positions is Positions.GIVEN
        return Batch(
            tokens=torch.tensor(step.tokens),
            mask=torch.tensor(step.nodes) >= 0,
            positions=torch.tensor(step.positions) if given else None,
        )

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
            self.live[step.session] = _Live(session=answer.session, engine=engine, group=step.group, rows=rows)
            self._probe(step.session, step.state)
        if step.damage is not None:
            self._show_damage(step, step.damage)

    def _show_damage(self, step: st.Load, damage: st.Damage) -> None:
        """Play the changed request afresh, then force the stale cache to answer its last column."""
        group = damage.group
        name = damage.right[0].session
        self.live[name] = _Live(session=self.engine.open(self.plan.layouts[group]), engine=self.engine, group=group)
        for feed in damage.right:
            self._feed(self.live[name], feed)
        del self.live[name]
        stale = force(self._file(step.source), engine=self.engine, layout=self.plan.layouts[step.group])
        logits = stale.append(self._batch(damage.right[-1], step.group))
        self.recording.forced.append(Forced(step=self.index, logits=logits[:, -1].clone()))

    def _claim(self, group: int, request: st.Request, state: st.State) -> Claim:
        layout = self.plan.layouts[group]
        return Claim(description=self.description, layout=layout, request=request, furthest=state.furthest)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.cache.safetensors"

    # -- state ---------------------------------------------------------------------------------------------------

    def _probe(self, name: str, expected: st.State) -> None:
        live = self.live[name]
        probe = live.session.probe()
        live.cache_bytes = probe.cache_bytes
        self.recording.probed.append(
            Probed(step=self.index, session=name, rows=live.rows, group=live.group, probe=probe, expected=expected)
        )
        held = sum(other.cache_bytes for other in self.live.values())
        self.recording.peak_cache_bytes = max(self.recording.peak_cache_bytes, held)

    def _watch(self, step: st.Step) -> None:
        """Compare what every session holds with what it held before this step."""
        rebuilt = isinstance(step, st.Open | st.Select | st.Load | st.Fork | st.Reset)
        for name, live in self.live.items():
            now = contents(live.session.view()) if live.rows else None
            before, live.contents = live.contents, now
            if before is None or now is None or (rebuilt and name == step.session):
                continue
            for layer, row, position in moved(before, now):
                self.recording.moved.append(
                    Moved(step=self.index, session=name, layer=layer, row=live.rows[row], position=position)
                )
