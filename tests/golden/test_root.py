"""Names in a folder of goldens."""

from __future__ import annotations

import pytest

from evseq.golden.root import model_name, without

OPTIONS = ("attention",)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("reference:full", "reference-full"),
        ("transformers:/home/somebody/models/small/", "transformers-small"),
        ("transformers:models/small?attention=eager", "transformers-small"),
        ("transformers:models/small?attention=eager&revision=v2", "transformers-small-revision=v2"),
        ("transformers:new/mistral?sliding_window=8", "transformers-mistral-sliding_window=8"),
        ("transformers:models/ä b", "transformers--b"),
        ("my.module:loader", "my.module-loader"),
    ],
)
def test_a_model_is_called_by_its_engine_and_what_it_loads(target: str, name: str) -> None:
    assert model_name(target, OPTIONS) == name


@pytest.mark.parametrize(
    ("target", "bare"),
    [
        ("transformers:a?attention=eager", "transformers:a"),
        ("transformers:a?attention=eager&revision=v2", "transformers:a?revision=v2"),
        ("reference:full", "reference:full"),
    ],
)
def test_an_engines_own_options_make_no_other_model(target: str, bare: str) -> None:
    assert without(target, OPTIONS) == bare
