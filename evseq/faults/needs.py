"""Needs: where a fault can be planted, read from a target's loader and what it describes."""

from __future__ import annotations

from evseq.engines.protocol import Loader
from evseq.engines.reference.config import Coding, Config
from evseq.engines.reference.loader import ReferenceLoader
from evseq.faults.fault import FaultyLoader, Need
from evseq.geometry import Keep, PositionRule

__all__ = [
    "absolute",
    "allocates",
    "coded",
    "counts_tokens",
    "everywhere",
    "grouped",
    "in_reference",
    "known_inside",
    "layered",
    "offers",
    "rotary",
    "sliding",
    "stateful",
]

OWN = "evseq.engines."
"""Where the engines are whose caches a fault knows from inside."""


def in_reference(loader: Loader) -> str | None:
    """Refuse what is not the reference engine."""
    return None if isinstance(_healthy(loader), ReferenceLoader) else "it is made of the reference engine's own parts"


def known_inside(loader: Loader) -> str | None:
    """Refuse engines that are not evseq's own."""
    own = type(_healthy(loader)).__module__.startswith(OWN)
    return None if own else "it reaches into the caches of reference and transformers, and knows no other"


def sliding(loader: Loader) -> str | None:
    """Refuse decoders in which every layer sees all."""
    return None if loader.describe().geometry.window is not None else "no layer of this target has a window"


def everywhere(loader: Loader) -> str | None:
    """Refuse decoders in which any layer slides."""
    windows = [layer.window for layer in loader.describe().geometry.layers]
    return None if set(windows) == {None} else "a layer of this target has a window, and may have forgotten"


def allocates(loader: Loader) -> str | None:
    """Refuse engines without a cache that is allocated at once."""
    kinds = loader.describe().caches
    return None if any(kind.full is Keep.CAPACITY for kind in kinds) else "no cache of this target is allocated at once"


def offers(cache: str) -> Need:
    """Refuse targets without a cache kind of that name."""

    def need(loader: Loader) -> str | None:
        known = loader.describe().cache(cache) is not None
        return None if known else f"this target has no cache kind {cache!r}"

    return need


def stateful(loader: Loader) -> str | None:
    """Refuse decoders without a recurrent layer, and engines whose states are not known."""
    found = loader.describe().geometry.recurrent
    return known_inside(loader) if found else "no layer of this target is recurrent"


def layered(loader: Loader) -> str | None:
    """Refuse decoders of one layer."""
    return None if len(loader.describe().geometry.layers) > 1 else "this target has one layer"


def grouped(loader: Loader) -> str | None:
    """Refuse decoders with one head of keys and values in a layer."""
    heads = min(layer.kv_heads for layer in loader.describe().geometry.layers)
    return None if heads > 1 else "a layer of this target has one head of keys and values"


def absolute(loader: Loader) -> str | None:
    """Refuse decoders in which only distances count: all positions moved alike are no fault there."""
    table = loader.describe().geometry.max_positions
    return "only distances between tokens count in this target" if table is None else None


def counts_tokens(loader: Loader) -> str | None:
    """Refuse engines that number tokens by slot when left to themselves."""
    rule = loader.describe().geometry.position_rule
    return None if rule is PositionRule.MASK else "this engine numbers tokens by their slot, holes included"


def rotary(loader: Loader) -> str | None:
    """Refuse decoders whose keys and queries are not turned by angles."""
    own = _healthy(loader)
    if isinstance(own, ReferenceLoader):
        turned = Config.read(own.name).coding is Coding.ROTARY
    else:
        config = getattr(own, "config", None) or getattr(getattr(own, "model", None), "config", None)
        turned = getattr(config, "rope_parameters", None) is not None
    return None if turned else "this decoder has no rotary positions"


def coded(coding: Coding) -> Need:
    """Refuse what is not the reference with positions of this coding."""

    def need(loader: Loader) -> str | None:
        own = _healthy(loader)
        fits = isinstance(own, ReferenceLoader) and Config.read(own.name).coding is coding
        return None if fits else f"it is made of the reference engine's {coding} positions"

    return need


def _healthy(loader: Loader) -> Loader:
    while isinstance(loader, FaultyLoader):
        loader = loader.inner
    return loader
