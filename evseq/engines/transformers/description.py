"""What a configuration says about a decoder, or why evseq cannot judge it. No weights are read."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import replace

from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import get_layer_types_and_kwargs

from evseq.engines.transformers import quantised
from evseq.engines.transformers.caches import DYNAMIC, STATIC
from evseq.errors import TargetError
from evseq.geometry import (
    Capability,
    Deciding,
    Description,
    Dtype,
    Geometry,
    Layer,
    PositionRule,
    WindowCounts,
)

__all__ = ["ATTENTIONS", "causal_class", "describe"]

ATTENTIONS = ("sdpa", "eager")
"""The attention kernels with an arm of their own, the library's default first."""

LEAST_WINDOW = 2
"""A window of the query and one token more; a narrower one leaves nothing to attend to."""

COUNT_MASK = frozenset({"bloom", "opt"})
"""Model types that number tokens by summing the mask; the others take the slot, counted by the cache."""

ATTENDING = frozenset({"full_attention", "sliding_attention", "chunked_attention", "global"})
"""Layer types whose cache is keys and values, one slot per column, and whose window the configuration tells."""

CONVOLVING = frozenset({"conv"})
"""Layer types whose cache is the last columns of a short convolution: a state that can be recorded and cut."""

RECURRENT = CONVOLVING | {"linear_attention"}
"""Layer types that cache a state and nothing else."""

