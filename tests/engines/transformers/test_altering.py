"""A live model of transformers really changed, field by field, its tokenizer too, and put back to the bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from transformers import PreTrainedTokenizerFast

from evseq.engines import conformance
from evseq.engines.transformers import loader
from evseq.engines.transformers.engine import TransformersEngine
from evseq.engines.transformers.loader import ModelLoader
from evseq.errors import EngineError
from evseq.geometry import Dtype

ALTERED = next(rule for rule in conformance.RULES if rule.name == "altered")


@pytest.mark.parametrize("target", ["new/llama", "new/mistral?sliding_window=8", "new/gpt2", "new/bloom"])
def test_every_field_it_says_it_can_change_changes_alone_and_comes_back(target: str) -> None:
    assert conformance.check(loader(target), rules=(ALTERED,)) == ()


def test_so_does_every_field_of_a_tokenizer(
    engine: Callable[..., TransformersEngine], tokenizer: Callable[..., PreTrainedTokenizerFast]
) -> None:
    model = engine("new/llama", dtype=Dtype.FLOAT32).model
    held = ModelLoader(model=model, tokenizer=tokenizer(("a", "b"), ("b", "c")))

    assert len([name for name in held.describe().alterable if name.startswith("tokenizer.")]) == 5
    assert conformance.check(held, rules=(ALTERED,)) == ()


def test_a_removed_merge_cuts_the_same_text_otherwise(
    engine: Callable[..., TransformersEngine], tokenizer: Callable[..., PreTrainedTokenizerFast]
) -> None:
    model = engine("new/llama", dtype=Dtype.FLOAT32).model
    opened = ModelLoader(model=model, tokenizer=tokenizer(("a", "b"))).load(Dtype.FLOAT32, {})
    with opened.altered("tokenizer.merges", {}):
        changed = opened.tokenize("ab")
    assert (changed, opened.tokenize("ab")) == ((1, 2), (4,))


@pytest.mark.parametrize("way", ["in-place", "data", "numpy"])
def test_a_weight_written_in_any_way_is_noticed(engine: Callable[..., TransformersEngine], way: str) -> None:
    opened = engine("new/llama", dtype=Dtype.FLOAT32)
    before = opened.identity()["weights.live"]
    with opened.altered("weights.live", {"to": way}) as key:
        now = opened.identity()["weights.live"]
        assert isinstance(before, dict)
        assert isinstance(now, dict)
        assert [name for name in before if before[name] != now[name]] == [key]
    assert opened.identity()["weights.live"] == before


def test_what_it_cannot_change_is_told(engine: Callable[..., TransformersEngine]) -> None:
    with pytest.raises(EngineError, match=r"altered: no field 'weights\.lives' to change\n  help: did you mean"):
        engine("new/llama", dtype=Dtype.FLOAT32).altered("weights.lives", {})
