"""Identity fields, read from the live model and tokenizer each time they are asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from evseq.cache.state import Scalar
from evseq.engines.transformers.rotary import SEEN, passing

__all__ = ["live", "loaded", "model_fields", "numeric_fields", "tokenizer_fields"]

ELSEWHERE = frozenset({"_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version"})
"""Keys of a configuration that say where it lies, or what another field says."""

TOKENIZER = tuple(f"tokenizer.{part}" for part in ("vocabulary", "merges", "special", "normaliser", "template"))


def loaded(model: PreTrainedModel) -> Mapping[str, Tensor]:
    """Return what a checkpoint of `model` would hold, tied weights once."""
    transient = {
        f"{prefix}.{name}".lstrip(".")
        for prefix, module in model.named_modules()
        for name in module._non_persistent_buffers_set
    }
    buffers = {name: buffer for name, buffer in model.named_buffers() if name not in transient}
    return {**dict(model.named_parameters()), **buffers}


def live(model: PreTrainedModel) -> Mapping[str, Tensor]:
    """Return every tensor that takes part in a forward: weights, and buffers no checkpoint holds.

    Tables that a forward writes anew by its own length are left out: they belong to it; what they are made of stays.
    """
    written = {f"{prefix}.{name}" for prefix, module in model.named_modules() for name in passing(module)}
    buffers = {name: buffer for name, buffer in model.named_buffers() if name not in written}
    return {**dict(model.named_parameters()), **buffers}


def model_fields(model: PreTrainedModel) -> dict[str, Scalar]:
    """Return what the model is, apart from its tensors.

    Settings are read from the modules too, where a changed scale or window would live without any change of the config.
    """
    config = {name: _plain(value) for name, value in _settings(model.config)}
    return {
        "model.architecture": type(model).__name__,
        "model.config": {**config, "modules": _digest(list(_attributes(model)))},
        "model.adapters": [
            [prefix, adapter, float(module.scaling.get(adapter, 1.0))]
            for prefix, module in model.named_modules()
            if isinstance(getattr(module, "scaling", None), dict)
            for adapter in getattr(module, "active_adapters", ())
        ],
    }


def _settings(config: PreTrainedConfig) -> Iterator[tuple[str, object]]:
    for name, value in config.to_dict().items():
        if name not in ELSEWHERE and not name.startswith("_"):
            yield name, value


def _attributes(model: PreTrainedModel) -> Iterator[Scalar]:
    """Yield the plain public attributes of every module."""
    for prefix, module in model.named_modules():
        for name, value in sorted(vars(module).items()):
            if name == "training" or (name.endswith(SEEN) and passing(module)):
                continue
            if isinstance(value, bool | int | float | str) and not name.startswith("_"):
                yield [prefix, type(module).__name__, name, _plain(value)]


def tokenizer_fields(tokenizer: PreTrainedTokenizerBase | None) -> dict[str, Scalar]:
    """Return what the tokenizer is; all None without one. Long tables are given by length and digest."""
    if tokenizer is None:
        return dict.fromkeys(TOKENIZER)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    table = json.loads(backend.to_str()) if backend is not None else {}
    merges = table.get("model", {}).get("merges") or sorted(getattr(tokenizer, "bpe_ranks", {}).items())
    steps = ("normalizer", "pre_tokenizer", "post_processor", "truncation", "padding")
    added = {str(index): _plain(_settings_of(token)) for index, token in tokenizer.added_tokens_decoder.items()}
    return {
        "tokenizer.vocabulary": _table(sorted(tokenizer.get_vocab().items())),
        "tokenizer.merges": _table(merges),
        "tokenizer.special": {"map": _plain(tokenizer.special_tokens_map), "added": added},
        "tokenizer.normaliser": _plain(
            {"class": type(tokenizer).__name__, **{step: table.get(step) for step in steps}}
        ),
        "tokenizer.template": _plain(tokenizer.chat_template),
    }


def _settings_of(token: object) -> dict[str, object]:
    """Return the settings of an added token, which has no `__dict__`."""
    names = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
    return {name: getattr(token, name) for name in names}


def numeric_fields(model: PreTrainedModel) -> dict[str, Scalar]:
    """Return in what numbers, by which kernels and where the model computes."""
    floating = {weight.dtype for weight in model.parameters() if weight.is_floating_point()}
    attention = str(model.config._attn_implementation)
    experts = model.config._experts_implementation if model._can_set_experts_implementation() else None
    return {
        "numeric.dtype": " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in floating)),
        "numeric.attention": attention if experts is None else f"{attention}, experts {experts}",
        "numeric.device": next(model.parameters()).device.type,
        "numeric.library": {"transformers": transformers.__version__, "torch": str(torch.__version__)},
    }


def _table(entries: Sequence[object]) -> Scalar:
    return {"entries": len(entries), "digest": _digest(entries)}


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def _plain(value: object) -> Scalar:
    """Return `value` as plain data; what has no plain form is named by its text."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
            return [_plain(item) for item in items]
        case _:
            return str(value)
