"""Hugging Face transformers: local folders, new models from a configuration, models in memory.

The entry point `transformers` names this module.
"""

from __future__ import annotations

from transformers import PreTrainedModel

from evseq.engines.protocol import Loader
from evseq.engines.transformers.loader import FolderLoader, ModelLoader, NewLoader
from evseq.engines.transformers.newborn import NAMES
from evseq.engines.transformers.target import parse
from evseq.errors import TargetError

__all__ = ["FolderLoader", "ModelLoader", "NewLoader", "configurations", "in_memory", "loader"]


def in_memory(model: object) -> ModelLoader:
    """Return the loader of a model in memory. Raise `TargetError` for what is no transformers model."""
    if not isinstance(model, PreTrainedModel):
        raise TargetError(
            f"{type(model).__name__}: neither a transformers model nor a loader\n"
            "  help: pass a PreTrainedModel, target text, or an object with describe, tokenize and load"
        )
    return ModelLoader(model)


def configurations() -> tuple[str, ...]:
    """Return the new models `transformers` alone stands for; folders are named one by one."""
    return tuple(f"new/{name}" for name in NAMES)


def loader(rest: str) -> Loader:
    """Return the loader of `PATH?attention=…&revision=…` or `new/NAME?key=value&…`. Raise `TargetError`."""
    target = parse(rest)
    if target.folder is not None:
        return FolderLoader(folder=target.folder, attention=target.attention)
    return NewLoader(target=target)
