"""New models: a tiny configuration of any causal type, with weights from a fixed seed in which faults show."""

# mypy: disable-error-code="no-untyped-call"
# Parts of transformers and torch have no types.

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import get_layer_types_and_kwargs

from evseq.cache.state import Scalar
from evseq.engines.transformers.description import causal_class
from evseq.engines.transformers.quiet import quiet
from evseq.errors import TargetError, nearest

__all__ = ["NAMES", "build", "configure"]

NAMES = (
    *("llama", "mistral", "gemma3_text", "gpt2", "gpt_neox", "bloom", "qwen3", "phi3"),
    *("llama4_text", "gpt_oss", "mixtral", "lfm2", "falcon_h1", "qwen3_next"),
)
"""Types with each way a decoder of today numbers, groups, windows, normalises, routes and keeps a state; any other
causal type works too."""

SPREAD = 0.15
"""Standard deviation of the weights. The library's own 0.02 hides seven of eight real cache bugs, this shows all."""

WINDOW = 8

LEAST_WINDOW = 2

TINY: dict[str, Scalar] = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rotary_dim": 8,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
"""Given to every configuration that has the key and lets it be set."""

MAMBA: dict[str, Scalar] = {"mamba_d_state": 8, "mamba_n_heads": 4, "mamba_d_head": 32, "mamba_chunk_size": 8}

EXPERTS: dict[str, Scalar] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}

SPECIAL: dict[str, dict[str, Scalar]] = {
    # A head wider than hidden_size / heads, as the released sizes have, and a scale that belongs to it.
    "gemma3_text": {"head_dim": 32, "query_pre_attn_scalar": 32},
    "llama4_text": {
        "attention_chunk_size": WINDOW,
        "no_rope_layer_interval": 2,
        "intermediate_size_mlp": 128,
        "num_local_experts": 2,
    },
    "lfm2": {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False},
    "bamba": {**MAMBA, "attn_layer_indices": [1]},
    "falcon_h1": {**MAMBA, "mamba_d_ssm": 128},
    "granitemoehybrid": {
        **MAMBA,
        "layer_types": ["linear_attention", "full_attention"],
        "num_local_experts": 4,
        "shared_intermediate_size": 64,
    },
    "qwen3_next": {
        **EXPERTS,
        "shared_expert_intermediate_size": 32,
        "layer_types": ["linear_attention", "full_attention"],
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
    },
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 4, "mamba_d_state": 8, "mamba_dt_rank": 4},
    "recurrent_gemma": {"block_types": ["recurrent", "attention"], "attention_window_size": WINDOW, "lru_width": 64},
    "mixtral": {"num_local_experts": 4},
    "qwen3_moe": EXPERTS,
    "olmoe": EXPERTS,
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2},
}


def configure(model_type: str, settings: Mapping[str, Scalar]) -> PreTrainedConfig:
    """Return the tiny configuration of `model_type` with `settings` on top. Raise `TargetError` for what it lacks."""
    if model_type not in CONFIG_MAPPING:
        hint = f"did you mean {close!r}? " if (close := nearest(model_type, CONFIG_MAPPING.keys())) else ""
        known = ", ".join(NAMES)
        raise TargetError(f"new/{model_type}: no such model type\n  help: {hint}known are {known} and others")
    with quiet():
        stock = AutoConfig.for_model(model_type)
        causal_class(stock)
        for key in settings:
            if not hasattr(stock, key):
                close = nearest(key, (name for name in stock.to_dict() if not name.startswith("_")))
                hint = f"did you mean {close!r}?" if close else "see the configuration class of this type"
                raise TargetError(f"new/{model_type}: its configuration has no {key!r}\n  help: {hint}")
        words: dict[str, Any] = {key: value for key, value in TINY.items() if _settable(stock, key)}
        words |= SPECIAL.get(model_type, {}) | _sliding(stock, settings) | dict(settings)
        try:
            config = AutoConfig.for_model(model_type, **words)
        except Exception as error:  # each configuration class checks its values with errors of its own
            raise TargetError(f"new/{model_type}: {error}\n  help: correct the settings of the target") from error
        _refuse_empty(config)
        return config


def _refuse_empty(config: PreTrainedConfig) -> None:
    """Raise `TargetError` for sizes that the library takes, and no decoder can be judged with."""
    for key in ("num_hidden_layers", "vocab_size"):
        if getattr(config, key) < 1:
            raise TargetError(f"new/{config.model_type}: {key} is {getattr(config, key)}\n  help: give it 1 or more")
    for layer in get_layer_types_and_kwargs(config)[1]:
        window = layer.get("sliding_window")
        if window is not None and window < LEAST_WINDOW:
            raise TargetError(
                f"new/{config.model_type}: sliding_window is {window}; of a window of 1 the library's dynamic cache "
                "keeps every slot\n"
                f"  help: give it {LEAST_WINDOW} or more"
            )


def _settable(stock: PreTrainedConfig, key: str) -> bool:
    computed = getattr(type(stock), key, None)
    return hasattr(stock, key) and not (isinstance(computed, property) and computed.fset is None)


def _sliding(stock: PreTrainedConfig, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return a small window where this type slides by default, and for mixed types layers of both kinds in turn."""
    types = get_layer_types_and_kwargs(stock)[0]
    if "sliding_attention" not in types:
        return {}
    words: dict[str, Scalar] = {"sliding_window": WINDOW}
    if "full_attention" in types:
        count = settings.get("num_hidden_layers", TINY["num_hidden_layers"])
        turns = ("sliding_attention", "full_attention")
        words["layer_types"] = [turns[index % 2] for index in range(count if isinstance(count, int) else 0)]
    return words


def build(config: PreTrainedConfig) -> PreTrainedModel:
    """Return a float32 model of `config` whose weights depend on nothing but their names and shapes.

    Matrices and tables are drawn anew. What is one-dimensional gets noise on the value its class begins with, so that
    norms stay near the identity and no bias is zero.
    """
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # some classes draw what is one-dimensional
        model: PreTrainedModel = causal_class(config)._from_config(config, dtype=torch.float32)
    for name, parameter in model.named_parameters():
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7])
        noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)) * SPREAD
        with torch.no_grad():
            parameter.copy_(noise if parameter.dim() > 1 else parameter + noise)
    return model
