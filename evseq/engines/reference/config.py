"""Config: the shape of a reference decoder, read from the JSON file beside its weights (no torch)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from evseq.engines.reference.kinds import CACHES
from evseq.geometry import (
    Capability,
    Deciding,
    Description,
    Dtype,
    Geometry,
    Layer,
    PoolShape,
    PositionRule,
    WindowCounts,
)

__all__ = ["NAMES", "POOL", "WEIGHTS", "Coding", "Config", "FeedForward", "Norm"]

NAMES = ("full", "window", "learned", "alibi", "narrow")
"""The configurations in the package, the plainest first."""

WEIGHTS = Path(__file__).parent / "weights"
"""The folder of NAME.json and NAME.safetensors."""

POOL = PoolShape(block=4, blocks=32)
"""Blocks small enough that short rows cross them, and few enough that a short script fills them all."""

ALTERABLE = (
    *("model.architecture", "model.config", "weights.source", "weights.live", "model.adapters"),
    *("tokenizer.vocabulary", "tokenizer.merges", "tokenizer.special", "tokenizer.normaliser", "tokenizer.template"),
    *("numeric.dtype", "numeric.attention", "window.policy"),
    *("cache.dtype", "cache.quantisation", "cache.length", "cache.visible", "cache.eviction"),
)
"""The fields that are changed for real on a live decoder; only the base of rotary angles shapes logits as a setting."""


class Coding(StrEnum):
    """How a decoder learns where a token stands."""

    ROTARY = "rotary"
    LEARNED = "learned"
    ALIBI = "alibi"


class Norm(StrEnum):
    """Root mean square without biases, or layer norm with biases everywhere."""

    RMS = "rms"
    LAYER = "layer"


class FeedForward(StrEnum):
    """The block behind the attention: gated with SiLU, or plain with GELU."""

    GATED = "gated"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that shapes a reference decoder besides its weights.

    `width` is that of the feed-forward block, `theta` the base of the rotary angles (unused elsewhere),
    `max_positions` the rows of the learned table. Every layer has the same `head_dim`.
    """

    vocab: int
    hidden: int
    heads: int
    width: int
    coding: Coding
    norm: Norm
    feed_forward: FeedForward
    theta: float
    max_positions: int | None
    layers: tuple[Layer, ...]

    @property
    def head_dim(self) -> int:
        """Numbers in one head of one token."""
        return self.hidden // self.heads

    @classmethod
    def read(cls, name: str) -> Config:
        """Read the configuration `name`, one of `NAMES`."""
        plain = json.loads((WEIGHTS / f"{name}.json").read_text(encoding="utf-8"))
        plain["layers"] = tuple(Layer(**layer) for layer in plain["layers"])
        plain["coding"] = Coding(plain["coding"])
        plain["norm"] = Norm(plain["norm"])
        plain["feed_forward"] = FeedForward(plain["feed_forward"])
        return cls(**plain)

    def plain(self) -> dict[str, Any]:
        """Return the configuration as JSON holds it; `read` is the inverse. What a layer does not have is left out."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        plain["layers"] = [
            {name: value for name, value in layer.items() if value or name == "window"} for layer in plain["layers"]
        ]
        return plain

    def describe(self) -> Description:
        """Say what the engine can do with this configuration: everything."""
        return Description(
            geometry=Geometry(
                layers=self.layers,
                vocab=self.vocab,
                position_rule=PositionRule.MASK,
                window_counts=WindowCounts.POSITIONS,
                max_positions=self.max_positions,
            ),
            capabilities=frozenset(Capability),
            caches=CACHES,
            dtypes=(Dtype.FLOAT64, Dtype.FLOAT32, Dtype.BFLOAT16),
            deciding=Deciding.PURE,
            options={},
            pool=POOL,
            alterable=ALTERABLE
            if self.coding is Coding.ROTARY
            else tuple(name for name in ALTERABLE if name != "model.config"),
        )
