"""A whole identity, one value in the right form for every field."""

from __future__ import annotations

import pytest

from evseq.cache.canonical import Scalar


@pytest.fixture(scope="session")
def values() -> dict[str, Scalar]:
    """Return the values of a cache of two rows, the first left-padded by two, in a layer of everything and one of 3."""
    return {
        "model.architecture": "LlamaForCausalLM",
        "model.config": {"hidden": 16, "rope": {"factor": 1.0, "theta": 10000}},
        "weights.source": {"embed": "3f" * 32, "layer.0.q": "9a" * 32},
        "weights.live": {"embed": "3f" * 32, "layer.0.q": "9a" * 32},
        "model.adapters": [{"content": "11" * 32, "scale": 0.5}],
        "tokenizer.vocabulary": "22" * 32,
        "tokenizer.merges": "33" * 32,
        "tokenizer.special": {"bos": 1, "eos": 2},
        "tokenizer.normaliser": None,
        "tokenizer.template": None,
        "numeric.dtype": "float64",
        "numeric.attention": "eager",
        "numeric.device": "cpu",
        "numeric.library": {"torch": "2.13.0"},
        "prefix.tokens": [["a", [17, 4, 59]], ["b", [3, 8, 21, 6, 1]]],
        "prefix.text": [["a", "once upon"], ["b", None]],
        "prefix.mask": [["a", [False, False, True, True, True]], ["b", [True] * 5]],
        "position.rule": "given",
        "position.ids": [["a", [0, 1, 2]], ["b", [0, 1, 2, 3, 4]]],
        "padding": "left",
        "salt": None,
        "cache.kind": "growing",
        "cache.shapes": [[2, 1, 5, 8], [2, 1, 5, 8]],
        "cache.dtype": "float64",
        "cache.quantisation": None,
        "window.policy": ["every slot", "3 positions"],
        "cache.length": [["a", 3], ["b", 5]],
        "cache.visible": [["a", [3, 2]], ["b", [5, 2]]],
        "cache.eviction": [0, 0],
        "format.version": 1,
    }
