"""Answering: a request for reuse is put, and what comes of it is opened, fed or forced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from evseq.cache.forging import forge
from evseq.engines.protocol import Engine, Session
from evseq.errors import EngineError
from evseq.geometry import Layout, Promise
from evseq.replay.asking import Answer, Claim, ask, ask_live, belongs, force
from evseq.replay.forcing import Forcing
from evseq.replay.recording import Asked
from evseq.replay.remainder import remainder
from evseq.replay.stage import Live, Stage
from evseq.script import steps as st
from evseq.script.events import Process
from evseq.script.request import Asks

__all__ = ["answer"]

FORGED = "+forged.cache.safetensors"
"""The name of a copy that says something else; no script can name a file so."""


def answer(stage: Stage, step: st.Load) -> None:
    """Ask for reuse, open what is admitted, feed what is not reused, and show what a refusal is for."""
    claim = stage.claim(step.group, step.request, step.state)
    claim = replace(claim, layout=_asking(claim.layout, step.asks), opens=step.refused is None)
    engine, rows, told = _answered(stage, step, claim)
    stage.recording.asked.append(
        Asked(
            step=stage.index,
            session=step.session,
            differences=told.differences,
            forwarded=told.forwarded,
            seconds=told.seconds,
            by=told.by,
        )
    )
    if told.session is not None:
        live = stage.opened(told.session, engine, step.group, rows=rows)
        stage.live[step.session] = live
        if told.tokens is not None:
            _go_on(stage, live, step, told.tokens)
        else:
            stage.probe(live, step, step.state)
    elif step.refused is None and step.whole is not None and step.reused is not None:
        _begin(stage, step, step.whole)
    if step.damage is not None:
        _show_damage(stage, step, step.damage)


def _answered(stage: Stage, step: st.Load, claim: Claim) -> tuple[Engine, tuple[str, ...], Answer]:
    """Ask; return the answer with the engine and the rows of what it is about."""
    if step.held is not None:
        live = stage.live[step.source]
        own = replace(stage.claim(step.group, step.held.request, step.state), furthest=step.held.furthest)
        state = live.session.export()
        recorded = belongs(state, engine=live.engine, session=live.session, claim=own, by=live.made)
        return live.engine, live.rows, ask_live(live.session, recorded, engine=live.engine, claim=claim)
    path, rows = stage.file(step.source), stage.saved_rows[step.source]
    if step.forged and step.refused is not None:
        path = _forged(path, field=step.refused)
    if step.process is Process.FRESH:
        assert stage.fresh is not None
        engine: Engine = stage.fresh()
        return engine, rows, stage.fresh().ask(path, claim=claim)
    return stage.engine, rows, ask(path, engine=stage.engine, claim=claim)


def _forged(path: Path, *, field: str) -> Path:
    """Write a copy of a sealed file that says another value of one field."""
    copy = path.with_name(FORGED)
    forge(path, to=copy, field=field)
    return copy


def _go_on(stage: Stage, live: Live, step: st.Load, tokens: Mapping[str, int]) -> None:
    """Feed what is not reused of a request."""
    if step.whole is None:
        raise EngineError("reload: part of a sealed cache was admitted\n  help: admit it whole, or refuse it")
    kept, rest = remainder(step.whole, tokens)
    if rest.prefill:
        _begin(stage, step, step.whole)
        return
    live.session.crop(kept)
    if rest.tokens[0]:
        stage.feed(live, rest)


def _begin(stage: Stage, step: st.Load, whole: st.Feed) -> None:
    """Feed a whole request of which nothing is reused."""
    layout = replace(stage.plan.layouts[step.group], rows=len(whole.rows))  # as many as there are by now
    live = stage.opened(stage.engine.open(layout), stage.engine, step.group)
    stage.live[step.session] = live
    stage.feed(live, whole)


def _show_damage(stage: Stage, step: st.Load, damage: st.Damage) -> None:
    """Play the changed request afresh, then force the stale cache to answer its last column."""
    if damage.world is st.World.SAME:
        layout = stage.plan.layouts[damage.group]
        scratch = stage.opened(stage.engine.open(layout), stage.engine, damage.group)
        for feed in damage.right:
            stage.feed(scratch, feed)
    kind = stage.description.cache(stage.plan.cache)
    promise = Promise.EXACT if kind is None else kind.promise
    if promise is Promise.LOSSY:  # it is off from any truth, damaged or not
        return
    forcing = Forcing(
        engine=stage.engine,
        changes=stage.changes,
        layouts=stage.plan.layouts,
        vocab=stage.description.geometry.vocab,
        cache=stage.plan.cache if promise is Promise.MASKED else None,
    )
    forced = forcing.forced(stage.index, damage, group=step.group, stale=lambda: _stale(stage, step))
    stage.recording.forced.append(forced)


def _stale(stage: Stage, step: st.Load) -> Session:
    if step.held is not None:
        return stage.live[step.source].session.fork()
    return force(stage.file(step.source), engine=stage.engine, layout=stage.plan.layouts[step.group])


def _asking(layout: Layout, asks: Asks) -> Layout:
    """Return the layout of the session that asks."""
    return replace(
        layout,
        cache=asks.cache or layout.cache,
        capacity=layout.capacity + asks.room,
        positions=asks.positions or layout.positions,
    )