HYBRID = frozenset({"hybrid", "hybrid_sliding"})
"""Layer types that cache both."""

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""How configurations say that a router chooses among experts."""

OWN_CACHE = frozenset({"minimax"})
"""Model types whose forward takes no cache but one of a class of its own."""

UNMASKABLE = frozenset({Capability.TRAILING, Capability.HOLES, Capability.RAGGED})
"""What recurrent layers cannot do: the library multiplies masked columns by zero, and a zero still moves a state that
tokens are in; of a column fed alone it does not look at the mask at all."""


def causal_class(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """Return the causal language model of `config`. Raise `TargetError` where transformers has none."""
    found: object = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    if not isinstance(found, type) or not issubclass(found, PreTrainedModel):
        raise TargetError(
            f"{config.model_type}: transformers has no causal language model of this type\n"
            "  help: name a decoder, such as llama or gpt2"
        )
    return found


def describe(
    config: PreTrainedConfig,
    model: type[PreTrainedModel],
    *,
    text: bool,
    fresh: bool,
    attention: str | None = None,
) -> Description:
    """Describe the decoder `config` stands for.

    `attention` fixes the kernel; `text` and `fresh` say whether there is a tokenizer and whether another process can
    open the target. Raise `TargetError` for a decoder that cannot be replayed right, and for a kernel it does not have.
    """
    decoder = config.get_text_config(decoder=True)
    types, sizes = get_layer_types_and_kwargs(decoder)
    _refuse(config, model, set(types) | set(getattr(decoder, "attention_layers", ())))
    layers = tuple(
        _layer(word, layer, size) for word, layer, size in zip(types, decoder.per_layer_config, sizes, strict=True)
    )
    kernels = ATTENTIONS if model._supports_sdpa else ("eager",)
    if attention is not None and attention not in kernels:
        raise TargetError(
            f"attention={attention}: {model.__name__} has {', '.join(kernels)}\n  help: choose one of these"
        )
    stateful = any(layer.recurrent for layer in layers)
    routed = any((getattr(decoder, name, None) or 0) > 1 for name in EXPERTS)
    absent = quantised.missing(layers, routed=routed)
    static = replace(STATIC, crops=False) if stateful else STATIC
    optional = {
        Capability.TEXT: text,
        Capability.FRESH: fresh,
        Capability.POOL: False,  # nothing outlives its session
        Capability.CROP: not stateful or set(types) <= ATTENDING | CONVOLVING,
        **dict.fromkeys(UNMASKABLE, not stateful),
    }
    return Description(
        geometry=Geometry(
            layers=layers,
            vocab=decoder.vocab_size,
            position_rule=PositionRule.MASK if _counts_mask(decoder) else PositionRule.SLOT,
            window_counts=WindowCounts.SLOTS,
            max_positions=_table_size(decoder, model),
            routed=routed,
        ),
        capabilities=frozenset(word for word in Capability if optional.get(word, True)),
        caches=(
            DYNAMIC,
            *([static] if model._can_compile_fullgraph else []),
            *([quantised.kind_of(layers)] if absent is None else []),
        ),
        absent=() if absent is None else ((quantised.NAME, absent),),
        dtypes=(Dtype.FLOAT64, Dtype.FLOAT32, Dtype.BFLOAT16),
        deciding=Deciding.PURE,
        options={"attention": (attention,) if attention else kernels},
        alterable=tuple(_alterable(layers, kernels=kernels, text=text, quantises=absent is None)),
    )


def _alterable(layers: tuple[Layer, ...], *, kernels: tuple[str, ...], text: bool, quantises: bool) -> Iterator[str]:
    """Yield the identity fields that are changed for real on a live model."""
    yield from ("model.config", "weights.live", "model.adapters", "numeric.dtype", "cache.length")
    if text:
        yield from (f"tokenizer.{part}" for part in ("vocabulary", "merges", "special", "normaliser", "template"))
    if len(kernels) > 1:
        yield "numeric.attention"
    if quantises:
        yield "cache.quantisation"
    if any(layer.window is not None and layer.window > LEAST_WINDOW for layer in layers):
        yield "window.policy"


def _refuse(config: PreTrainedConfig, model: type[PreTrainedModel], types: set[str]) -> None:
    """Raise `TargetError` for what cannot be replayed right, before a weight is read."""
    strange = sorted(types - ATTENDING - RECURRENT - HYBRID)
    reason = None
    if config.is_encoder_decoder:
        reason = "it has an encoder, evseq replays decoders"
    elif strange:
        known = "full, sliding and chunked attention and recurrent layers"
        reason = f"it has layers of type {', '.join(strange)}; evseq knows {known}"
    elif getattr(config.get_text_config(decoder=True), "kv_lora_rank", None) is not None:
        reason = "its keys and values are compressed (multi-head latent attention), of another shape than its heads"
    elif config.model_type in OWN_CACHE:
        reason = "its forward takes no cache but one of a class of its own"
    elif getattr(config, "quantization_config", None) is not None:
        reason = "its weights are quantised, there is nothing to compute the truth from"
    elif "position_ids" not in _words(model) and not _counts_mask(config):
        reason = "its forward takes no position_ids, and how it numbers tokens is not known"
    if reason:
        raise TargetError(f"{config.model_type}: {reason}\n  help: name another decoder")


def _layer(word: str, layer: PreTrainedConfig, size: Mapping[str, int]) -> Layer:
    recurrent = word in RECURRENT or word in HYBRID
    if word in RECURRENT:
        return Layer(kv_heads=0, head_dim=0, recurrent=True)
    return Layer(
        kv_heads=_kv_heads(layer),
        head_dim=getattr(layer, "head_dim", None) or layer.hidden_size // layer.num_attention_heads,
        window=size.get("sliding_window"),
        chunked=word == "chunked_attention",
        recurrent=recurrent,
    )


def _words(model: type[PreTrainedModel]) -> frozenset[str]:
    return frozenset(inspect.signature(model.forward).parameters)


def _counts_mask(config: PreTrainedConfig) -> bool:
    return config.model_type in COUNT_MASK or getattr(config, "alibi", False) is True


def _kv_heads(layer: PreTrainedConfig) -> int:
    """Return how many heads of keys and values are cached; configurations say it in three ways."""
    if getattr(layer, "new_decoder_architecture", False):
        return int(layer.num_attention_heads)  # Falcon repeats its groups before it caches them
    if getattr(layer, "multi_query", False):
        return 1
    return int(getattr(layer, "num_key_value_heads", None) or layer.num_attention_heads)


def _table_size(config: PreTrainedConfig, model: type[PreTrainedModel]) -> int | None:
    """Return how many positions have an embedding of their own; rotary and ALiBi ones go on for ever."""
    endless = getattr(config, "rope_parameters", None) is not None or getattr(config, "alibi", False) is True
    if endless or "position_ids" not in _words(model):
        return None
    return getattr(config, "max_position_embeddings", None)
