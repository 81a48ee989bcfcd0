"""Pooling: what ends is left to the engine's pool, and what the pool gives of a request is gone on from."""

from __future__ import annotations

import time

from evseq.engines.protocol import Pool
from evseq.errors import EngineError
from evseq.geometry import Capability
from evseq.replay.asking import request_rows
from evseq.replay.recording import Drawn
from evseq.replay.remainder import behind
from evseq.replay.stage import Stage
from evseq.script import steps as st

__all__ = ["clear", "draw", "stow"]


def clear(stage: Stage) -> None:
    """Let the engine's pool forget what other plans left there, where this one asks it."""
    if Capability.POOL in stage.plan.needs:
        _pool(stage).clear()


def stow(stage: Stage, step: st.Stow) -> None:
    """End a session and leave what it holds to the pool."""
    live = stage.live.pop(step.session)
    _pool(stage).keep(live.session, request_rows(step.request), salt=step.request.salt)


def draw(stage: Stage, step: st.Draw) -> None:
    """Ask the pool, open what it gives or an empty session, and feed what it does not give."""
    pool, engine, layout = _pool(stage), stage.engine, stage.plan.layouts[step.group]
    width = len(step.whole.tokens[0])
    started, before = time.perf_counter(), engine.forwarded
    given = pool.draw(layout, request_rows(step.request), salt=step.request.salt)
    columns = int(given.columns)
    if not 0 <= columns <= width:
        raise EngineError(f"draw: {columns} of {width} columns\n  help: tell how many first columns the session holds")
    if columns and given.session is None:
        raise EngineError(f"draw: {columns} columns and no session\n  help: give the session that holds them, or 0")
    stage.recording.drawn.append(
        Drawn(
            step=stage.index,
            session=step.session,
            columns=columns,
            tokens=tuple(sum(node >= 0 for node in nodes[:columns]) for nodes in step.whole.nodes),
            forwarded=engine.forwarded - before,
            seconds=time.perf_counter() - started,
        )
    )
    if step.refused is not None:
        return
    session = given.session if given.session is not None and columns else engine.open(layout)
    live = stage.live[step.session] = stage.opened(session, engine, step.group, rows=step.whole.rows)
    if columns < width:
        stage.feed(live, behind(step.whole, columns))
    else:
        stage.probe(live, step, step.whole.after)


def _pool(stage: Stage) -> Pool:
    pool: Pool | None = getattr(stage.engine, "pool", None)
    if pool is None:
        raise EngineError("this engine has no pool\n  help: give it one as `pool`, or leave out the capability `pool`")
    return pool
