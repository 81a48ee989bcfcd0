"""The pool of the reference engine, asked directly."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from evseq.cache.claim import RequestRow
from evseq.engines.protocol import Batch
from evseq.engines.reference.config import POOL
from evseq.engines.reference.engine import ReferenceEngine
from evseq.engines.reference.loader import ReferenceLoader
from evseq.errors import EngineError
from evseq.geometry import Dtype, Layout

LAYOUT = Layout(rows=1, capacity=64, depth=0, cache="growing", pooled=True)


@pytest.fixture(scope="module")
def loaded() -> ReferenceEngine:
    return ReferenceLoader(name="full").load(Dtype.FLOAT64, {})


@pytest.fixture
def engine(loaded: ReferenceEngine) -> ReferenceEngine:
    loaded.pool.clear()
    return loaded


def row(*tokens: int, pads: int = 0) -> RequestRow:
    mask = (*(False,) * pads, *(True,) * len(tokens))
    return RequestRow(name="a", tokens=tokens, mask=mask, positions=tuple(range(len(tokens))))


def keep(engine: ReferenceEngine, asked: RequestRow, layout: Layout = LAYOUT) -> None:
    """Feed a row to a session of its own, and leave it to the pool."""
    session = engine.open(layout)
    mask = torch.tensor([asked.mask])  # row column
    tokens, positions = torch.zeros(mask.shape, dtype=torch.int64), torch.zeros(mask.shape, dtype=torch.int64)
    tokens[mask], positions[mask] = torch.tensor(asked.tokens), torch.tensor(asked.positions)
    session.prefill(Batch(tokens=tokens, mask=mask, positions=positions))
    engine.pool.keep(session, [asked], salt=None)


def columns(engine: ReferenceEngine, asked: RequestRow) -> int:
    return engine.pool.draw(LAYOUT, [asked], salt=None).columns


@pytest.mark.parametrize(("length", "blocks"), [(3, 0), (4, 1), (7, 1), (8, 2), (9, 2)])
def test_only_whole_blocks_are_kept(engine: ReferenceEngine, length: int, blocks: int) -> None:
    keep(engine, row(*range(length)))

    assert len(engine.pool.blocks) == blocks


def test_what_begins_alike_is_kept_once(engine: ReferenceEngine) -> None:
    keep(engine, row(1, 2, 3, 4, 5, 6, 7, 8))
    keep(engine, row(1, 2, 3, 4, 9, 9, 9, 9))

    assert len(engine.pool.blocks) == 3


def test_pads_are_no_part_of_a_block(engine: ReferenceEngine) -> None:
    keep(engine, row(1, 2, 3, 4, 5, pads=3))

    assert columns(engine, row(1, 2, 3, 4, 5, pads=1)) == 5


def test_the_row_that_has_least_says_how_many_columns(engine: ReferenceEngine) -> None:
    keep(engine, row(1, 2, 3, 4, 5, 6, 7, 8, 9))

    drawn = engine.pool.draw(
        replace(LAYOUT, rows=2), [row(1, 2, 3, 4, 5, 6, 7, 8, 9), row(1, 2, 3, 4, 9, 9, 9, 9, 9)], salt=None
    )

    assert drawn.columns == 4
    assert drawn.session is not None
    assert drawn.session.probe().lengths == (4, 4)


def test_a_ring_that_forgot_its_first_tokens_leaves_nothing() -> None:
    engine = ReferenceLoader(name="window").load(Dtype.FLOAT64, {})

    keep(engine, row(*range(40)), replace(LAYOUT, cache="ring"))

    assert engine.pool.blocks == {}


def test_there_is_room_for_so_many_blocks_and_the_last_of_the_oldest_row_go_first(engine: ReferenceEngine) -> None:
    rows = [row(*[number] * 61) for number in (1, 2, 3)]
    for asked in rows:
        keep(engine, asked)

    assert len(engine.pool.blocks) == POOL.blocks
    assert [columns(engine, asked) for asked in rows] == [8, 60, 60]


def test_what_is_asked_for_stays_longest(engine: ReferenceEngine) -> None:
    rows = [row(*[number] * 61) for number in (1, 2, 3)]
    keep(engine, rows[0])
    keep(engine, rows[1])
    columns(engine, rows[0])
    keep(engine, rows[2])

    assert [columns(engine, asked) for asked in rows] == [60, 8, 60]


def test_a_session_that_was_not_opened_for_it_is_not_kept(engine: ReferenceEngine) -> None:
    with pytest.raises(EngineError) as error:
        keep(engine, row(1, 2, 3, 4), replace(LAYOUT, pooled=False))

    assert str(error.value) == (
        "keep: not known what filled this session\n  help: open it with a layout that is pooled"
    )
