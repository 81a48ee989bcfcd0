"""Write the weights of the reference engine: `python tools/make_reference_weights.py [FOLDER]`.

Same bytes on every machine: numbers come from Python's own generator and are drawn uniformly, since a normal
distribution would go through the machine's logarithm. Changing anything here changes every golden of `reference:*`.
"""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from evseq.engines.reference.config import WEIGHTS, Coding, Config, FeedForward, Norm
from evseq.engines.reference.model import Decoder
from evseq.geometry import Layer

SEED = 20

# Standard deviations. A library's usual 0.02 leaves attention almost uniform and hides most cache faults; twice the
# spread of queries and keys leaves tokens nobody attends to, and hides what happens to those.
SPREAD = {
    "embedding": 0.7,
    "places": 0.5,
    "queries": 0.15,
    "keys": 0.15,
    "values": 0.35,
    "out": 0.25,
    "gate": 0.25,
    "up": 0.25,
    "down": 0.2,
    "head": 0.35,
}
SMALL = 0.15  # of biases, and of norm weights around 1


def configurations() -> dict[str, Config]:
    """Return every configuration by name."""
    return {
        "full": _config(layers=(_layer(2),) * 3),
        "window": _config(layers=(_layer(2, window=6), _layer(2)) * 2),
        "learned": _config(
            layers=(_layer(4),) * 2,
            coding=Coding.LEARNED,
            norm=Norm.LAYER,
            feed_forward=FeedForward.PLAIN,
            # A script of 500 appended tokens fits, and the table stays under 100 kB.
            max_positions=640,
        ),
        "alibi": _config(layers=(_layer(1),) * 3, coding=Coding.ALIBI, norm=Norm.LAYER, feed_forward=FeedForward.PLAIN),
        "narrow": _config(layers=(_layer(1, window=5),) * 3),
    }


def _layer(kv_heads: int, *, window: int | None = None) -> Layer:
    return Layer(kv_heads=kv_heads, head_dim=8, window=window)


def _config(
    *,
    layers: tuple[Layer, ...],
    coding: Coding = Coding.ROTARY,
    norm: Norm = Norm.RMS,
    feed_forward: FeedForward = FeedForward.GATED,
    max_positions: int | None = None,
) -> Config:
    return Config(
        vocab=64,
        hidden=32,
        heads=4,
        width=40,
        coding=coding,
        norm=norm,
        feed_forward=feed_forward,
        theta=1000.0,
        max_positions=max_positions,
        layers=layers,
    )


def weights(name: str, config: Config) -> dict[str, Tensor]:
    """Draw every tensor of `config`, in the order of their names."""
    with torch.device("meta"):
        shapes = {key: tuple(value.shape) for key, value in Decoder(config).state_dict().items()}
    source = random.Random(f"{SEED} {name}")  # noqa: S311 - weights, no secrets
    return {key: _drawn(key, shapes[key], source) for key in sorted(shapes)}


def _drawn(key: str, shape: tuple[int, ...], source: random.Random) -> Tensor:
    *_, module, kind = key.split(".")
    centre = 1.0 if module.endswith("norm") and kind == "weight" else 0.0
    spread = SPREAD[module] if kind == "weight" and module in SPREAD else SMALL
    reach = math.sqrt(3.0) * spread  # a uniform distribution from -reach to reach has this spread
    numbers = [centre + reach * (2.0 * source.random() - 1.0) for _ in range(math.prod(shape))]
    return torch.tensor(numbers, dtype=torch.float64).to(torch.float32).view(shape)


def main(folder: Path) -> None:
    """Write NAME.json and NAME.safetensors for every configuration into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, config in configurations().items():
        text = json.dumps(config.plain(), indent=2) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8", newline="\n")
        (folder / f"{name}.safetensors").write_bytes(save(weights(name, config)))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else WEIGHTS)
