"""What a request asks of a cache, computed from the request and the decoder's description alone.

The saving side fills the same fields from the exported cache; where engine and plan disagree, the guard says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from evseq.cache.canonical import Scalar
from evseq.cache.fields import FORMAT_VERSION
from evseq.geometry import CacheKind, Description, Dtype, Geometry, Layer, Layout, PositionRule, Positions, WindowCounts

__all__ = ["RequestRow", "cache_identity", "claimed_cache", "numbering", "request_identity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """One row of a request: its real tokens with their positions, and which of its slots they fill, in order."""

    name: str
    tokens: tuple[int, ...]
    mask: tuple[bool, ...]
    positions: tuple[int, ...]
    text: str | None = None


def request_identity(*, rows: Sequence[RequestRow], rule: str, padding: str, salt: str | None) -> dict[str, Scalar]:
    """Return the request fields. `rule` says who numbers tokens: `given`, or the engine's rule `mask` or `slot`."""
    return {
        "prefix.tokens": [[row.name, list(row.tokens)] for row in rows],
        "prefix.text": [[row.name, row.text] for row in rows],
        "prefix.mask": [[row.name, list(row.mask)] for row in rows],
        "position.rule": str(rule),
        "position.ids": [[row.name, list(row.positions)] for row in rows],
        "padding": str(padding),
        "salt": salt,
    }


def claimed_cache(
    *, description: Description, layout: Layout, dtype: Dtype, rows: Sequence[RequestRow], furthest: int | None = None
) -> dict[str, Scalar]:
    """Return the cache fields an intact cache of this request has.

    `furthest` is the most columns the session ever held, where a crop made them fewer since.
    """
    kind = _kind(description, layout)
    fed = len(rows[0].mask)
    layers = description.geometry.layers
    shapes = [
        (len(rows), layer.kv_heads, kind.slots(layer, fed=fed, layout=layout), layer.head_dim) for layer in layers
    ]
    return cache_identity(
        description=description,
        dtype=dtype.value,
        kind=kind.name,
        shapes=shapes,
        lengths={row.name: len(row.tokens) for row in rows},
        visible={row.name: _visible(row, description.shown(layout.cache), layout) for row in rows},
        eviction=_first_slots(description=description, layout=layout, furthest=max(fed, furthest or 0)),
        quantisation=dict(kind.quantisation) or None,
    )


def cache_identity(
    *,
    description: Description,
    dtype: str,
    kind: str,
    shapes: Sequence[Sequence[int]],
    lengths: Mapping[str, int],
    visible: Mapping[str, Sequence[int]],
    eviction: Sequence[int],
    quantisation: Scalar = None,
) -> dict[str, Scalar]:
    """Return the cache fields.

    `shapes` are those of the keys, [row, kv_head, slot, head_dim] per layer; `lengths` real tokens by row, in batch
    order; `visible` by row, per layer, how many cached tokens the row's next query attends to; `eviction` the first
    slot each layer still holds; `quantisation` how numbers are rounded, None where they are held as computed.
    """
    shown = description.shown(kind).layers
    return {
        "cache.kind": kind,
        "cache.shapes": [list(shape) for shape in shapes],
        "cache.dtype": dtype,
        "cache.quantisation": quantisation,
        "window.policy": [_policy(layer, description.geometry.window_counts) for layer in shown],
        "cache.length": [[row, length] for row, length in lengths.items()],
        "cache.visible": [[row, list(layers)] for row, layers in visible.items()],
        "cache.eviction": list(eviction),
        "format.version": FORMAT_VERSION,
    }


def numbering(geometry: Geometry, layout: Layout) -> str:
    """Return the value of `position.rule`: `given`, or the rule of the engine that numbers tokens itself."""
    return Positions.GIVEN.value if layout.positions is Positions.GIVEN else geometry.position_rule.value


def _kind(description: Description, layout: Layout) -> CacheKind:
    kind = description.cache(layout.cache)
    assert kind is not None  # the plan took the word from the description
    return kind


def _first_slots(*, description: Description, layout: Layout, furthest: int) -> list[int]:
    """Return per layer the first slot still held once `furthest` columns were fed.

    A layer forgets when it is fed, and no crop brings back what it forgot.
    """
    kind = _kind(description, layout)
    return [
        max(0, furthest - kind.slots(layer, fed=furthest, layout=layout)) if layer.attends else 0
        for layer in description.geometry.layers
    ]


def _policy(layer: Layer, counts: WindowCounts) -> str:
    if layer.window is None:
        kept = "every slot" if layer.attends else "no slot"
    elif layer.sinks:
        kept = f"{layer.sinks} first, {layer.window} {counts.value}"
    else:
        kept = f"chunks of {layer.window} {counts.value}" if layer.chunked else f"{layer.window} {counts.value}"
    return f"{kept}, and a state" if layer.recurrent else kept


def _visible(row: RequestRow, geometry: Geometry, layout: Layout) -> list[int]:
    """Return per layer how many cached tokens of `row` its next query attends to, itself not counted."""
    slot = len(row.mask)
    position = slot if numbering(geometry, layout) == PositionRule.SLOT else len(row.tokens)
    match geometry.window_counts:
        case WindowCounts.POSITIONS:
            here, places = position, list(row.positions)
        case WindowCounts.SLOTS:
            here, places = slot, [held for held, real in enumerate(row.mask) if real]
        case counts:
            assert_never(counts)
    first = places[0] if places else here
    return [sum(layer.sees(place, here=here, first=first) for place in places) for layer in geometry.layers]
