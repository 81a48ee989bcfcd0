"""Rules for an engine's pool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from evseq.cache.claim import RequestRow
from evseq.engines.conformance.bench import Bench
from evseq.engines.conformance.rule import rule
from evseq.engines.conformance.trial import Trial
from evseq.engines.protocol import Drawn, Pool
from evseq.geometry import Capability, Layout

__all__ = ["pool", "pool_isolation", "pool_keys"]


@rule(Capability.POOL)
def pool(bench: Bench) -> Iterator[str]:
    """Give whole blocks of what is kept, leave each row its last token to be fed, and forward nothing."""
    yield from _described(bench)
    held, rows, layout = _kept(bench)
    width = len(rows[0])
    for length in (width, width - 1):
        asked, before = [row[:length] for row in rows], bench.engine.forwarded
        drawn = held.draw(layout, _requested(asked), salt=None)
        if bench.engine.forwarded != before:
            yield f"draw forwarded {bench.engine.forwarded - before} tokens"
        if not 0 <= drawn.columns < length:
            yield f"draw: {drawn.columns} of {length} columns, the last token of each row has to be fed"
            continue
        least = (length - 1) // _block(bench) * _block(bench)
        if bench.description.keeps_whole(bench.kind.name) and drawn.columns < least:
            yield f"draw: {drawn.columns} columns, {least} were kept in whole blocks"
        trial = _gone_on(bench, layout, asked, drawn)
        trial.step(2)
        trial.probe()
        yield from (f"{drawn.columns} of {length} columns from the pool: {line}" for line in trial.found())


@rule(Capability.POOL)
def pool_keys(bench: Bench) -> Iterator[str]:
    """Key what is kept by salt, and by every token with its position up to the last of the block."""
    held, rows, layout = _kept(bench)
    block = _block(bench)
    if held.draw(layout, _requested(rows), salt="other").columns:
        yield "draw: something came of what was kept under another salt"
    for index in (0, block - 1, block, 2 * block - 1):
        changed = [
            [*row[:index], (row[index] + 1) % bench.description.geometry.vocab, *row[index + 1 :]] for row in rows
        ]
        moved = [replace(row, positions=_moved(row.positions, index)) for row in _requested(rows)]
        for what, asked in (("token", _requested(changed)), ("position", moved)):
            columns = held.draw(layout, asked, salt=None).columns
            if columns > index:
                yield f"draw: {columns} columns, though the {what} at index {index} is another"
    held.clear()
    if held.draw(layout, _requested(rows), salt=None).columns:
        yield "draw: something is left after clear"


@rule(Capability.POOL)
def pool_isolation(bench: Bench) -> Iterator[str]:
    """Let every session go on apart from the others, and the pool from all of them."""
    held, rows, layout = _kept(bench)
    trials = [_gone_on(bench, layout, rows, held.draw(layout, _requested(rows), salt=None)) for _ in range(2)]
    for trial in (*trials, *trials):
        trial.step()
    held.clear()
    for trial in trials:
        trial.step()
        trial.probe()
        yield from trial.found()


def _described(bench: Bench) -> Iterator[str]:
    if bench.description.pool is None:
        yield "the description has the capability `pool` and does not say how large a block is"
    if not isinstance(getattr(bench.engine, "pool", None), Pool):
        yield f"{type(bench.engine).__name__} lacks `pool`, or that a member of evseq.engines.protocol.Pool"


def _block(bench: Bench) -> int:
    return bench.description.pool.block if bench.description.pool is not None else 1


def _kept(bench: Bench) -> tuple[Pool, list[list[int]], Layout]:
    """Keep rows of two blocks and a token in an empty pool; return it with them and their layout."""
    held: Pool = bench.engine.pool  # type: ignore[attr-defined]
    held.clear()
    rows = bench.batch(2 * _block(bench) + 1)
    layout = replace(bench.layout(capacity=len(rows[0]) + 4), pooled=True)
    trial = Trial.opened(bench, layout)
    trial.feed(rows, prefill=True)
    held.keep(trial.session, _requested(rows), salt=None)
    return held, rows, layout


def _gone_on(bench: Bench, layout: Layout, rows: Sequence[Sequence[int]], drawn: Drawn) -> Trial:
    """Feed what a pool does not give."""
    session = drawn.session if drawn.session is not None and drawn.columns else bench.engine.open(layout)
    trial = Trial(bench=bench, session=session, layout=layout)
    columns = drawn.columns if session is drawn.session else 0
    trial.rows = [[(token, place) for place, token in enumerate(row[:columns])] for row in rows]
    trial.feed([row[columns:] for row in rows], prefill=columns == 0)
    return trial


def _requested(rows: Sequence[Sequence[int]]) -> list[RequestRow]:
    return [
        RequestRow(name=f"row {number}", tokens=tuple(row), mask=(True,) * len(row), positions=tuple(range(len(row))))
        for number, row in enumerate(rows)
    ]


def _moved(positions: Sequence[int], index: int) -> tuple[int, ...]:
    """Return the positions of tokens of which those from `index` on stand one further back."""
    return (*positions[:index], *(position + 1 for position in positions[index:]))
