"""Rotary tables that a model writes anew by the length of what it runs: dynamic and long scaling.

Their frequencies belong to the last forward and to no model: they are no part of its identity, and an uncached forward
must find them as the model was born, whatever ran before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import nn

__all__ = ["SEEN", "as_born", "passing"]

FREQUENCIES, SEEN, FIRST = "inv_freq", "max_seq_len_cached", "original_inv_freq"


def passing(module: nn.Module) -> Mapping[str, str]:
    """Return the tables `module` writes anew, by name, with the name of what each was born as."""
    kinds = getattr(module, "rope_type", None)
    # Of a model whose kinds of layers turn by angles of their own, each has its tables under its own name.
    found = {f"{layer}_": kind for layer, kind in kinds.items()} if isinstance(kinds, dict) else {"": kinds}
    return {
        f"{prefix}{FREQUENCIES}": f"{prefix}{FIRST}"
        for prefix, kind in found.items()
        if isinstance(kind, str) and ("dynamic" in kind or kind == "longrope")
    }


@contextmanager
def as_born(model: nn.Module) -> Iterator[None]:
    """Let every such table be what it was before anything ran; afterwards what it is now."""
    before: list[tuple[nn.Module, str, object]] = []
    for module in model.modules():
        for table, first in passing(module).items():
            seen = table.removesuffix(FREQUENCIES) + SEEN
            before += [(module, table, getattr(module, table))]
            setattr(module, table, getattr(module, first).clone())
            if hasattr(module, seen):
                before += [(module, seen, getattr(module, seen))]
                setattr(module, seen, getattr(module, "original_max_seq_len", getattr(module, seen)))
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
