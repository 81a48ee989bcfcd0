"""Counts of the plan, held to what an engine reads of itself."""

from __future__ import annotations

import pytest

from planted.scripts import APPEND, HOLES
from playing import first, lines, played


class TestAccounting:
    @pytest.mark.parametrize(
        ("fault", "told"),
        [
            ("length_short", "row 'b' index 2: accounting: tokens held: 2, expected 3"),
            ("position_ahead", "row 'b' index 2: accounting: next position: 4, expected 3"),
            ("sees_itself", "row 'a' index 6: accounting: tokens visible in layer 1: 8, expected 7"),
            ("bytes_of_keys", "row 'a' index 6: accounting: cache bytes: 5376, expected 10752"),
            (
                "one_row_told",
                "row 'a' index 0: accounting: the probe reads 1 rows in 3 layers, expected 2 rows in 3 layers",
            ),
        ],
    )
    def test_a_number_the_engine_reads_of_itself(self, fault: str, told: str) -> None:
        assert first(played(APPEND, f"planted.probes:{fault}")) == f"case.evseq.yaml:10:5: prefill: {told}"

    def test_tokens_really_forwarded(self) -> None:
        assert lines(played(APPEND, "planted.faults:forwards_twice")) == [
            "case.evseq.yaml:11:5: append: row 'a' index 7: accounting: 4 token columns were forwarded, expected 2",
            "case.evseq.yaml:11:5: append: row 'a' index 8: accounting: 4 token columns were forwarded, expected 2",
        ]

    def test_fewer_columns_than_tokens(self) -> None:
        assert first(played(APPEND, "planted.engines:counts_half")) == (
            "case.evseq.yaml:10:5: prefill: row 'a' index 0: accounting: 7 token columns were forwarded, expected 14"
        )

    def test_a_chunk_of_nothing_but_masked_slots_is_counted_too(self) -> None:
        found = lines(played(HOLES, "planted.faults:prefills_twice"))

        assert "case.evseq.yaml:12:5: prefill: accounting: 4 token columns were forwarded, expected 2" in found
