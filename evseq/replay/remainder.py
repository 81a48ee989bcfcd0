"""Remainder: what of a request is still to be fed when only its beginning is reused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evseq.script.steps import Feed

__all__ = ["behind", "remainder"]


def remainder(whole: Feed, tokens: Mapping[str, int]) -> tuple[tuple[int, ...], Feed]:
    """Return how many tokens each row keeps, and the forward of all the others.

    A forward is a rectangle, so that of a row no more is kept than lies before the first column another row needs.
    """
    rows = list(zip(whole.rows, whole.nodes, strict=True))
    cut = min(_column(nodes, tokens.get(name, 0)) for name, nodes in rows)
    kept = tuple(sum(node >= 0 for node in nodes[:cut]) for nodes in whole.nodes)
    # A cache that is cut ends behind its last token; masked columns after that are fed again.
    start = max(_behind(nodes, count) for nodes, count in zip(whole.nodes, kept, strict=True))
    return kept, behind(whole, start)


def behind(whole: Feed, start: int) -> Feed:
    """Return the forward of all columns from `start` on."""
    return replace(
        whole,
        prefill=start == 0,
        tokens=tuple(row[start:] for row in whole.tokens),
        positions=tuple(row[start:] for row in whole.positions),
        nodes=tuple(row[start:] for row in whole.nodes),
        indices=tuple(row[start:] for row in whole.indices),
    )


def _column(nodes: Sequence[int], count: int) -> int:
    """Return the column of the token behind the first `count`, or the row's end."""
    real = [column for column, node in enumerate(nodes) if node >= 0]
    return real[count] if count < len(real) else len(nodes)


def _behind(nodes: Sequence[int], count: int) -> int:
    """Return the column behind the first `count` tokens."""
    real = [column for column, node in enumerate(nodes) if node >= 0]
    return real[count - 1] + 1 if count else 0
