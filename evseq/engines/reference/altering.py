"""Altering: the live decoder, its tokenizer or a session's storages really changed, and put back bit for bit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor, nn

from evseq.cache.content import root, tensor_digest
from evseq.cache.state import Scalar
from evseq.engines.altering import Change, entered, nudged, number_format, rounded
from evseq.engines.reference.caches import Growing
from evseq.engines.reference.config import Coding
from evseq.engines.reference.model import Block, Decoder, column_by_column
from evseq.errors import EngineError

if TYPE_CHECKING:
    from evseq.engines.reference.engine import ReferenceEngine
    from evseq.engines.reference.session import ReferenceSession
    from evseq.engines.reference.storage import Storage

__all__ = ["Adapter", "altered"]


@dataclass(slots=True, kw_only=True)
class Adapter:
    """A low-rank change of one linear layer: `scale` times `up` after `down` is added to what it returns."""

    name: str
    down: Float[Tensor, "rank hidden"]
    up: Float[Tensor, "out rank"]
    scale: float

    def __call__(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        """Add the change: a hook."""
        del module
        return output + self.scale * (inputs[0] @ self.down.T @ self.up.T)

    def plain(self) -> Scalar:
        """Return name, content and scale as they are now."""
        return [self.name, root({"down": tensor_digest(self.down), "up": tensor_digest(self.up)}), self.scale]


def altered(engine: ReferenceEngine, field: str, operand: Mapping[str, Any]) -> AbstractContextManager[str | None]:
    """Return what changes a field of `engine` while it is entered, and yields the key that changes, where one does.

    Raises EngineError for a field that nothing alive has.
    """
    return entered(_CHANGES, engine, field, operand)


@contextlib.contextmanager
def _set(holder: object, name: str, value: object) -> Iterator[None]:
    before = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, before)


# -- the decoder -------------------------------------------------------------------------------------------------------


class Doubled(Decoder):
    """A decoder of another class: it is twice as sure."""

    def forward(self, *inputs: Any) -> Float[Tensor, "row query vocab"]:
        """Return twice the logits."""
        return 2.0 * super().forward(*inputs)


def _architecture(engine: ReferenceEngine, operand: Mapping[str, Any]) -> Iterator[None]:
    del operand
    with _set(engine.decoder, "__class__", Doubled):
        yield


def _config(engine: ReferenceEngine, operand: Mapping[str, Any]) -> Iterator[str]:
    del operand
    config = engine.decoder.config
    if config.coding is not Coding.ROTARY:
        raise EngineError("altered: no setting but its windows shapes these logits\n  help: change window.policy")
    with _set(engine.decoder, "config", replace(config, theta=config.theta / 2)):
        yield "theta"


def _window(engine: ReferenceEngine, operand: Mapping[str, Any]) -> Iterator[None]:
    """Open another window in the first layer: of two tokens where it saw all, else one token narrower."""
    del operand
    config = engine.decoder.config
    first, *others = config.layers
    narrow = replace(first, window=2 if first.window is None else max(1, first.window - 1))
    with _set(engine.decoder, "config", replace(config, layers=(narrow, *others))):
        yield


def _source(engine: ReferenceEngine, operand: Mapping[str, Any]) -> Iterator[None]:
    del operand
    assert engine.weights is not None
    tensors = load_file(engine.weights)
    tensors["head.weight"][0, 0] += 1.0
    held = {name: weight.data for name, weight in engine.decoder.named_parameters()}
    source = root({name: tensor_digest(tensor) for name, tensor in tensors.items()})
    for name, weight in engine.decoder.named_parameters():
        weight.data = tensors[name].to(weight.dtype)
    try:
        with _set(engine, "source", source):
            yield
    finally:
        for name, weight in engine.decoder.named_parameters():
            weight.data = held[name]


def _weights(engine: ReferenceEngine, operand: Mapping[str, Any]) -> Iterator[str]:
    """Add to one value of the first layer's values: in place, through `.data`, or through a numpy view."""
    block = engine.decoder.blocks[0]
    assert isinstance(block, Block)
    with nudged(block.values.weight, operand):
        yield "blocks.0.values.weight"


