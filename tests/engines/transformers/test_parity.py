"""Every kind of cache, kernel and padding against the uncached forward, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from transformers import masking_utils
from transformers.cache_utils import CacheLayerMixin, DynamicSlidingWindowLayer

from evseq.engines.transformers import configurations, loader
from evseq.engines.transformers import engine as engine_module
from evseq.geometry import Dtype, Positions

EXACT = 1e-13
"""Logits are around 5; healthy runs stay below 2e-14."""

DESCRIBED = {target: loader(target).describe() for target in configurations()}

ATTENDING = [target for target, described in DESCRIBED.items() if not described.geometry.recurrent]
"""Targets without a recurrent layer, which takes no masked column behind a token."""

WHERE = [(target, kernel) for target in ATTENDING for kernel in DESCRIBED[target].options["attention"]]


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize(("target", "attention"), WHERE)
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(("xxxxxxxxxxx", ".......xxxx", "..xxxxxxxxx"), id="left"),
        pytest.param(("xxxxxxxxxxx", "xxxx.......", "xxxxxxxxx.."), id="right"),
        pytest.param(("xx.xxx.xxxxx", "x...x...xx..", "xxxxx...xxxx"), id="holes"),
    ],
)
def test_every_step_equals_the_uncached_forward(
    replay: Callable[..., Any],
    layout: Callable[..., Any],
    target: str,
    attention: str,
    kind: str,
    lines: tuple[str, ...],
) -> None:
    played = replay(target, layout(kind), attention=attention)
    played.feed(*(line[:5] for line in lines))
    played.feed(*(line[5:] for line in lines))
    played.feed("x", "x", "x")
    played.feed("xxx", ".xx", "xx.")
    played.select(2, 0, 0, 1)
    played.feed("x", "x", ".", "x")
    played.select(3, 1)
    played.feed("x", "x")
    assert played.worst <= EXACT


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("target", ATTENDING)
def test_positions_left_to_the_model_are_those_its_rule_says(
    replay: Callable[..., Any], layout: Callable[..., Any], target: str, kind: str
) -> None:
    played = replay(target, layout(kind, positions=Positions.ENGINE))
    played.feed("xxx.xxxxxx", "....xxx.xx", "xxxxxxx...")
    played.feed("x", ".", "x")
    played.feed("xx", "xx", "xx")
    assert played.worst <= EXACT


@pytest.mark.parametrize("target", ATTENDING)
def test_rows_cropped_past_the_window_and_once_more_go_on(
    replay: Callable[..., Any], layout: Callable[..., Any], target: str
) -> None:
    played = replay(target, layout("dynamic", depth=9))
    played.feed("xxxxxxxxxxxxx", "....xxxxxxxxx", "xxxxxxxx.....")
    played.crop(11, 9, 8)
    played.crop(6, 2, 5)
    played.feed("x", "x", "x")
    played.feed("xxxxx", "xxxxx", "xxxxx")
    assert played.worst <= EXACT


@pytest.mark.parametrize("target", ATTENDING)
def test_a_static_cache_cropped_within_the_window_goes_on(
    replay: Callable[..., Any], layout: Callable[..., Any], target: str
) -> None:
    played = replay(target, layout("static", depth=4))
    played.feed("xxxxxxxx", "...xxxxx", "xxxxxxx.")
    played.crop(5, 4, 4)
    played.feed("xxxxxx", "xxxxxx", "xxxxxx")
    assert played.worst <= EXACT


@pytest.mark.parametrize("dtype", [Dtype.FLOAT32, Dtype.BFLOAT16])
@pytest.mark.parametrize("target", ATTENDING)
def test_masked_columns_make_no_logit_infinite_in_low_precision(
    replay: Callable[..., Any], layout: Callable[..., Any], target: str, dtype: Dtype
) -> None:
    played = replay(target, layout("dynamic"), dtype=dtype)
    played.feed("xxxxxx", "....xx", "..xxxx")
    played.feed("x", "x", "x")
    assert played.worst < 1.0


def test_a_model_without_true_double_is_seen(
    replay: Callable[..., Any], layout: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "TrueDouble", nullcontext)
    played = replay("new/llama", layout("dynamic"))
    played.feed("xxxxxx", "....xx", "..xxxx")
    assert played.worst == float("inf")


def test_a_selection_that_forgets_the_values_is_seen(
    replay: Callable[..., Any], layout: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def keys_only(layer: Any, index: torch.Tensor) -> None:
        layer.keys = layer.keys[index]

    monkeypatch.setattr(CacheLayerMixin, "reorder_cache", keys_only)
    played = replay("new/llama", layout("dynamic"))
    played.feed("xxxxxx", "....xx", "..xxxx")
    played.select(2, 1, 0)
    played.feed("x", "x", "x")
    assert played.worst > 0.1


def test_chunks_that_are_counted_from_the_first_slot_are_seen(
    replay: Callable[..., Any], layout: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def from_slot(size: int, _: torch.Tensor) -> Any:
        return lambda _row, _head, query, key: (key // size == query // size) & (key <= query)

    played = replay("new/llama4_text", layout("dynamic"))
    with monkeypatch.context() as broken:
        broken.setattr(masking_utils, "chunked_causal_mask_function", from_slot)
        played.feed("xxxxxxxx", "...xxxxx", "xxxxxxxx")
        played.feed("x", "x", "x")
    assert played.worst > 0.01


def test_a_sliding_layer_that_keeps_one_slot_too_few_is_seen(
    replay: Callable[..., Any], layout: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = DynamicSlidingWindowLayer.update

    def forgetful(layer: Any, *states: Any, **words: Any) -> Any:
        full = healthy(layer, *states, **words)
        layer.keys = torch.cat((torch.zeros_like(layer.keys[:, :, :1]), layer.keys[:, :, 1:]), dim=2)
        return full

    monkeypatch.setattr(DynamicSlidingWindowLayer, "update", forgetful)
    played = replay("new/mistral", layout("dynamic"))
    played.feed("xxxxxxxxxx", "xxxxxxxxxx", "xxxxxxxxxx")
    played.feed("x", "x", "x")
    assert played.worst > 0.01
