"""Identity fields follow the live model and tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from evseq.cache.identity import FIELDS, Difference, Identity, Part, compare
from evseq.engines.transformers import ModelLoader
from evseq.engines.transformers.newborn import build, configure
from evseq.geometry import Dtype


@pytest.fixture
def live(tokenizer: Callable[..., Any]) -> Any:
    model = build(configure("llama", {}))
    return ModelLoader(model, tokenizer(("a", "b"), ("ab", "c"))).load(Dtype.FLOAT32, {"attention": "sdpa"})


def differences(before: Mapping[str, Any], engine: Any) -> list[Difference]:
    found = compare(Identity(values=before), Identity(values=engine.identity()))
    return [one for one in found if FIELDS[one.field].part is Part.MODEL]


def differing(before: Mapping[str, Any], engine: Any) -> list[str]:
    return [one.field for one in differences(before, engine)]


def test_every_field_of_the_model_is_there(live: Any) -> None:
    assert set(live.identity()) == {name for name, field in FIELDS.items() if field.part is Part.MODEL}


def test_nothing_differs_while_nothing_is_done(live: Any) -> None:
    assert differing(live.identity(), live) == []


def test_a_weight_written_behind_the_library_shows_by_name(live: Any) -> None:
    before = live.identity()
    live.model.model.norm.weight.data.numpy()[3] += 1e-3
    (difference,) = differences(before, live)
    assert (difference.field, difference.key) == ("weights.live", "model.norm.weight")


def test_rotary_frequencies_show(live: Any) -> None:
    before = live.identity()
    live.model.model.rotary_emb.inv_freq[0] *= 1.01
    assert differing(before, live) == ["weights.live"]


def test_a_setting_of_a_live_module_shows(live: Any) -> None:
    before = live.identity()
    live.model.model.layers[1].self_attn.scaling *= 2
    assert differing(before, live) == ["model.config"]


def test_a_setting_of_the_live_configuration_shows(live: Any) -> None:
    before = live.identity()
    live.model.config.rope_parameters = {"rope_type": "default", "rope_theta": 5000.0}
    assert differing(before, live) == ["model.config"]


def test_another_kernel_shows(live: Any) -> None:
    before = live.identity()
    live.model.set_attn_implementation("eager")
    assert differing(before, live) == ["numeric.attention"]


def test_another_dtype_shows(live: Any) -> None:
    before = live.identity()
    live.model.model.norm.weight.data = live.model.model.norm.weight.data.double()
    assert differing(before, live) == ["weights.live", "numeric.dtype"]


def test_an_adapter_shows_with_its_scale(live: Any) -> None:
    before = live.identity()
    adapter: Any = nn.Identity()
    adapter.active_adapters, adapter.scaling = ["style"], {"style": 0.5}
    live.model.model.layers[0].mlp.adapter = adapter
    assert live.identity()["model.adapters"] == [["model.layers.0.mlp.adapter", "style", 0.5]]
    assert differing(before, live) == ["model.adapters"]


def test_a_merge_taken_out_shows(live: Any, tokenizer: Callable[..., Any]) -> None:
    before = live.identity()
    live.tokenizer._tokenizer.model = tokenizer(("a", "b")).backend_tokenizer.model
    assert differing(before, live) == ["tokenizer.merges"]


def test_a_token_more_shows(live: Any) -> None:
    before = live.identity()
    live.tokenizer.add_tokens(["d"])
    assert differing(before, live) == ["tokenizer.vocabulary", "tokenizer.special"]


def test_another_special_token_shows(live: Any) -> None:
    before = live.identity()
    live.tokenizer.add_special_tokens({"bos_token": "a"})
    assert "tokenizer.special" in differing(before, live)


def test_another_template_shows(live: Any) -> None:
    before = live.identity()
    live.tokenizer.chat_template = "{{ messages }}"
    assert differing(before, live) == ["tokenizer.template"]


def test_no_field_tells_where_a_model_lies() -> None:
    model: PreTrainedModel = build(configure("llama", {}))
    model.config._name_or_path = "/somewhere/else"
    assert "somewhere" not in str(ModelLoader(model).load(Dtype.FLOAT32, {}).identity())


def test_without_a_tokenizer_its_fields_are_none() -> None:
    identity = ModelLoader(build(configure("llama", {}))).load(Dtype.FLOAT32, {}).identity()
    assert [identity[name] for name in identity if name.startswith("tokenizer.")] == [None] * 5


def test_a_running_average_is_part_of_the_source() -> None:
    model = build(configure("llama", {}))
    model.model.register_buffer("mean", torch.ones(2))
    with_mean = ModelLoader(model).load(Dtype.FLOAT32, {}).identity()["weights.source"]
    model.model.mean += 1
    assert ModelLoader(model).load(Dtype.FLOAT32, {}).identity()["weights.source"] != with_mean
