"""ReferenceEngine: a decoder with its weights in one dtype."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor, nn

from evseq.cache.content import LiveContent, root, tensor_digest
from evseq.cache.state import Scalar
from evseq.engines.reference.altering import Adapter, altered
from evseq.engines.reference.config import Config
from evseq.engines.reference.model import Decoder, attend
from evseq.engines.reference.pool import ReferencePool
from evseq.engines.reference.session import ReferenceSession, check_positions
from evseq.engines.reference.storing import storage
from evseq.engines.reference.tokenizer import Tokenizer
from evseq.engines.reference.uncached import uncached
from evseq.errors import EngineError, nearest
from evseq.geometry import CacheKind, Description, Dtype, Layout
from evseq.history import MASKED, Path

__all__ = ["ReferenceEngine"]


@dataclass(slots=True, kw_only=True)
class ReferenceEngine:
    """A decoder of the package. `source` is the digest of its weights as they were read from the file `weights`.

    `kept` is the dtype of keys and values where it is not that of the weights; `halved` says whether the kinds that
    round them have half the bits they declare.
    """

    decoder: Decoder
    tokenizer: Tokenizer
    source: str
    weights: FilePath | None = None
    kept: torch.dtype | None = None
    halved: bool = False
    adapters: list[Adapter] = field(default_factory=list)
    forwarded: int = 0
    content: LiveContent = field(init=False)
    pool: ReferencePool = field(init=False)

    def __post_init__(self) -> None:
        self.pool = ReferencePool(self)
        self.content = LiveContent(self.decoder.state_dict)
        self.decoder.embedding.register_forward_hook(self._count)

    def _count(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        del module, inputs
        self.forwarded += output.shape[:-1].numel()

    @classmethod
    def load(cls, config: Config, weights: FilePath, dtype: Dtype) -> ReferenceEngine:
        """Read the float32 tensors of `weights`, digest them, then cast them to `dtype`."""
        tensors = load_file(weights)
        with torch.device("meta"):
            decoder = Decoder(config)
        source = root({name: tensor_digest(tensor) for name, tensor in tensors.items()})
        cast = {name: tensor.to(getattr(torch, dtype)) for name, tensor in tensors.items()}
        decoder.load_state_dict(cast, assign=True)
        decoder.requires_grad_(requires_grad=False).eval()
        return cls(decoder=decoder, tokenizer=Tokenizer(), source=source, weights=weights)

    @property
    def dtype(self) -> Dtype:
        """The dtype the embedding has now."""
        return Dtype(str(self.decoder.embedding.weight.dtype).removeprefix("torch."))

    @property
    def cache_dtype(self) -> Dtype:
        """The dtype keys and values are kept in now."""
        return Dtype(str(self.kept or self.decoder.embedding.weight.dtype).removeprefix("torch."))

    @property
    def description(self) -> Description:
        """What the decoder is now."""
        described = self.decoder.config.describe()
        if not self.halved:
            return described
        return replace(described, caches=tuple(kind.halved() for kind in described.caches))

    def altered(self, field: str, operand: Mapping[str, Any]) -> AbstractContextManager[str | None]:
        """Change a field for real while this is entered."""
        return altered(self, field, operand)

    def identity(self) -> Mapping[str, Scalar]:
        """Read every field from the decoder and the tokenizer as they are now."""
        return {
            "model.architecture": _architecture(self.decoder),
            "model.config": self.decoder.config.plain(),
            "weights.source": self.source,
            "weights.live": dict(self.content.digests()),
            "model.adapters": [adapter.plain() for adapter in self.adapters],
            **self.tokenizer.fields(),
            "numeric.dtype": self.dtype.value,
            "numeric.attention": "plain" if self.decoder.kernel is attend else self.decoder.kernel.__name__,
            "numeric.device": self.decoder.embedding.weight.device.type,
            "numeric.library": {"torch": str(torch.__version__)},
        }

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Return one id per character."""
        return self.tokenizer.tokenize(text)

    def uncached(self, path: Path) -> Float[Tensor, "position vocab"]:
        """Run one row without any cache; return every slot's logits."""
        return self._uncached(path, None)

    def uncached_under(self, path: Path, cache: str) -> Float[Tensor, "position vocab"]:
        """Run one row without any cache, seen and rounded as the kind `cache` declares."""
        return self._uncached(path, self._kind(cache, "uncached"))

    def _uncached(self, path: Path, kind: CacheKind | None) -> Float[Tensor, "position vocab"]:
        tokens = torch.tensor(path.tokens)  # slot
        positions = torch.tensor(path.positions)  # slot
        real = tokens != MASKED  # slot
        check_positions(positions[None].where(real, -1), self.decoder)
        return uncached(self.decoder, tokens.where(real, 0), positions, real, kind=kind)

    def open(self, layout: Layout) -> ReferenceSession:
        """Open an empty session."""
        kind = self._kind(layout.cache, "open")
        dtype = self.kept or self.decoder.embedding.weight.dtype
        return ReferenceSession(
            decoder=self.decoder,
            layout=layout,
            storages=[storage(layer, kind=kind, layout=layout, dtype=dtype) for layer in self.decoder.config.layers],
            filler=self.pool.filler() if layout.pooled else None,
        )

    def _kind(self, name: str, word: str) -> CacheKind:
        description = self.description
        kind = description.cache(name)
        if kind is None:
            known = [cache.name for cache in description.caches]
            close = nearest(name, known)
            hint = f"did you mean {close!r}? " if close else ""
            raise EngineError(f"{word}: no cache kind {name!r}\n  help: {hint}known are {', '.join(known)}")
        return kind


def _architecture(decoder: Decoder) -> str:
    plain = "evseq reference decoder"
    return plain if type(decoder) is Decoder else f"{plain}, {type(decoder).__name__}"
