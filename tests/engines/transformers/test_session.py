"""What a session does between forwards: copy, cut, put back, count, refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch
from evseq.engines.transformers.caches import crop
from evseq.errors import EngineError
from evseq.geometry import Positions

KINDS = ["dynamic", "static"]
TARGETS = ["new/gpt2", "new/mistral", "new/gemma3_text"]


def with_tensors(state: CacheState, **changed: torch.Tensor | None) -> CacheState:
    tensors = {**state.tensors, **{name.replace("__", "."): tensor for name, tensor in changed.items()}}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    return CacheState(kind=state.kind, tensors=kept, scalars=state.scalars)


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


@pytest.mark.parametrize("depth", [0, 4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_restored_session_goes_on_bit_for_bit_without_a_forward(
    replay: Callable[..., Any],
    engine: Callable[..., Any],
    layout: Callable[..., Any],
    column: Callable[..., Batch],
    target: str,
    kind: str,
    depth: int,
) -> None:
    played = replay(target, layout(kind, depth=depth))
    played.feed("xxxxxxxxxxx", "xxxxxxxxxxx", "..xxxxxxxxx")
    state = played.session.export()
    forwarded = engine(target).forwarded
    restored = engine(target).open(layout(kind, depth=depth))
    restored.restore(state)
    assert engine(target).forwarded == forwarded
    assert restored.probe() == played.session.probe()
    actual = restored.append(column(7, rows=3, position=11))
    assert torch.equal(actual, played.session.append(column(7, rows=3, position=11)))


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_is_not_moved_by_later_steps(
    replay: Callable[..., Any], layout: Callable[..., Any], kind: str
) -> None:
    played = replay("new/mistral", layout(kind))
    played.feed("xxxxxxxxxxx", "xxxxxxxxxxx", "..xxxxxxxxx")
    state = played.session.export()
    before = {name: tensor.clone() for name, tensor in state.tensors.items()}
    played.feed("x", "x", "x")
    assert all(torch.equal(tensor, before[name]) for name, tensor in state.tensors.items())


def test_an_export_holds_what_a_sliding_layer_counts(replay: Callable[..., Any], layout: Callable[..., Any]) -> None:
    played = replay("new/mistral", layout("dynamic", rows=1))
    played.feed("xxxxxxxxxxx")
    scalars = played.session.export().scalars
    assert scalars["layer.0.class"] == "DynamicSlidingWindowLayer"
    assert scalars["layer.0.cumulative_length"] == 11
    assert scalars["layer.0.sliding_window"] == 8


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
    monkeypatch.setattr("evseq.engines.transformers.caches._check_crop", lambda layer, columns, number: None)
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
        crop(played.session.cache, 2)
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
    assert str(refused.value) == "open: no cache kind 'ring'\n  help: known are dynamic, static"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"layer__1__values": None},
            "restore: layer.1.values is missing\n  help: restore an export of the same model and cache kind",
            id="missing",
        ),
        pytest.param(
            {"layer__1__states": torch.zeros(1)},
            "restore: layer.1.states is unknown\n  help: restore an export of the same model and cache kind",
            id="unknown",
        ),
        pytest.param(
            {"layer__2__keys": torch.zeros(1)},
            "restore: layer.2.keys is unknown\n  help: restore an export of the same model and cache kind",
            id="one layer more",
        ),
        pytest.param(
            {"layer__0__keys": torch.zeros((1, 2, 7, 16))},
            "restore: layer.0.keys is torch.float32 (1, 2, 7, 16), this session needs torch.float64 (1, 2, 7, 16)\n"
            "  help: open the session with the layout and dtype of the exported one",
            id="other dtype",
        ),
        pytest.param(
            {"layer__0__keys": torch.zeros((1, 2, 6, 16), dtype=torch.float64)},
            "restore: layer.0.keys is 6 slots, this session needs at least 7, at most 11\n"
            "  help: open the session with the layout and dtype of the exported one",
            id="too few slots",
        ),
        pytest.param(
            {"layer__0___sliding_window_tensor": torch.tensor(9)},
            "restore: layer.0._sliding_window_tensor is tensor(9), this session needs tensor(8)\n"
            "  help: open the session with the layout and dtype of the exported one",
            id="other window",
        ),
        pytest.param(
            {"mask": torch.ones((1, 10), dtype=torch.bool), "positions": torch.zeros((1, 10), dtype=torch.int64)},
            "restore: layer.0 is fed 11 columns, this session needs fed 10\n"
            "  help: open the session with the layout and dtype of the exported one",
            id="other length",
        ),
        pytest.param(
            {"mask": None},
            "restore: mask and positions are not one value per row and slot\n  help: export anew",
            id="no mask",
        ),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_nothing_is_taken(
    replay: Callable[..., Any],
    engine: Callable[..., Any],
    layout: Callable[..., Any],
    change: dict[str, torch.Tensor | None],
    message: str,
) -> None:
    played = replay("new/mistral", layout("dynamic", rows=1))
    played.feed("xxxxxxxxxxx")
    session = engine("new/mistral").open(layout("dynamic", rows=1))
    with pytest.raises(EngineError) as refused:
        session.restore(with_tensors(played.session.export(), **change))
    assert str(refused.value) == message
    assert session.probe().lengths == (0,)
    assert session.probe().cache_bytes == 0


def test_a_state_of_another_kind_is_refused(
    replay: Callable[..., Any], engine: Callable[..., Any], layout: Callable[..., Any]
) -> None:
    played = replay("new/llama", layout("static", rows=1))
    played.feed("xxx")
    with pytest.raises(EngineError) as refused:
        engine("new/llama").open(layout("dynamic", rows=1)).restore(played.session.export())
    assert str(refused.value) == (
        "restore: a 'static' cache does not fit a 'dynamic' one\n  help: open the session with cache 'static'"
    )


def test_a_static_state_of_another_capacity_is_refused(
    replay: Callable[..., Any], engine: Callable[..., Any], layout: Callable[..., Any]
) -> None:
    played = replay("new/llama", layout("static", rows=1, capacity=9))
    played.feed("xxx")
    with pytest.raises(EngineError) as refused:
        engine("new/llama").open(layout("static", rows=1, capacity=10)).restore(played.session.export())
    assert str(refused.value) == (
        "restore: layer.0.keys is torch.float64 (1, 2, 9, 16), this session needs torch.float64 (1, 2, 10, 16)\n"
        "  help: open the session with the layout and dtype of the exported one"
    )


def test_a_session_with_rows_is_not_restored_over(replay: Callable[..., Any], layout: Callable[..., Any]) -> None:
    played = replay("new/llama", layout("dynamic", rows=1))
    played.feed("xxx")
    with pytest.raises(EngineError) as refused:
        played.session.restore(played.session.export())
    assert str(refused.value) == (
        "restore: the session holds rows already\n  help: restore into a newly opened session"
    )
