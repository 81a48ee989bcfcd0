"""What a session tells of itself: read from tensors, the mask and the live configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from evseq.geometry import Positions

KINDS = ["dynamic", "static"]


@pytest.mark.parametrize(
    ("kind", "depth", "held"),
    [
        pytest.param("dynamic", 0, 7, id="window less one"),
        pytest.param("dynamic", 2, 11, id="every slot while recording"),
        pytest.param("static", 0, 8, id="window"),
    ],
)
def test_the_bytes_are_those_the_cache_kind_declares(
    replay: Callable[..., Any], layout: Callable[..., Any], kind: str, depth: int, held: int
) -> None:
    where = layout(kind, depth=depth)
    played = replay("new/mistral", where)
    played.feed("xxxxxxxxxxx", "xxxxxxxxxxx", "..xxxxxxxxx")
    description = played.session.engine.description
    slots = [description.cache(kind).slots(layer, fed=11, layout=where) for layer in description.geometry.layers]
    assert slots == [held, held]
    assert played.session.probe().cache_bytes == sum(2 * 3 * slot * 2 * 16 * 8 for slot in slots)


@pytest.mark.parametrize("kind", KINDS)
def test_the_probe_counts_tokens_and_what_the_next_query_sees(
    replay: Callable[..., Any], layout: Callable[..., Any], kind: str
) -> None:
    played = replay("new/gemma3_text", layout(kind))
    played.feed("xxxxxxxxxxx", "xxxx.......", "xx...xx...x")
    probe = played.session.probe()
    assert probe.lengths == (11, 4, 5)
    assert probe.next_positions == (11, 4, 5)
    assert probe.visible == ((7, 0, 3), (11, 4, 5))


@pytest.mark.parametrize("kind", KINDS)
def test_a_chunk_begins_with_a_rows_first_token(
    replay: Callable[..., Any], layout: Callable[..., Any], kind: str
) -> None:
    played = replay("new/llama4_text", layout(kind))
    played.feed("xxxxxxxxxx", "xxxxxxxx..", "..xxxxxxxx")
    assert played.session.probe().visible == ((2, 0, 0), (10, 8, 8))


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_buffer_shorter_than_the_window_shows_all_of_it(
    replay: Callable[..., Any], layout: Callable[..., Any], kind: str
) -> None:
    played = replay("new/mistral", layout(kind, rows=1, capacity=2))
    played.feed("xx")
    assert played.session.probe().visible == ((2,), (2,))


def test_a_model_that_numbers_slots_says_so_in_the_probe(
    replay: Callable[..., Any], layout: Callable[..., Any]
) -> None:
    played = replay("new/llama", layout("dynamic", positions=Positions.ENGINE))
    played.feed("xxxx", "..xx", "x...")
    assert played.session.probe().next_positions == (4, 4, 4)


def test_a_model_that_counts_the_mask_says_so_in_the_probe(
    replay: Callable[..., Any], layout: Callable[..., Any]
) -> None:
    played = replay("new/bloom", layout("dynamic", positions=Positions.ENGINE))
    played.feed("xxxx", "..xx", "x...")
    assert played.session.probe().next_positions == (4, 2, 1)


def test_another_window_in_the_live_configuration_shows_in_the_probe(
    replay: Callable[..., Any], layout: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    played = replay("new/mistral", layout("dynamic", rows=1))
    played.feed("xxxxxxxxxxx")
    monkeypatch.setattr(played.session.engine.model.config, "sliding_window", 5)
    assert played.session.probe().visible == ((4,), (4,))


@pytest.mark.parametrize("kind", KINDS)
def test_the_view_shows_positions_and_minus_one_where_nothing_is(
    replay: Callable[..., Any], layout: Callable[..., Any], kind: str
) -> None:
    played = replay("new/gemma3_text", layout(kind, rows=2, capacity=12))
    played.feed("xxxxxxxxxx", "..xxxxxxxx")
    sliding, full = played.session.view().layers
    assert (
        sliding.positions[1, :7].tolist() == {"dynamic": [1, 2, 3, 4, 5, 6, 7], "static": [0, 1, 2, 3, 4, 5, 6]}[kind]
    )
    assert full.positions[1, :10].tolist() == [-1, -1, 0, 1, 2, 3, 4, 5, 6, 7]
    assert full.positions[1, 10:].tolist() == {"dynamic": [], "static": [-1, -1]}[kind]
    assert full.keys.shape[2] == full.positions.shape[1]
