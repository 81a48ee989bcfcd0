"""TransformersEngine: a causal language model of transformers in one dtype."""

# mypy: disable-error-code="no-untyped-call"
# Parts of transformers and torch have no types.

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import Cache

from evseq.cache.content import LiveContent
from evseq.cache.state import Scalar
from evseq.engines.transformers import fields
from evseq.engines.transformers.altering import altered
from evseq.engines.transformers.double import TrueDouble
from evseq.engines.transformers.rotary import as_born
from evseq.engines.transformers.session import TransformersSession
from evseq.errors import EngineError
from evseq.geometry import Description, Dtype, Layout
from evseq.history import MASKED, Path

__all__ = ["TransformersEngine"]


@dataclass(slots=True, kw_only=True)
class TransformersEngine:
    """A model that belongs to evseq alone, already cast. `source` is the digest of its weights before any cast."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    description: Description
    source: str
    forwarded: int = 0
    content: LiveContent = field(init=False)
    words: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.model.eval().requires_grad_(requires_grad=False)
        self.content = LiveContent(lambda: fields.live(self.model))
        self.words = frozenset(inspect.signature(type(self.model).forward).parameters)
        self.embedding.register_forward_hook(self._count)

    def _count(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        del module, inputs
        self.forwarded += output.shape[:-1].numel()

    @property
    def embedding(self) -> nn.Embedding:
        """The table every token goes through."""
        table = self.model.get_input_embeddings()
        assert isinstance(table, nn.Embedding)
        return table

    @property
    def text_config(self) -> PreTrainedConfig:
        """The live configuration of the decoder."""
        return self.model.config.get_text_config(decoder=True)

    @property
    def biased(self) -> bool:
        """Whether positions are biases made from the mask (ALiBi)."""
        return "position_ids" not in self.words or getattr(self.text_config, "alibi", False) is True

    @property
    def dtype(self) -> Dtype:
        """The dtype the embedding has now."""
        return Dtype(str(self.embedding.weight.dtype).removeprefix("torch."))

    def altered(self, field: str, operand: Mapping[str, Any]) -> AbstractContextManager[str | None]:
        """Change a field for real while this is entered."""
        return altered(self, field, operand)

    def identity(self) -> Mapping[str, Scalar]:
        """Read every field from the model and the tokenizer as they are now."""
        return {
            **fields.model_fields(self.model),
            "weights.source": self.source,
            "weights.live": dict(self.content.digests()),
            **fields.tokenizer_fields(self.tokenizer),
            **fields.numeric_fields(self.model),
        }

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Return the ids of `text`, with the special tokens this tokenizer adds by default."""
        if self.tokenizer is None:
            raise EngineError("tokenize: this model has no tokenizer\n  help: give rows as ids, or pass a tokenizer")
        return tuple(self.tokenizer(text)["input_ids"])

    def uncached(self, path: Path) -> Float[Tensor, "position vocab"]:
        """Run one row without any cache, as if nothing had run before; return every slot's logits."""
        tokens = torch.tensor([path.tokens])  # row slot
        mask = tokens != MASKED  # row slot
        with as_born(self.model):
            return self.forward(
                tokens.where(mask, 0),
                mask=mask,
                positions=torch.tensor([path.positions]).where(mask, 0),
                counted=(mask.cumsum(dim=1) - 1).where(mask, 0),
                cache=None,
                word="uncached",
            )[0]

    def open(self, layout: Layout) -> TransformersSession:
        """Open an empty session."""
        return TransformersSession.opened(self, layout)

    def forward(
        self,
        tokens: Int[Tensor, "row column"],
        *,
        mask: Bool[Tensor, "row slot"],
        positions: Int[Tensor, "row column"] | None,
        counted: Int[Tensor, "row column"],
        cache: Cache | None,
        word: str,
    ) -> Float[Tensor, "row column vocab"]:
        """Run the model on columns with the mask of all slots; `positions` None leaves numbering to it.

        A model that takes no positions (ALiBi) is held to `counted`, what it makes of the mask by itself. The mask is
        always passed: transformers takes jumps in positions without one for several texts in a row.
        """
        device = self.embedding.weight.device
        inputs: dict[str, object] = {
            "input_ids": tokens.to(device),
            "attention_mask": mask.to(device, torch.int64),  # ALiBi biases are sums over it
            "use_cache": cache is not None,
        }
        if positions is not None and not self.biased:
            inputs["position_ids"] = positions.to(device)
        elif positions is not None and not torch.equal(positions, counted):
            raise EngineError(
                f"{word}: {type(self.model).__name__} counts unmasked slots itself, and the positions given differ\n"
                "  help: give each token the number of tokens before it"
            )
        if cache is not None:
            inputs["cache" if "cache" in self.words else "past_key_values"] = cache
        double = TrueDouble() if self.dtype is Dtype.FLOAT64 else nullcontext()
        try:
            with torch.no_grad(), double:
                logits: Tensor = self.model(**inputs).logits  # row column vocab
        except (IndexError, NotImplementedError, RuntimeError, ValueError) as error:
            raise EngineError(f"{word}: {type(self.model).__name__} failed: {error}") from error
        return logits.cpu()
