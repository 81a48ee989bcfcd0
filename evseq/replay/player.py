"""Player: the only loop over steps. It does what the plan says and writes down what it saw."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import assert_never

import torch

from evseq.cache.damage import NotWritable
from evseq.engines.protocol import Engine
from evseq.geometry import Description
from evseq.replay.answering import answer
from evseq.replay.asking import save
from evseq.replay.contents import contents, moved, selected, united
from evseq.replay.damaging import ask_damaged
from evseq.replay.fresh import RemoteEngine
from evseq.replay.joining import joined
from evseq.replay.opening import RAISED, told
from evseq.replay.pooling import clear, draw, stow
from evseq.replay.recording import Altered, Failure, Moved, Recording
from evseq.replay.stage import STILL, Live, Stage
from evseq.script import steps as st
from evseq.script.events import Process
from evseq.script.request import Held

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
    with torch.no_grad(), contextlib.closing(player.changes):
        player.begin()
        for player.index, step in enumerate(plan.steps):
            player.step(step)
    player.recording.seconds = time.perf_counter() - started
    return player.recording


class _Player(Stage):
    """What each step does to the stage."""

    def begin(self) -> None:
        """Start with a pool that holds nothing of other plans."""
        try:
            clear(self)
        except RAISED as error:
            self._fail(self.plan.steps[0].session, error)

    def step(self, step: st.Step) -> None:
        """Do one step; record what raised, and what it moved that it should not have."""
        if not self._ready(step):
            self.recording.skipped += 1
            return
        try:
            self.before = self._forwarded(step)
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
            case st.Open(beside=beside):
                return beside is None or beside in self.live
            case st.Fork(source=source):
                return source in self.live
            case st.Join(other=other):
                if other not in self.live:  # without its new rows nothing planned of it holds
                    self.live.pop(step.session, None)
                return step.session in self.live
            case st.Load(source=source, held=Held()):
                return source in self.live
            case st.Alter(session="") | st.Restore(session="") | st.Draw():
                return True
            case st.Load(source=source) | st.LoadDamaged(source=source):
                return source in self.saved_rows
            case _:
                return step.session in self.live

    def _do(self, step: st.Step) -> None:
        match step:
            case st.Open():
                engine = self.engine if step.beside is None else self.live[step.beside].engine
                session = engine.open(self.plan.layouts[step.group])
                self.live[step.session] = self.opened(session, engine, step.group)
            case st.Feed():
                self.feed(self.live[step.session], step)
            case st.Read():
                self.probe(self.live[step.session], step, step.after)
            case st.Reset():
                live = self.live[step.session]
                live.session.reset()
                live.rows, live.contents, live.cache_bytes = (), None, 0
            case st.Drop():
                del self.live[step.session]
            case st.Select() | st.Retire() | st.Join() | st.Crop() | st.Fork():
                self._reshape(step)
            case st.Stow():
                stow(self, step)
            case st.Draw():
                draw(self, step)
            case st.Save() | st.Load() | st.LoadDamaged() | st.Alter() | st.Restore():
                self._ask(step)
            case _:
                assert_never(step)

    def _reshape(self, step: st.Select | st.Retire | st.Join | st.Crop | st.Fork) -> None:
        """Change which rows and tokens a session holds, without a forward."""
        match step:
            case st.Select():
                live = self.live[step.session]
                live.session.select(step.parents)
                live.rows = step.rows
                self.probe(live, step, step.after)
            case st.Retire():
                live = self.live[step.session]
                live.session.select(step.parents)
                live.rows, live.contents = step.rows, selected(live.contents, step.parents)
                self.probe(live, step, step.after)
            case st.Join():
                live, other = self.live[step.session], self.live.pop(step.other)
                joined(live.session, other.session)
                live.rows, live.contents = step.rows, united(live.contents, other.contents)
                self.probe(live, step, step.after)
            case st.Crop():
                live = self.live[step.session]
                live.session.crop(step.lengths)
                self.probe(live, step, step.after)
            case st.Fork():
                source = self.live[step.source]
                live = replace(source, session=source.session.fork(), contents=None)
                self.live[step.session] = live
                self.probe(live, step, step.after)
            case _:
                assert_never(step)

    def _ask(self, step: st.Save | st.Load | st.LoadDamaged | st.Alter | st.Restore) -> None:
        """Save and ask for what was saved or lives, or change what is asked for."""
        match step:
            case st.Save():
                live = self.live[step.session]
                claim = self.claim(step.group, step.request, step.after)
                save(self.file(step.to), engine=live.engine, session=live.session, claim=claim)
                self.saved_rows[step.to] = live.rows
                if not step.tampered:
                    self.probe(live, step, step.after)
            case st.Load():
                answer(self, step)
            case st.Alter():
                operand: dict[str, object] = dict(step.operand)
                if step.session:
                    operand["session"] = self.live[step.session].session
                key = self.changes.alter(step.field, operand, session=step.session)
                self.recording.altered.append(Altered(step=self.index, field=step.field, key=key))
            case st.Restore():
                self.changes.restore(step.field, session=step.session)
            case st.LoadDamaged():
                claim, path = self.claim(step.group, step.request, step.state), self.file(step.source)
                reader: Engine = self.fresh() if step.process is Process.FRESH and self.fresh else self.engine
                self.recording.damaged += ask_damaged(step, self.index, path, engine=reader, claim=claim)
            case _:
                assert_never(step)

    # -- state ---------------------------------------------------------------------------------------------------

    def _forwarded(self, step: st.Step) -> int:
        """Return how much the engine of a step has forwarded so far, where the step is to forward nothing."""
        if not isinstance(step, STILL):
            return 0
        return self.live[step.source if isinstance(step, st.Fork) else step.session].engine.forwarded

    def _watch(self, step: st.Step) -> None:
        """Compare what every session holds with what it held before this step."""
        rebuilt = isinstance(step, st.Open | st.Select | st.Load | st.Draw | st.Fork | st.Reset | st.Alter | st.Restore)
        looks = isinstance(step, st.Save | st.Read | st.Retire | st.Join)
        for name, live in list(self.live.items()):
            own = name == step.session
            try:
                self.recording.moved += self._moved(name, live, rebuilt=rebuilt and own, whole=looks or not own)
            except RAISED as error:
                self._fail(name, error)

    def _moved(self, name: str, live: Live, *, rebuilt: bool, whole: bool) -> list[Moved]:
        now = contents(live.session.view()) if live.rows else None
        before, live.contents = live.contents, now
        self.recording.shown |= now is not None
        if before is None or now is None or rebuilt:
            return []
        return [
            Moved(step=self.index, session=name, layer=layer, row=live.rows[row], position=position)
            for layer, row, position in moved(before, now, whole=whole)
        ]
