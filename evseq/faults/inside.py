"""Inside: what a fault reaches for in a session or an engine.

What a session shows of its cache shares memory with it, which is how a fault tampers with any engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from evseq.engines.protocol import Batch, LayerView
from evseq.faults.broken import BrokenEngine, BrokenSession

__all__ = [
    "fed",
    "layers",
    "lengths",
    "module",
    "pads",
    "raw",
    "recurrent",
    "rotary_base",
    "scale",
    "shifted",
    "unmask",
    "views",
    "widened",
    "window",
]

Where = Callable[[Int[Tensor, "row slot"]], Bool[Tensor, "row slot"]]
"""Chooses slots by the positions of their tokens, -1 where there is none."""


def raw(broken: Any) -> Any:
    """Return the healthy engine's or session's own object."""
    while isinstance(broken, BrokenEngine | BrokenSession):
        broken = broken.inner
    return broken


def layers(session: BrokenSession) -> list[Any]:
    """Return the objects that hold `keys` and `values`, one per layer; both may be replaced."""
    own = raw(session)
    return list(own.storages if hasattr(own, "storages") else own.cache.layers)


def recurrent(session: BrokenSession) -> list[dict[int, Any]]:
    """Return the states of recurrent layers by number, those of convolutions and the others; both may be replaced."""
    held = raw(session).cache.layers
    return [
        getattr(layer, name) for layer in held for name in ("conv_states", "recurrent_states") if hasattr(layer, name)
    ]


def module(engine: BrokenEngine) -> nn.Module:
    """Return the weights and what computes with them."""
    own = raw(engine)
    found: nn.Module = own.decoder if hasattr(own, "decoder") else own.model
    return found


def views(session: BrokenSession) -> tuple[LayerView, ...]:
    """Return what each layer holds, to be written to; nothing before the first column."""
    shown = session.inner.view()
    assert shown is not None  # a session that shows nothing cannot be tampered with
    return tuple(layer for layer in shown.layers if layer.values.numel())


def scale(session: BrokenSession, where: Where, factor: float = 0.0, *, layer: int | None = None) -> None:
    """Multiply the values in the slots that `where` chooses, in one layer or in all."""
    for number, held in enumerate(views(session)):
        if layer in (None, number):
            chosen = where(held.positions)[:, None, :, None].to(held.values.device)  # row 1 slot 1
            held.values.copy_(torch.where(chosen, held.values * factor, held.values))


def lengths(session: BrokenSession) -> list[int]:
    """Return the tokens each row holds."""
    return list(session.inner.probe().lengths)


def fed(session: BrokenSession) -> int:
    """Return the columns fed so far, pads and holes included; a cache of nothing but rings counts tokens alone."""
    own = raw(session)
    if hasattr(own, "mask"):
        return int(own.mask.shape[1])
    counted = [int(storage.lengths().max()) for storage in own.storages if len(storage.positions)]
    return max([*counted, *(int(getattr(storage, "columns", storage.positions.shape[1])) for storage in own.storages)])


def pads(batch: Batch) -> Int[Tensor, " row"]:
    """Return how many columns of each row are masked."""
    return (~batch.mask).sum(dim=1)


def shifted(batch: Batch, by: int | Int[Tensor, " row"]) -> Batch:
    """Return the batch with given positions moved on, by one number or by one for each row."""
    if batch.positions is None:
        return batch
    return replace(batch, positions=batch.positions + torch.as_tensor(by).reshape(-1, 1))


def unmask(session: BrokenSession) -> None:
    """Let every slot fed so far be attended to, masked ones as tokens at position 0."""
    own, columns = raw(session), fed(session)
    if hasattr(own, "mask"):
        own.mask = torch.ones_like(own.mask)
    else:
        for storage in own.storages:
            storage.positions[:, :columns].clamp_(min=0)


def window(session: BrokenSession) -> int:
    """Return the smallest window of the session's decoder."""
    own = raw(session)
    if hasattr(own, "decoder"):
        return min(int(layer.window) for layer in own.decoder.config.layers if layer.window)
    return int(own.engine.text_config.sliding_window)


@contextmanager
def widened(engine: BrokenEngine, change: Callable[[int], int | None]) -> Iterator[None]:
    """Give every sliding layer another window meanwhile."""
    own = raw(engine)
    if hasattr(own, "decoder"):
        kept = own.decoder.config
        changed = [replace(layer, window=layer.window and change(layer.window)) for layer in kept.layers]
        own.decoder.config = replace(kept, layers=tuple(changed))
    else:
        kept = own.text_config.sliding_window
        own.text_config.sliding_window = change(kept)
    try:
        yield
    finally:
        if hasattr(own, "decoder"):
            own.decoder.config = kept
        else:
            own.text_config.sliding_window = kept


@contextmanager
def rotary_base(engine: BrokenEngine, factor: float) -> Iterator[None]:
    """Turn keys and queries by angles of another base meanwhile."""
    own = raw(engine)
    if hasattr(own, "decoder"):
        kept = own.decoder.config
        own.decoder.config = replace(kept, theta=kept.theta * factor)
        try:
            yield
        finally:
            own.decoder.config = kept
        return
    tables = [part.inv_freq for part in own.model.modules() if isinstance(getattr(part, "inv_freq", None), Tensor)]
    before = [table.clone() for table in tables]
    for table in tables:
        powers = torch.arange(len(table), dtype=table.dtype, device=table.device) / len(table)
        table.mul_(factor**-powers)
    try:
        yield
    finally:
        for table, kept in zip(tables, before, strict=True):
            table.copy_(kept)
