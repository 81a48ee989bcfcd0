"""Both sides alike: cached and uncached agree, and only a golden knows better."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from evseq.engines.protocol import Engine
from evseq.engines.reference.config import Coding
from evseq.faults.broken import BrokenEngine
from evseq.faults.fault import FULL, LEARNED, Area, Side, fault
from evseq.faults.inside import module
from evseq.faults.needs import coded, in_reference
from evseq.verdict.result import Check


class Changed(BrokenEngine, ABC):
    """An engine whose model is changed once, where both sides run through it. Files and identity stay."""

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        self.change(module(self))

    @abstractmethod
    def change(self, model: Any) -> None:
        """Change the live model."""


def after(part: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
    """Let `part` return what `change` makes of its output."""
    part.register_forward_hook(lambda _, __, output: change(output))


@fault(
    area=Area.ROPE,
    report="vllm-project/vllm#3488",
    catches=("repeated-token", "prefill", Check.GOLDEN),
    shows={FULL: {}},
    needs=(coded(Coding.ROTARY),),
    side=Side.BOTH,
)
class BothRotaryBase(Changed):
    """All angles are of a base one hundredth larger."""

    def change(self, model: Any) -> None:
        model.config = replace(model.config, theta=model.config.theta * 1.01)


@fault(
    area=Area.POSITIONS,
    report="EricLBuehler/mistral.rs#765",
    catches=("unequal-rows", "prefill", Check.GOLDEN),
    shows={FULL: {}},
    needs=(in_reference,),
    side=Side.BOTH,
)
class BothNormEpsilon(Changed):
    """Norms keep a vector finite by a hundred times as much as the weights were trained with."""

    def change(self, model: Any) -> None:
        for norm in [part for part in model.modules() if type(part).__name__ == "Scale"]:
            norm.register_forward_hook(_softer)


def _softer(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    spread = inputs[0].pow(2).mean(dim=-1, keepdim=True)  # row query 1
    return output * ((spread + 1e-5) / (spread + 1e-3)).sqrt()


@fault(
    area=Area.DTYPE,
    report="vllm-project/vllm#38479",
    catches=("unequal-rows", "prefill", Check.GOLDEN),
    shows={FULL: {}},
    needs=(in_reference,),
    side=Side.BOTH,
)
class BothAttentionScale(Changed):
    """One layer scales its scores by a number built in for another size of head."""

    def change(self, model: Any) -> None:
        after(model.blocks[1].queries, lambda queries: queries * 1.01)


@fault(
    area=Area.DTYPE,
    report="ggml-org/llama.cpp#23689",
    catches=("chunk-splits", "prefill", Check.GOLDEN),
    shows={FULL: {}},
    needs=(in_reference,),
    side=Side.BOTH,
)
class BothWeightsRounded(Changed):
    """The weights of one matrix went through bfloat16 when they were loaded."""

    def change(self, model: Any) -> None:
        weight = model.blocks[0].values.weight
        weight.data = weight.data.bfloat16().to(weight.dtype)


@fault(
    area=Area.ROW,
    report="tenstorrent/tt-xla#5940",
    catches=("greedy-continuation", "prefill", Check.GOLDEN),
    shows={FULL: {}},
    needs=(in_reference,),
    side=Side.BOTH,
)
class BothHeadsRegrouped(Changed):
    """Heads are dealt to their keys and values in turn where they stand in groups."""

    def change(self, model: Any) -> None:
        size, heads = model.config.head_dim, model.config.heads
        order = torch.arange(heads).view(2, -1).T.flatten()  # head
        for block in model.blocks:
            after(block.queries, lambda queries: queries.unflatten(-1, (heads, size))[..., order, :].flatten(-2))


@fault(
    area=Area.POSITIONS,
    report="huggingface/transformers#29583",
    catches=("repeated-token", "prefill", Check.GOLDEN),
    shows={LEARNED: {}},
    needs=(coded(Coding.LEARNED),),
    side=Side.BOTH,
)
class BothPositionsFromOne(Changed):
    """Tokens are numbered from 1 on both sides."""

    def change(self, model: Any) -> None:
        model.places.register_forward_pre_hook(lambda _, inputs: (inputs[0] + 1,))


@fault(
    area=Area.MULTIMODAL,
    report="huggingface/transformers#40490",
    catches=("text-prompts", "prefill", Check.GOLDEN),
    shows={FULL: {}},
    needs=(in_reference,),
    side=Side.BOTH,
)
class BothEmbeddingScaled(Changed):
    """Embeddings are multiplied by a number that was rounded to bfloat16 first."""

    def change(self, model: Any) -> None:
        after(model.embedding, lambda hidden: hidden * 1.00390625)


@fault(
    area=Area.STATIC,
    report="mistralai/mistral-inference#88",
    catches=("draft-and-rollback", "prefill", Check.GOLDEN),
    shows={FULL: {}},
    needs=(in_reference,),
    side=Side.BOTH,
)
class BothLayerWeakened(Changed):
    """The last layer adds a thousandth less than it should."""

    def change(self, model: Any) -> None:
        after(model.blocks[-1].mix, lambda added: added * 0.999)
