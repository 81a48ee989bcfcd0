"""Altering: the live model, its tokenizer or what a session holds really changed, and put back bit for bit."""

# mypy: disable-error-code="no-untyped-call"
# Parts of transformers and torch have no types.

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from evseq.engines.altering import Change, entered, nudged, rounded
from evseq.engines.transformers import fields
from evseq.engines.transformers.description import ATTENTIONS, describe
from evseq.engines.transformers.quiet import quiet
from evseq.errors import EngineError

if TYPE_CHECKING:
    from evseq.engines.transformers.engine import TransformersEngine
    from evseq.engines.transformers.session import TransformersSession

__all__ = ["altered"]


def altered(engine: TransformersEngine, field: str, operand: Mapping[str, Any]) -> AbstractContextManager[str | None]:
    """Return what changes a field of `engine` while it is entered, and yields the key that changes, where one does.

    Raises EngineError for a field this engine cannot change.
    """
    return entered(_CHANGES, engine, field, operand)


# -- the model ---------------------------------------------------------------------------------------------------------


def _matrix(engine: TransformersEngine) -> tuple[str, nn.Module, nn.Parameter]:
    """Return the first matrix that makes values, or any behind the embeddings: its name, its module, and itself."""
    named = sorted(engine.model.named_parameters(), key=lambda item: not item[0].endswith("v_proj.weight"))
    for name, weight in named:
        prefix, _, last = name.rpartition(".")
        module = engine.model.get_submodule(prefix)
        if last == "weight" and weight.dim() == 2 and not isinstance(module, nn.Embedding):  # noqa: PLR2004 - a matrix
            return name, module, weight
    raise EngineError("altered: this model has no matrix behind its embeddings\n  help: name another model")


def _weights(engine: TransformersEngine, operand: Mapping[str, Any]) -> Iterator[str]:
    """Add to one weight: in place, through `.data`, or through a numpy view."""
    name, _, weight = _matrix(engine)
    with nudged(weight, operand):
        yield name


def _config(engine: TransformersEngine, operand: Mapping[str, Any]) -> Iterator[str]:
    """Give the first norm another epsilon: a setting of a module, which a configuration file alone would not show."""
    del operand
    for module in engine.model.modules():
        for name in ("variance_epsilon", "eps", "epsilon"):
            before = vars(module).get(name)
            if isinstance(before, float):
                setattr(module, name, before + 1.0)
                try:
                    yield "modules"
                finally:
                    setattr(module, name, before)
                return
    raise EngineError("altered: no norm of this model tells its epsilon\n  help: change weights.live")


class _Adapter(nn.Module):
    """A low-rank change of one module, told as adapters of transformers are; its tensors are no weights of a model."""

    def __init__(self) -> None:
        super().__init__()
        self.scaling = {"evseq": 0.1}
        self.active_adapters = ["evseq"]

    def forward(self, inputs: Float[Tensor, "*row hidden"], output: Float[Tensor, "*row out"]) -> Tensor:
        """Return what the module returned, and the change."""
        seed = torch.Generator().manual_seed(1)
        down, up = (torch.randn(size, 2, generator=seed).to(output) for size in (inputs.shape[-1], output.shape[-1]))
        return output + self.scaling["evseq"] * (inputs @ down @ up.T)


def _adapters(engine: TransformersEngine, operand: Mapping[str, Any]) -> Iterator[None]:
    del operand
    _, module, _ = _matrix(engine)
    adapter = _Adapter()
    module.add_module("evseq", adapter)
    hook = module.register_forward_hook(lambda _, inputs, output: adapter(inputs[0], output))
    try:
        yield
    finally:
        hook.remove()
        del module._modules["evseq"]


def _dtype(engine: TransformersEngine, operand: Mapping[str, Any]) -> Iterator[None]:
    with rounded([one for one in fields.live(engine.model).values() if one.is_floating_point()], operand):
        yield


def _attention(engine: TransformersEngine, operand: Mapping[str, Any]) -> Iterator[None]:
    before = str(engine.model.config._attn_implementation)
    other = operand.get("to", next(kernel for kernel in ATTENTIONS if kernel != before))
    with quiet():
        engine.model.set_attn_implementation(other)
    try:
        yield
    finally:
        with quiet():
            engine.model.set_attn_implementation(before)


