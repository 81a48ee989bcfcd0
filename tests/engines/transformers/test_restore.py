"""Export and restore: the whole cache, or a refusal that names the attribute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch
from evseq.errors import EngineError

KINDS = ["dynamic", "static"]
TARGETS = ["new/gpt2", "new/mistral", "new/gemma3_text"]


def with_tensors(state: CacheState, **changed: torch.Tensor | None) -> CacheState:
    tensors = {**state.tensors, **{name.replace("__", "."): tensor for name, tensor in changed.items()}}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    return CacheState(kind=state.kind, tensors=kept, scalars=state.scalars)


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
