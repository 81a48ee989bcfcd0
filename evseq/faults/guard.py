"""The guard, field by field: each field of the identity is left out of the comparison once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from evseq.cache.fields import FIELDS
from evseq.cache.guard import Admitted, Refused, admit
from evseq.cache.identity import Identity
from evseq.faults.broken import BrokenEngine
from evseq.faults.fault import ANY, AT_ONCE, FULL, LLAMA, SLIDING, Area, Catch, Fault, Side
from evseq.faults.needs import allocates, sliding
from evseq.verdict.result import Check

__all__ = ["LEFT_OUT"]

FORGED = "forged-records"
"""The script about fields of which nothing alive has another value."""

SCRIPTS: Mapping[str, tuple[str, str]] = {
    "model.architecture": ("refused-model", "what"),
    "model.config": ("refused-model", "what"),
    "weights.source": ("refused-model", "what"),
    "weights.live": ("refused-weights", ""),
    "model.adapters": ("refused-model", "what"),
    "tokenizer.vocabulary": ("refused-tokenizer", "part"),
    "tokenizer.merges": ("refused-tokenizer", "part"),
    "tokenizer.special": ("refused-tokenizer", "part"),
    "tokenizer.normaliser": ("refused-tokenizer", "part"),
    "tokenizer.template": ("refused-tokenizer", "part"),
    "numeric.dtype": ("refused-numbers", "what"),
    "numeric.attention": ("refused-numbers", "what"),
    "prefix.tokens": ("refused-prefix-token", ""),
    "prefix.text": ("refused-tokenizer", ""),
    "prefix.mask": ("refused-mask-and-positions", ""),
    "position.rule": ("refused-mask-and-positions", ""),
    "position.ids": ("refused-mask-and-positions", ""),
    "padding": ("refused-mask-and-positions", ""),
    "salt": ("refused-salt", ""),
    "cache.kind": ("refused-buffers", ""),
    "cache.shapes": ("refused-room", ""),
    "cache.dtype": ("refused-numbers", "what"),
    "cache.quantisation": ("refused-quantisation", ""),
    "window.policy": ("refused-window", ""),
    "cache.length": ("refused-cache-contents", "lost"),
    "cache.visible": ("refused-cache-contents", "lost"),
    "cache.eviction": ("refused-evicted", ""),
}
"""The script that changes a field for real, and which of its arms names the field; others can only be forged."""

HERE: Mapping[str, Mapping[str, str]] = {FULL: {}}

ONLY_THERE: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "cache.shapes": AT_ONCE,
    "cache.quantisation": {FULL: {"cache": "quantised"}, LLAMA: {"cache": "quantised"}},
    "window.policy": SLIDING,
    **dict.fromkeys(
        ("model.architecture", "weights.source", "cache.dtype", "cache.visible", "cache.eviction", "prefix.text"), HERE
    ),
    **dict.fromkeys((name for name in FIELDS if name.startswith("tokenizer.")), HERE),
}
"""Where a field can be changed for real, if not anywhere."""

NEEDS = {"cache.shapes": (allocates,), "window.policy": (sliding,)}

REPORTS: Mapping[str, str] = {
    "model.config": "tenstorrent/tt-metal#43161",
    "weights.source": "NVIDIA-NeMo/RL#4018",
    "weights.live": "InternLM/lmdeploy#4917",
    "model.adapters": "vllm-project/vllm#3264",
    "prefix.tokens": "LMCache/LMCache#690",
    "prefix.text": "LMCache/LMCache#690",
    "prefix.mask": "tenstorrent/tt-metal#43161",
    "salt": "vllm-project/vllm#44701",
    "cache.dtype": "NVIDIA/TensorRT-LLM#2699",
    "cache.quantisation": "huggingface/transformers#40099",
    "cache.shapes": "LMCache/LMCache#2951",
    "cache.length": "ggml-org/llama.cpp#1257",
    "window.policy": "vllm-project/vllm#3488",
}
"""Where the loss of a field, or of its like, was reported."""

LIKE_IT = "vllm-project/vllm#44250"
"""A key that left out an adapter stands for fields nobody reported yet: the mistake is the same."""


class Forgetful(BrokenEngine):
    """A rule that takes one field for equal, whatever it is."""

    left_out = ""

    def reuse(self, recorded: Identity, asked: Identity) -> Admitted | Refused:
        """Admit or refuse."""
        return admit(Identity(values={**recorded.values, self.left_out: asked.values[self.left_out]}), asked)


def _without(field: str) -> Fault:
    """Return the fault of a guard without this field."""
    script, arm = SCRIPTS.get(field, (FORGED, ""))
    named = {arm: field} if arm else {}
    shows = {target: MappingProxyType({**arms, **named}) for target, arms in ONLY_THERE.get(field, ANY).items()}
    return Fault(
        name=f"guard-without-{field.replace('.', '-')}",
        area=Area.REUSE,
        report=REPORTS.get(field, LIKE_IT),
        about=f"The field {field} is left out of the comparison.",
        catches=Catch(script=script, event="reload", check=Check.REFUSAL),
        shows=MappingProxyType(shows),
        needs=NEEDS.get(field, ()),
        side=Side.GUARD,
        broken=type("Forgetful", (Forgetful,), {"left_out": field}),
    )


LEFT_OUT: Mapping[str, Fault] = MappingProxyType({fault.name: fault for fault in map(_without, FIELDS)})
"""A fault for every field of the registry, so that a field without one cannot exist."""