def _window(engine: TransformersEngine, operand: Mapping[str, Any]) -> Iterator[None]:
    """Open a window one token narrower wherever one is open."""
    del operand
    config = engine.text_config
    modules = [vars(module) for module in engine.model.modules()]
    before = [
        (holder, name, holder[name])
        for holder in (vars(config), *modules)
        for name in ("sliding_window", "attention_chunk_size", "attention_window_size")
        if isinstance(holder.get(name), int)
    ]
    described = engine.description
    for holder, name, window in before:
        holder[name] = window - 1
    geometry = describe(engine.model.config, type(engine.model), text=False, fresh=False).geometry
    engine.description = replace(described, geometry=geometry)
    try:
        yield
    finally:
        engine.description = described
        for holder, name, window in before:
            holder[name] = window


# -- the tokenizer -----------------------------------------------------------------------------------------------------


def _tokenizer(change: Callable[[PreTrainedTokenizerBase], str | None]) -> Change[TransformersEngine]:
    def changed(engine: TransformersEngine, operand: Mapping[str, Any]) -> Iterator[str | None]:
        del operand
        before = engine.tokenizer
        if before is None:
            raise EngineError("altered: this model has no tokenizer\n  help: pass one with the model")
        engine.tokenizer = copy.deepcopy(before)
        try:
            yield change(engine.tokenizer)
        finally:
            engine.tokenizer = before

    return changed


def _rewritten(change: Callable[[dict[str, Any]], None]) -> Change[TransformersEngine]:
    """Return what changes the tables a fast tokenizer cuts texts by."""

    def changed(tokenizer: PreTrainedTokenizerBase) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise EngineError("altered: only the tables of a fast tokenizer are changed\n  help: load the fast one")
        table = json.loads(backend.to_str())
        change(table)
        tokenizer._tokenizer = Tokenizer.from_str(json.dumps(table))

    return _tokenizer(changed)


def _swapped(table: dict[str, Any]) -> None:
    added = {token["content"] for token in table["added_tokens"]}
    one, two = [piece for piece in table["model"]["vocab"] if piece not in added][:2]
    vocabulary = table["model"]["vocab"]
    vocabulary[one], vocabulary[two] = vocabulary[two], vocabulary[one]


def _unmerged(table: dict[str, Any]) -> None:
    merges = table["model"].get("merges")
    if not merges:
        raise EngineError("altered: this tokenizer has no merges\n  help: change tokenizer.vocabulary")
    merges.pop()


def _normalised(table: dict[str, Any]) -> None:
    table["normalizer"] = {"type": "Lowercase"} if table["normalizer"] is None else None


def _special(tokenizer: PreTrainedTokenizerBase) -> None:
    known = tokenizer.special_tokens_map
    name = next(name for name in ("sep_token", "cls_token", "mask_token") if name not in known)
    setattr(tokenizer, name, next(iter(tokenizer.get_vocab())))


def _template(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = f"{tokenizer.chat_template or ''}{{# changed #}}"


def _quantisation(engine: TransformersEngine, operand: Mapping[str, Any]) -> Iterator[str]:
    """Round to half the bits whatever quantised cache is opened."""
    del operand
    before = engine.description
    engine.description = replace(before, caches=tuple(kind.halved() for kind in before.caches))
    try:
        yield "bits"
    finally:
        engine.description = before


# -- what a session holds ----------------------------------------------------------------------------------------------


def _length(engine: TransformersEngine, operand: Mapping[str, Any]) -> Iterator[None]:
    """Lose a row's last token: its slot counts as masked, as if nothing had been fed there."""
    del engine
    session: TransformersSession = operand["session"]
    before, row = session.mask, int(operand["row"])
    session.mask = before.clone()
    session.mask[row, int(before[row].nonzero()[-1])] = False
    try:
        yield
    finally:
        session.mask = before


_CHANGES: dict[str, Change[TransformersEngine]] = {
    "model.config": _config,
    "weights.live": _weights,
    "model.adapters": _adapters,
    "tokenizer.vocabulary": _rewritten(_swapped),
    "tokenizer.merges": _rewritten(_unmerged),
    "tokenizer.special": _tokenizer(_special),
    "tokenizer.normaliser": _rewritten(_normalised),
    "tokenizer.template": _tokenizer(_template),
    "numeric.dtype": _dtype,
    "numeric.attention": _attention,
    "window.policy": _window,
    "cache.quantisation": _quantisation,
    "cache.length": _length,
}
