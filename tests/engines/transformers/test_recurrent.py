"""Recurrent layers: their states go where their rows go, and are refused what they cannot do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers.cache_utils import LinearAttentionLayer

from evseq.engines.transformers.session import TransformersSession
from evseq.errors import EngineError
from evseq.geometry import Positions

EXACT = 1e-13

TARGETS = ("new/lfm2", "new/falcon_h1", "new/qwen3_next")
"""A short convolution, a state beside attention in one layer, a gated sum; attention elsewhere."""

LEFT = ("xxxxxxxxx", "...xxxxxx", ".xxxxxxxx")

ANYWHERE = [*((target, "dynamic") for target in TARGETS), ("new/lfm2", "static"), ("new/qwen3_next", "static")]


@pytest.mark.parametrize(("target", "kind"), ANYWHERE)
def test_every_step_equals_the_uncached_forward(
    replay: Callable[..., Any], layout: Callable[..., Any], target: str, kind: str
) -> None:
    played = replay(target, layout(kind))
    played.feed(*(line[:5] for line in LEFT))
    played.feed(*(line[5:] for line in LEFT))
    played.feed("x", "x", "x")
    played.feed("xxx", "xxx", "xxx")
    played.select(2, 0, 0, 1)
    played.feed("x", "x", "x", "x")
    twin = played.fork()
    played.feed("x", "x", "x", "x")
    twin.feed("xx", "xx", "xx", "xx")
    assert max(played.worst, twin.worst) <= EXACT


@pytest.mark.parametrize(("target", "kind"), ANYWHERE)
def test_a_restored_state_goes_on(
    replay: Callable[..., Any], layout: Callable[..., Any], target: str, kind: str
) -> None:
    played = replay(target, layout(kind))
    played.feed(*LEFT)
    state = played.session.export()
    again = TransformersSession.opened(played.session.engine, played.session.layout)
    again.restore(state)
    played.session = again
    played.feed("x", "x", "x")
    assert played.worst <= EXACT


def test_positions_left_to_the_model_are_counted_by_its_attention_layers(
    replay: Callable[..., Any], layout: Callable[..., Any]
) -> None:
    played = replay("new/lfm2", layout("dynamic", positions=Positions.ENGINE))
    played.feed(*LEFT)
    played.feed("x", "x", "x")
    assert played.worst <= EXACT


def test_a_recorded_convolution_is_cut_twice_and_goes_on(
    replay: Callable[..., Any], layout: Callable[..., Any]
) -> None:
    played = replay("new/lfm2", layout("dynamic", depth=8))
    played.feed("xxxxxxxxx", "xxxxxxxxx", "xxxxxxxxx")
    played.crop(7, 7, 7)
    played.crop(2, 2, 2)
    played.feed("x", "x", "x")
    played.feed("xxx", "xxx", "xxx")
    assert played.worst <= EXACT


def test_a_cache_saved_without_recording_is_not_cut(replay: Callable[..., Any], layout: Callable[..., Any]) -> None:
    played = replay("new/lfm2", layout("dynamic"))
    played.feed("xxxxxxxxx", "xxxxxxxxx", "xxxxxxxxx")
    with pytest.raises(EngineError) as refused:
        played.crop(7, 7, 7)
    assert str(refused.value) == (
        "crop: layer 0 was fed 9 columns and holds 3 of its convolution, too few to go back by 2\n"
        "  help: use cache dynamic opened with a depth"
    )


def test_no_token_is_taken_back_from_a_recurrent_state(replay: Callable[..., Any], layout: Callable[..., Any]) -> None:
    played = replay("new/falcon_h1", layout("dynamic", depth=2))
    played.feed("xxxxx", "xxxxx", "xxxxx")
    with pytest.raises(EngineError) as refused:
        played.session.crop([4, 4, 4])
    assert str(refused.value) == (
        "crop: layer 0 has a recurrent state, from which no token is taken back\n"
        "  help: fork the session before what may be rolled back, or expect `loud`"
    )
    played.feed("x", "x", "x")
    assert played.worst <= EXACT


@pytest.mark.parametrize(
    ("lines", "where"),
    [(("x", ".", "x"), "alone"), (("xx", "x.", "xx"), "behind a token"), (("xx", ".x", "xx"), "behind a token")],
)
def test_a_masked_column_that_would_move_a_state_is_refused(
    replay: Callable[..., Any], layout: Callable[..., Any], lines: tuple[str, ...], where: str
) -> None:
    played = replay("new/lfm2", layout("dynamic"))
    played.feed(*LEFT)
    with pytest.raises(EngineError) as refused:
        played.feed(*lines)
    assert str(refused.value) == (
        f"append: a masked column {where} moves the state of a recurrent layer\n"
        "  help: put masked columns before a row's first token, several columns in one forward"
    )


def test_rows_rolled_back_unevenly_are_refused(replay: Callable[..., Any], layout: Callable[..., Any]) -> None:
    played = replay("new/lfm2", layout("dynamic", depth=4))
    played.feed("xxxxx", "xxxxx", "xxxxx")
    with pytest.raises(EngineError) as refused:
        played.session.crop([4, 3, 4])
    assert str(refused.value) == (
        "crop: a token dropped before the last one another row keeps stays in the state of a recurrent layer\n"
        "  help: drop the same columns of every row"
    )


def test_a_state_alone_shows_no_slot_and_lets_no_token_be_seen(
    replay: Callable[..., Any], layout: Callable[..., Any]
) -> None:
    played = replay("new/lfm2", layout("dynamic"))
    played.feed(*LEFT)
    probe, view = played.session.probe(), played.session.view()
    assert probe.visible == ((0, 0, 0), (9, 6, 8))
    assert [tuple(layer.keys.shape) for layer in view.layers] == [(3, 0, 0, 0), (3, 2, 9, 16)]


def test_every_state_is_exported_by_its_name(replay: Callable[..., Any], layout: Callable[..., Any]) -> None:
    played = replay("new/falcon_h1", layout("dynamic"))
    played.feed(*LEFT)
    names = {name.removeprefix("layer.0.") for name in played.session.export().tensors if name.startswith("layer.0.")}
    assert names == {"keys", "values", "conv_states.0", "recurrent_states.0"}


def test_a_state_of_another_shape_is_refused(replay: Callable[..., Any], layout: Callable[..., Any]) -> None:
    played = replay("new/falcon_h1", layout("dynamic"))
    played.feed(*LEFT)
    state = played.session.export()
    name = "layer.1.recurrent_states.0"
    state.tensors[name] = state.tensors[name][..., :-1]
    again = TransformersSession.opened(played.session.engine, played.session.layout)
    with pytest.raises(EngineError, match=r"^restore: layer\.1\.recurrent_states\.0 is torch\.float64 \(3, 4, 32, 7\)"):
        again.restore(state)


def test_a_selection_that_leaves_the_states_is_seen(
    replay: Callable[..., Any], layout: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LinearAttentionLayer, "reorder_cache", lambda _layer, _index: None)
    played = replay("new/lfm2", layout("dynamic"))
    played.feed(*LEFT)
    played.select(2, 0, 1)
    played.feed("x", "x", "x")
    assert played.worst > 0.1


def test_rows_of_two_sessions_keep_their_states(
    replay: Callable[..., Any], layout: Callable[..., Any], column: Callable[..., Any]
) -> None:
    one, other = (replay("new/falcon_h1", layout("dynamic", rows=2)) for _ in range(2))
    one.feed("xxxxx", "xxxxx")
    other.feed("xxx", "xxx")
    alone = other.session.fork().append(column(7, rows=2, position=3))
    one.session.join(other.session)
    together = one.session.append(column(7, rows=4, position=3))
    assert float((together[2:] - alone).abs().max()) <= EXACT
    assert torch.equal(one.session.mask.sum(dim=1), torch.tensor([6, 6, 4, 4]))
