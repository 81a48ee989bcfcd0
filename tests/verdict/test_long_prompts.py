"""Long prompts have lucky histories: single precision must not be called wrong for them."""

from __future__ import annotations

import pytest

from playing import played


@pytest.mark.parametrize("seed", [10, 1])  # 10 was red by a history's own err alone
def test_six_hundred_tokens_are_healthy_in_single_precision(seed: int) -> None:
    script = f"""\
    rows:
      a: {{random: {{length: 608, seed: {seed}}}}}
    events:
      - prefill: {{rows: {{a: 600}}}}
    """

    assert played(script, "reference:narrow", only={"dtype": ("float32",)}).passed
