"""Uncached: one full-prefix forward of an engine, looked at before anything is compared with it."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from evseq.engines.protocol import Declaring, Engine
from evseq.errors import EngineError
from evseq.history import Path
from evseq.replay.opening import RAISED, UnusableError, told

__all__ = ["uncached"]


def uncached(engine: Engine, path: Path, *, vocab: int, cache: str | None = None) -> Float[Tensor, "position vocab"]:
    """Run one row without a cache and return a copy of its logits on the CPU.

    `cache` names a kind of promise `masked`, under whose policy it is run.
    Raises UnusableError for whatever the engine raises, and for anything but a table of `vocab` logits per slot.
    """
    try:
        logits: object = engine.uncached(path) if cache is None else _declared(engine, path, cache)
    except RAISED as error:
        raise UnusableError(f"the uncached forward raised {told(error)}") from error
    expected = [len(path), vocab]
    if not isinstance(logits, Tensor) or not logits.is_floating_point() or list(logits.shape) != expected:
        shape = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise UnusableError(f"the uncached forward returned {shape}, expected logits of shape {expected}")
    # A copy, because an engine may write the next forward into the same buffer.
    return logits.detach().to("cpu", copy=True)


def _declared(engine: Engine, path: Path, cache: str) -> Float[Tensor, "position vocab"]:
    if not isinstance(engine, Declaring):
        raise EngineError(
            f"uncached: this engine does not say what cache {cache!r} lets a token see\n"
            "  help: give it a method `uncached_under`, or declare the kind `lossy`"
        )
    return engine.uncached_under(path, cache)
