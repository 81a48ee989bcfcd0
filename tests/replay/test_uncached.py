"""What an uncached side answers must be a table of finite logits, or it is of no use."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor

from evseq.history import Path
from evseq.replay.opening import UnusableError
from planted.sums import Bench, out_of_memory


class TestUnusable:
    def test_whatever_the_engine_raises(self) -> None:
        bench = Bench(bend=out_of_memory)

        with pytest.raises(UnusableError) as raised:
            bench.oracle.references([], bench.nodes)

        assert str(raised.value) == "the uncached forward raised MemoryError: full"

    @pytest.mark.parametrize(
        ("bend", "told"),
        [
            (lambda logits, _: logits[-1:], "[1, 5]"),
            (lambda logits, _: logits[:, :4], "[4, 4]"),
            (lambda logits, _: logits[None], "[1, 4, 5]"),
            (lambda logits, _: logits.tolist(), "list"),
            (lambda *_: None, "NoneType"),
        ],
    )
    def test_anything_but_a_table_of_logits(self, bend: Callable[[Tensor, Path], Tensor], told: str) -> None:
        bench = Bench(bend=bend)

        with pytest.raises(UnusableError) as raised:
            bench.oracle.references([], bench.nodes)

        assert str(raised.value) == f"the uncached forward returned {told}, expected logits of shape [4, 5]"

    def test_token_ids_are_no_logits(self) -> None:
        bench = Bench(bend=lambda logits, _: logits.long())

        with pytest.raises(UnusableError, match="returned"):
            bench.oracle.references([], bench.nodes)
