"""Loaders: a folder, a new model, or a model already in memory; described first, loaded in a dtype later."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from evseq.cache.content import root, tensor_digest
from evseq.engines.transformers import fields, newborn
from evseq.engines.transformers.description import causal_class, describe
from evseq.engines.transformers.double import TORCH, cast
from evseq.engines.transformers.engine import TransformersEngine
from evseq.engines.transformers.quiet import quiet
from evseq.engines.transformers.target import Target
from evseq.errors import EngineError, TargetError
from evseq.geometry import Description, Dtype

__all__ = ["FolderLoader", "ModelLoader", "NewLoader"]

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")


@dataclass(frozen=True, eq=False, kw_only=True)
class FolderLoader:
    """A folder with a configuration and safetensors files. Never goes online, never unpickles."""

    folder: Path
    attention: str | None = None

    @cached_property
    def config(self) -> PreTrainedConfig:
        """The configuration in the folder."""
        try:
            with quiet():
                found: PreTrainedConfig = AutoConfig.from_pretrained(self.folder, local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise TargetError(f"transformers:{self.folder}: {error}\n  help: the folder needs a config.json") from error
        return found

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase | None:
        """The tokenizer in the folder, or None."""
        if not any((self.folder / name).is_file() for name in TOKENIZERS):
            return None
        with quiet():
            found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
        return found

    def describe(self) -> Description:
        """Read the configuration, and look whether there is a tokenizer."""
        text = any((self.folder / name).is_file() for name in TOKENIZERS)
        return describe(self.config, causal_class(self.config), text=text, fresh=True, attention=self.attention)

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Return the ids of `text`, with the special tokens this tokenizer adds by default."""
        return _tokenize(self.tokenizer, text)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> TransformersEngine:
        """Load the weights in `dtype`. Raise `TargetError` where the files lack any the model needs."""
        description = self.describe()
        source = root(self._digests())
        with quiet():
            loaded: Any = causal_class(self.config).from_pretrained(
                self.folder,
                config=copy.deepcopy(self.config),
                dtype=TORCH[dtype],
                attn_implementation=_kernel(description, options),
                local_files_only=True,
                use_safetensors=True,
                output_loading_info=True,
            )
        model, report = loaded
        lacking = sorted(report["missing_keys"]) + sorted(str(key) for key in report["mismatched_keys"])
        if lacking:
            raise TargetError(
                f"transformers:{self.folder}: {lacking[0]} is not in the weights, or of another shape "
                f"({len(lacking)} in all)\n  help: save the model again; made-up weights are not judged"
            )
        return _engine(model, dtype, tokenizer=self.tokenizer, description=description, source=source)

    def _digests(self) -> dict[str, str]:
        """Return the digest of each tensor in the files, before any cast."""
        digests: dict[str, str] = {}
        for path in _weight_files(self.folder):
            try:
                with safe_open(path, framework="pt") as tensors:
                    digests |= {name: tensor_digest(tensors.get_tensor(name)) for name in tensors.keys()}  # noqa: SIM118
            except SafetensorError as error:
                raise TargetError(f"{path}: {error}\n  help: download or save this file again") from error
        return digests


@dataclass(frozen=True, eq=False)
class ModelLoader:
    """A model already in memory. It is copied for every dtype and never changed; no other process can open it."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None = None
    attention: str | None = field(default=None, kw_only=True)
    fresh: bool = field(default=False, kw_only=True)

    def describe(self) -> Description:
        """Read the live configuration; the kernel the model has now is the default."""
        described = describe(
            self.model.config,
            type(self.model),
            text=self.tokenizer is not None,
            fresh=self.fresh,
            attention=self.attention,
        )
        now = self.model.config._attn_implementation
        kernels = sorted(described.options["attention"], key=lambda kernel: kernel != now)
        return replace(described, options={"attention": tuple(kernels)})

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Return the ids of `text`, with the special tokens this tokenizer adds by default."""
        return _tokenize(self.tokenizer, text)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> TransformersEngine:
        """Copy the model, then cast the copy to `dtype`."""
        description = self.describe()
        source = root({name: tensor_digest(tensor) for name, tensor in fields.loaded(self.model).items()})
        model = copy.deepcopy(self.model)
        with quiet():
            model.set_attn_implementation(_kernel(description, options))
        return _engine(model, dtype, tokenizer=self.tokenizer, description=description, source=source)


@dataclass(frozen=True, eq=False, kw_only=True)
class NewLoader:
    """A model type with settings: built in any process, the same in each."""

    target: Target

    @cached_property
    def config(self) -> PreTrainedConfig:
        """The tiny configuration with the target's settings."""
        return newborn.configure(str(self.target.model_type), self.target.settings)

    def describe(self) -> Description:
        """Read the configuration; nothing is built."""
        return describe(self.config, causal_class(self.config), text=False, fresh=True, attention=self.target.attention)

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Raise `EngineError`: a new model has no tokenizer."""
        return _tokenize(None, text)

    @cached_property
    def born(self) -> ModelLoader:
        """The model in float32, built once."""
        return ModelLoader(model=newborn.build(self.config), attention=self.target.attention, fresh=True)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> TransformersEngine:
        """Build the model, then cast a copy to `dtype`."""
        return self.born.load(dtype, options)


def _engine(
    model: PreTrainedModel,
    dtype: Dtype,
    *,
    tokenizer: PreTrainedTokenizerBase | None,
    description: Description,
    source: str,
) -> TransformersEngine:
    cast(model, dtype)
    if dtype is Dtype.FLOAT64 and model._can_set_experts_implementation():
        with quiet():
            model.set_experts_implementation("eager")  # grouped matrix products refuse float64
    return TransformersEngine(model=model, tokenizer=tokenizer, description=description, source=source)


def _kernel(description: Description, options: Mapping[str, str]) -> str:
    kernels = description.options["attention"]
    chosen = options.get("attention", kernels[0])
    if chosen not in kernels:
        raise TargetError(f"attention={chosen}: not one of {', '.join(kernels)}\n  help: choose one of these")
    return chosen


def _tokenize(tokenizer: PreTrainedTokenizerBase | None, text: str) -> tuple[int, ...]:
    if tokenizer is None:
        raise EngineError("tokenize: this target has no tokenizer\n  help: give rows as ids, or pass a tokenizer")
    return tuple(tokenizer(text)["input_ids"])


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        return [folder / name for name in sorted(names)]
    single = folder / "model.safetensors"
    if not single.is_file():
        raise TargetError(f"transformers:{folder}: no model.safetensors\n  help: save the model with save_pretrained")
    return [single]
