"""Folders, new models and models in memory: the same content, and the caller's model left alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from evseq.cache.content import tensor_digest
from evseq.engines.transformers import ModelLoader, loader
from evseq.engines.transformers.newborn import build, configure
from evseq.errors import EngineError, TargetError
from evseq.geometry import Capability, Dtype
from evseq.history import Path as History

HISTORY = History(tokens=(5, 80, 200, 9), positions=(0, 1, 2, 3))


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return build(configure("gemma3_text", {}))


@pytest.fixture(scope="module")
def folder(model: PreTrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("model")
    model.save_pretrained(made)
    return made


def digests(model: PreTrainedModel) -> dict[str, str]:
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: tensor_digest(tensor) for name, tensor in named.items()}


@pytest.mark.parametrize("dtype", [Dtype.FLOAT64, Dtype.FLOAT32, Dtype.BFLOAT16])
def test_a_saved_model_is_the_one_in_memory(model: PreTrainedModel, folder: Path, dtype: Dtype) -> None:
    saved, held = loader(str(folder)).load(dtype, {}), ModelLoader(model).load(dtype, {})
    assert saved.identity()["weights.source"] == held.identity()["weights.source"]
    assert torch.equal(saved.uncached(HISTORY), held.uncached(HISTORY))
    assert saved.dtype is held.dtype is dtype


def test_the_source_is_the_same_in_every_dtype_and_what_runs_is_not(model: PreTrainedModel) -> None:
    wide, narrow = (ModelLoader(model).load(dtype, {}).identity() for dtype in (Dtype.FLOAT64, Dtype.BFLOAT16))
    assert wide["weights.source"] == narrow["weights.source"]
    assert wide["weights.live"] != narrow["weights.live"]


def test_the_caller_finds_the_model_as_it_was() -> None:
    model = build(configure("gemma3_text", {})).train()
    before = digests(model)
    engine = ModelLoader(model).load(Dtype.FLOAT64, {"attention": "eager"})
    engine.uncached(HISTORY)
    assert digests(model) == before
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    assert all(weight.requires_grad for weight in model.parameters())
    assert not model.get_input_embeddings()._forward_hooks


def test_what_the_caller_did_to_the_model_is_kept() -> None:
    model = build(configure("llama", {}))
    healthy = ModelLoader(model).load(Dtype.FLOAT64, {}).uncached(HISTORY)
    model.model.rotary_emb.inv_freq.mul_(0.5)
    assert (ModelLoader(model).load(Dtype.FLOAT64, {}).uncached(HISTORY) - healthy).abs().max() > 0.01


def test_a_model_in_memory_cannot_be_opened_elsewhere(model: PreTrainedModel) -> None:
    assert Capability.FRESH not in ModelLoader(model).describe().capabilities


def test_the_kernel_a_model_in_memory_has_is_its_default() -> None:
    model = build(configure("llama", {}))
    model.set_attn_implementation("eager")
    assert ModelLoader(model).describe().options == {"attention": ("eager", "sdpa")}


def test_a_new_model_is_the_same_in_every_process() -> None:
    code = "from evseq.engines.transformers import loader; from evseq.geometry import Dtype; print(loader("
    code += "'new/gpt2').load(Dtype.FLOAT32, {}).identity()['weights.source'])"
    elsewhere = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert elsewhere.stdout.strip() == loader("new/gpt2").load(Dtype.FLOAT32, {}).identity()["weights.source"]


def test_building_a_model_leaves_the_random_state_alone() -> None:
    before = torch.get_rng_state()
    build(configure("llama", {}))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", ["gpt_oss", "qwen3_next"])
def test_what_a_class_draws_itself_is_the_same_whatever_was_drawn_before(name: str) -> None:
    first = digests(build(configure(name, {})))
    torch.rand(1)

    assert digests(build(configure(name, {}))) == first


def test_new_weights_are_wide_norms_near_one_and_no_bias_zero() -> None:
    weights = build(configure("gpt_neox", {})).state_dict()
    assert 0.14 < float(weights["gpt_neox.layers.0.attention.query_key_value.weight"].std()) < 0.16
    assert 0.5 < float(weights["gpt_neox.layers.0.input_layernorm.weight"].min()) < 0.9
    assert not bool((weights["gpt_neox.layers.0.attention.dense.bias"] == 0).any())


def test_text_needs_a_tokenizer(model: PreTrainedModel, tokenizer: Callable[..., Any], tmp_path: Path) -> None:
    bare = ModelLoader(model)
    assert Capability.TEXT not in bare.describe().capabilities
    with pytest.raises(EngineError) as refused:
        bare.tokenize("abc")
    assert str(refused.value) == (
        "tokenize: this target has no tokenizer\n  help: give rows as ids, or pass a tokenizer"
    )
    model.save_pretrained(tmp_path)
    tokenizer(("a", "b"), ("ab", "c")).save_pretrained(tmp_path)
    assert Capability.TEXT in loader(str(tmp_path)).describe().capabilities
    assert loader(str(tmp_path)).tokenize("abc ab") == (5, 4)
    assert loader(str(tmp_path)).load(Dtype.FLOAT32, {}).tokenize("abc ab") == (5, 4)


def test_weights_that_are_not_there_are_not_made_up(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(TargetError) as refused:
        loader(str(tmp_path)).load(Dtype.FLOAT32, {})
    assert str(refused.value) == (
        f"transformers:{tmp_path}: model.norm.weight is not in the weights, or of another shape (1 in all)\n"
        "  help: save the model again; made-up weights are not judged"
    )


def test_a_folder_without_safetensors_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    with pytest.raises(TargetError) as refused:
        loader(str(tmp_path)).load(Dtype.FLOAT32, {})
    assert str(refused.value) == (
        f"transformers:{tmp_path}: no model.safetensors\n  help: save the model with save_pretrained"
    )


def test_a_damaged_file_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(TargetError, match=r"model\.safetensors: Error while deserializing header"):
        loader(str(tmp_path)).load(Dtype.FLOAT32, {})


def test_a_folder_without_a_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"help: the folder needs a config\.json"):
        loader(str(tmp_path)).describe()


def test_a_kernel_the_description_does_not_offer_is_refused(model: PreTrainedModel) -> None:
    with pytest.raises(TargetError) as refused:
        ModelLoader(model).load(Dtype.FLOAT32, {"attention": "flex_attention"})
    assert str(refused.value) == "attention=flex_attention: not one of sdpa, eager\n  help: choose one of these"