def _adapters(engine: ReferenceEngine, operand: Mapping[str, Any]) -> Iterator[None]:
    del operand
    block = engine.decoder.blocks[0]
    assert isinstance(block, Block)
    linear, seed = block.values, torch.Generator().manual_seed(1)
    out, hidden = linear.weight.shape
    down, up = (torch.randn(shape, generator=seed).to(linear.weight.dtype) for shape in ((2, hidden), (out, 2)))
    adapter = Adapter(name="blocks.0.values", down=down, up=up, scale=0.1)
    hook = linear.register_forward_hook(adapter)
    engine.adapters.append(adapter)
    try:
        yield
    finally:
        hook.remove()
        engine.adapters.remove(adapter)


# -- the tokenizer -----------------------------------------------------------------------------------------------------


def _tokenizer(**changes: Any) -> Change[ReferenceEngine]:
    def changed(engine: ReferenceEngine, operand: Mapping[str, Any]) -> Iterator[None]:
        del operand
        with _set(engine, "tokenizer", replace(engine.tokenizer, **changes)):
            yield

    return changed


def _vocabulary(engine: ReferenceEngine, operand: Mapping[str, Any]) -> Iterator[str]:
    del operand
    alphabet = engine.tokenizer.alphabet
    swapped = alphabet[1] + alphabet[0] + alphabet[2:]
    with _set(engine, "tokenizer", replace(engine.tokenizer, alphabet=swapped)):
        yield alphabet[0]


# -- numbers -----------------------------------------------------------------------------------------------------------


def _dtype(engine: ReferenceEngine, operand: Mapping[str, Any]) -> Iterator[None]:
    with rounded(engine.decoder.parameters(), operand):
        yield


def _kept(engine: ReferenceEngine, operand: Mapping[str, Any]) -> Iterator[None]:
    with _set(engine, "kept", number_format(operand)):
        yield


def _bits(engine: ReferenceEngine, operand: Mapping[str, Any]) -> Iterator[str]:
    """Round keys and values to half the bits, in the kinds that round them."""
    del operand
    with _set(engine, "halved", not engine.halved):
        yield "bits"


def _attention(engine: ReferenceEngine, operand: Mapping[str, Any]) -> Iterator[None]:
    del operand
    with _set(engine.decoder, "kernel", column_by_column):
        yield


# -- what a session holds ----------------------------------------------------------------------------------------------


def _held(change: Callable[[list[Storage], int], None]) -> Change[ReferenceEngine]:
    def changed(engine: ReferenceEngine, operand: Mapping[str, Any]) -> Iterator[None]:
        del engine
        session: ReferenceSession = operand["session"]
        changing = [storage.copy() for storage in session.storages]
        change(changing, int(operand["row"]))
        with _set(session, "storages", changing):
            yield

    return changed


def _shorter(storages: list[Storage], row: int) -> None:
    lengths = storages[0].lengths().clone()
    lengths[row] -= 1
    for storage in storages:
        storage.crop(lengths)


def _hidden(storages: list[Storage], row: int) -> None:
    """Hide the last token but one in the last layer: the next position is read from the last one."""
    positions = storages[-1].positions[row]
    positions[positions.argsort()[-2]] = -1


def _evicted(storages: list[Storage], row: int) -> None:
    """Evict the first slot of the last layer that sees everything, or of the last one."""
    del row
    whole = [storage for storage in storages if storage.layer.window is None]
    storage = (whole or storages)[-1]
    if not isinstance(storage, Growing):
        raise EngineError("altered: this cache has all its slots from the beginning\n  help: use cache growing")
    storage.keys, storage.values = storage.keys[:, :, 1:].clone(), storage.values[:, :, 1:].clone()
    storage.positions = storage.positions[:, 1:].clone()


_CHANGES: dict[str, Change[ReferenceEngine]] = {
    "model.architecture": _architecture,
    "model.config": _config,
    "weights.source": _source,
    "weights.live": _weights,
    "model.adapters": _adapters,
    "tokenizer.vocabulary": _vocabulary,
    "tokenizer.merges": _tokenizer(merges=(("th", "%"),)),
    "tokenizer.special": _tokenizer(begin="@"),
    "tokenizer.normaliser": _tokenizer(lower=False),
    "tokenizer.template": _tokenizer(template="<{user}> "),
    "numeric.dtype": _dtype,
    "numeric.attention": _attention,
    "window.policy": _window,
    "cache.dtype": _kept,
    "cache.quantisation": _bits,
    "cache.length": _held(_shorter),
    "cache.visible": _held(_hidden),
    "cache.eviction": _held(_evicted),
}
