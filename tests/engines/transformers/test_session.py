"""What a session does between forwards: copy, cut, forget, refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from evseq.engines.protocol import Batch
from evseq.engines.transformers.caches import crop
from evseq.errors import EngineError

KINDS = ["dynamic", "static"]
TARGETS = ["new/gpt2", "new/mistral", "new/gemma3_text"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_fork_goes_on_bit_for_bit_and_shares_nothing(
    replay: Callable[..., Any], layout: Callable[..., Any], column: Callable[..., Batch], target: str, kind: str
) -> None:
    played = replay(target, layout(kind))
    played.feed("xxxxxxxxxxx", "xxxxxxxxxxx", "..xxxxxxxxx")
    first, second = played.session.fork(), played.session.fork()
    first.append(column(99, rows=3, position=11))
    actual = second.append(column(7, rows=3, position=11))
    expected = played.session.append(column(7, rows=3, position=11))
    assert torch.equal(actual, expected)


def test_a_reset_keeps_the_static_buffers(replay: Callable[..., Any], layout: Callable[..., Any]) -> None:
    played = replay("new/mistral", layout("static"))
    played.feed("xxxxxxxxxxx", "xxxxxxxxxxx", "..xxxxxxxxx")
    before = [layer.keys.data_ptr() for layer in played.session.cache.layers]
    played.session.reset()
    again = replay("new/mistral", layout("static"))
    again.session = played.session
    again.feed("xxxx", "..xx", "x...")
    assert [layer.keys.data_ptr() for layer in again.session.cache.layers] == before
    assert again.worst <= 1e-13


def test_a_reset_after_a_selection_takes_as_many_rows_as_the_layout(
    replay: Callable[..., Any], layout: Callable[..., Any]
) -> None:
    played = replay("new/mistral", layout("static"))
    played.feed("xxxxxxxxxxx", "xxxxxxxxxxx", "..xxxxxxxxx")
    played.select(1)
    played.session.reset()
    again = replay("new/mistral", layout("static"))
    again.session = played.session
    again.feed("xxxx", "..xx", "x...")
    assert again.worst <= 1e-13


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_rows_of_a_session_rolled_back_to_nothing_multiply(
    replay: Callable[..., Any], layout: Callable[..., Any], kind: str
) -> None:
    played = replay("new/llama", layout(kind, rows=1, depth=4))
    played.feed("xxxx")
    played.session.crop([0])
    played.session.select([0, 0])
    view = played.session.view()
    assert [tuple(layer.keys.shape[:1]) for layer in view.layers] == [(2,), (2,)]


def test_every_token_column_is_counted(
    engine: Callable[..., Any], replay: Callable[..., Any], layout: Callable[..., Any]
) -> None:
    before = engine("new/llama").forwarded
    played = replay("new/llama", layout("dynamic"))
    played.feed("xxxx", "..xx", "x...")
    played.feed("x", "x", "x")
    assert engine("new/llama").forwarded - before == 3 * 4 + 3


def test_a_static_sliding_layer_past_its_window_refuses_a_crop(
    replay: Callable[..., Any], layout: Callable[..., Any]
) -> None:
    played = replay("new/mistral", layout("static", rows=1, depth=3))
    played.feed("xxxxxxxxxxx")
    with pytest.raises(EngineError) as refused:
        played.session.crop([9])
    assert str(refused.value) == (
        "crop: layer 0 was fed 11 columns through a window of 8 and holds 8, too few to go back by 2\n"
        "  help: crop while the window has not been passed, or use cache dynamic opened with a depth"
    )
    assert played.session.probe().lengths == (11,)


def test_what_transformers_does_there_is_wrong_without_a_word(
    replay: Callable[..., Any], layout: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evseq.engines.transformers.caches._check_crop", Mock())
    played = replay("new/mistral", layout("static", rows=1, depth=3))
    played.feed("xxxxxxxxxxx")
    played.crop(9)
    played.feed("x")
    assert played.worst > 0.1


def test_a_dynamic_sliding_layer_that_does_not_record_refuses_a_crop(
    replay: Callable[..., Any], layout: Callable[..., Any]
) -> None:
    played = replay("new/mistral", layout("dynamic", rows=1))
    played.feed("xxxxxxxxxxx")
    with pytest.raises(EngineError) as refused:
        crop(played.session.cache, 2, fed=9)
    assert str(refused.value) == (
        "crop: layer 0 was fed 11 columns through a window of 8 and holds 7, too few to go back by 2\n"
        "  help: crop while the window has not been passed, or use cache dynamic opened with a depth"
    )


def test_a_crop_beyond_what_a_row_holds_is_refused(replay: Callable[..., Any], layout: Callable[..., Any]) -> None:
    played = replay("new/llama", layout("dynamic", depth=3))
    played.feed("xxxx", "..xx", "x...")
    with pytest.raises(EngineError) as refused:
        played.session.crop([4, 3, 1])
    assert str(refused.value) == "crop: to [4, 3, 1], the rows hold [4, 2, 1]\n  help: keep 0 tokens or more, per row"


def test_an_unknown_parent_is_refused(replay: Callable[..., Any], layout: Callable[..., Any]) -> None:
    played = replay("new/llama", layout("dynamic"))
    played.feed("xxxx", "..xx", "x...")
    with pytest.raises(EngineError) as refused:
        played.session.select([0, 3])
    assert str(refused.value) == "select: parents [0, 3] of 3 rows\n  help: name rows 0 to 2"


def test_columns_beyond_a_static_capacity_are_refused(replay: Callable[..., Any], layout: Callable[..., Any]) -> None:
    played = replay("new/llama", layout("static", capacity=4))
    played.feed("xxxx", "..xx", "x...")
    with pytest.raises(EngineError) as refused:
        played.feed("x", "x", "x")
    assert str(refused.value) == (
        "append: 5 columns do not fit, the layout has room for 4\n  help: open the session with a larger capacity"
    )


def test_other_rows_than_the_session_has_are_refused(
    replay: Callable[..., Any], layout: Callable[..., Any], column: Callable[..., Batch]
) -> None:
    played = replay("new/llama", layout("dynamic"))
    with pytest.raises(EngineError) as refused:
        played.session.prefill(column(7, rows=2, position=0))
    assert str(refused.value) == "prefill: 2 rows fed, the session has 3\n  help: feed every row"


def test_positions_that_bloom_would_not_count_are_refused(
    engine: Callable[..., Any], layout: Callable[..., Any], column: Callable[..., Batch]
) -> None:
    session = engine("new/bloom").open(layout("dynamic", rows=1))
    with pytest.raises(EngineError) as refused:
        session.prefill(column(7, rows=1, position=5))
    assert str(refused.value) == (
        "prefill: BloomForCausalLM counts unmasked slots itself, and the positions given differ\n"
        "  help: give each token the number of tokens before it"
    )


def test_positions_beyond_a_learned_table_are_refused(
    engine: Callable[..., Any], layout: Callable[..., Any], column: Callable[..., Batch]
) -> None:
    session = engine("new/gpt2").open(layout("dynamic", rows=1))
    with pytest.raises(EngineError, match="prefill: GPT2LMHeadModel failed: index out of range in self"):
        session.prefill(column(7, rows=1, position=512))


def test_an_unknown_cache_kind_is_refused(engine: Callable[..., Any], layout: Callable[..., Any]) -> None:
    with pytest.raises(EngineError) as refused:
        engine("new/llama").open(layout("ring"))
    assert str(refused.value) == "open: no cache kind 'ring'\n  help: known are dynamic, static, quantised"
