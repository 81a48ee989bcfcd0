"""Geometry from a configuration, no weights; and decoders evseq does not judge."""

from __future__ import annotations

import pytest
from transformers import AutoConfig, LlamaConfig, LlamaForCausalLM

from evseq.engines.transformers import loader
from evseq.engines.transformers.description import causal_class, describe
from evseq.errors import TargetError
from evseq.geometry import Capability, Deciding, Layer, PositionRule, WindowCounts


@pytest.mark.parametrize(
    ("target", "layers"),
    [
        ("new/llama", (Layer(kv_heads=2, head_dim=16),) * 2),
        ("new/mistral?sliding_window=5&num_hidden_layers=3", (Layer(kv_heads=2, head_dim=16, window=5),) * 3),
        (
            "new/gemma3_text?num_hidden_layers=3",
            (
                Layer(kv_heads=2, head_dim=32, window=8),
                Layer(kv_heads=2, head_dim=32),
                Layer(kv_heads=2, head_dim=32, window=8),
            ),
        ),
        ("new/gpt2", (Layer(kv_heads=4, head_dim=16),) * 2),
        ("new/falcon", (Layer(kv_heads=1, head_dim=16),) * 2),
        (
            "new/llama4_text?attention_chunk_size=6",
            (Layer(kv_heads=2, head_dim=16, window=6, chunked=True), Layer(kv_heads=2, head_dim=16)),
        ),
        ("new/lfm2", (Layer(kv_heads=0, head_dim=0, recurrent=True), Layer(kv_heads=2, head_dim=16))),
        ("new/falcon_h1", (Layer(kv_heads=2, head_dim=16, recurrent=True),) * 2),
    ],
)
def test_layers_are_read_from_the_configuration(target: str, layers: tuple[Layer, ...]) -> None:
    assert loader(target).describe().geometry.layers == layers


@pytest.mark.parametrize(
    ("target", "rule", "positions"),
    [
        ("new/llama", PositionRule.SLOT, None),
        ("new/gpt2", PositionRule.SLOT, 512),
        ("new/bloom", PositionRule.MASK, None),
        ("new/opt", PositionRule.MASK, 512),
        ("new/falcon?alibi=true", PositionRule.MASK, None),
    ],
)
def test_how_tokens_are_numbered_and_how_far(target: str, rule: PositionRule, positions: int | None) -> None:
    geometry = loader(target).describe().geometry
    assert (geometry.position_rule, geometry.max_positions) == (rule, positions)
    assert geometry.window_counts is WindowCounts.SLOTS


def test_a_new_model_can_all_but_text_and_a_pool() -> None:
    description = loader("new/llama").describe()
    assert frozenset(Capability) - description.capabilities == {Capability.TEXT, Capability.POOL}
    assert description.deciding is Deciding.PURE
    assert [kind.name for kind in description.exact] == ["dynamic", "static"]
    assert description.options == {"attention": ("sdpa", "eager")}


@pytest.mark.parametrize(
    ("target", "cannot"),
    [
        ("new/lfm2", {Capability.TRAILING, Capability.HOLES, Capability.RAGGED}),
        ("new/qwen3_next", {Capability.TRAILING, Capability.HOLES, Capability.RAGGED, Capability.CROP}),
    ],
)
def test_a_recurrent_state_takes_no_masked_column_and_gives_back_no_token(target: str, cannot: set[Capability]) -> None:
    description = loader(target).describe()
    assert frozenset(Capability) - description.capabilities == {Capability.TEXT, Capability.POOL} | cannot
    assert [(kind.name, kind.crops) for kind in description.exact] == [("dynamic", True), ("static", False)]


def test_experts_that_a_router_chooses_are_told() -> None:
    assert loader("new/mixtral").describe().geometry.routed
    assert not loader("new/llama").describe().geometry.routed


def test_a_model_without_sdpa_offers_eager_alone() -> None:
    assert loader("new/bloom").describe().options == {"attention": ("eager",)}


def test_a_kernel_fixed_in_the_target_is_the_only_one() -> None:
    assert loader("new/llama?attention=eager").describe().options == {"attention": ("eager",)}


def test_a_kernel_the_model_lacks_is_refused() -> None:
    with pytest.raises(TargetError) as refused:
        loader("new/bloom?attention=sdpa").describe()
    assert str(refused.value) == "attention=sdpa: BloomForCausalLM has eager\n  help: choose one of these"


@pytest.mark.parametrize(
    ("model_type", "reason"),
    [
        ("mamba", "its forward takes no position_ids, and how it numbers tokens is not known"),
        (
            "gpt_neo",
            "it has layers of type local; evseq knows full, sliding and chunked attention and recurrent layers",
        ),
        ("mpt", "its forward takes no position_ids, and how it numbers tokens is not known"),
        (
            "deepseek_v3",
            "its keys and values are compressed (multi-head latent attention), of another shape than its heads",
        ),
        ("minimax", "its forward takes no cache but one of a class of its own"),
        ("marian", "it has an encoder, evseq replays decoders"),
    ],
)
def test_a_decoder_evseq_cannot_judge_is_refused_with_the_reason(model_type: str, reason: str) -> None:
    config = AutoConfig.for_model(model_type)
    with pytest.raises(TargetError) as refused:
        describe(config, causal_class(config), text=False, fresh=True)
    assert str(refused.value) == f"{model_type}: {reason}\n  help: name another decoder"


def test_quantised_weights_are_refused() -> None:
    config = LlamaConfig()
    config.quantization_config = {"quant_method": "gptq", "bits": 4}
    with pytest.raises(TargetError) as refused:
        describe(config, LlamaForCausalLM, text=False, fresh=True)
    assert str(refused.value) == (
        "llama: its weights are quantised, there is nothing to compute the truth from\n  help: name another decoder"
    )


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "new/lama",
            (
                "new/lama: no such model type\n"
                "  help: did you mean 'llama'? known are llama, mistral, gemma3_text, gpt2, gpt_neox, bloom, qwen3, "
                "phi3, llama4_text, gpt_oss, mixtral, lfm2, falcon_h1, qwen3_next and others"
            ),
        ),
        (
            "new/mistral?slidin_window=8",
            "new/mistral: its configuration has no 'slidin_window'\n  help: did you mean 'sliding_window'?",
        ),
        ("new/llama?num_hidden_layers=0", "new/llama: num_hidden_layers is 0\n  help: give it 1 or more"),
        ("new/llama?vocab_size=0", "new/llama: vocab_size is 0\n  help: give it 1 or more"),
        (
            "new/mistral?sliding_window=1",
            (
                "new/mistral: sliding_window is 1; of a window of 1 the library's dynamic cache keeps every slot\n"
                "  help: give it 2 or more"
            ),
        ),
        (
            "new/t5",
            "t5: transformers has no causal language model of this type\n  help: name a decoder, such as llama or gpt2",
        ),
    ],
)
def test_a_new_model_that_cannot_be_is_refused(target: str, message: str) -> None:
    with pytest.raises(TargetError) as refused:
        loader(target).describe()
    assert str(refused.value) == message
