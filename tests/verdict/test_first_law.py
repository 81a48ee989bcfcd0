"""Same history, same logits: every check red on a planted fault."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from evseq.geometry import Dtype
from evseq.verdict.first_law import parity
from evseq.verdict.result import Check, Note
from planted.scripts import APPEND, CROP, FORK, RELOAD
from playing import failed, first, lines, observed, played, without_numbers

SINGLE = {"dtype": ("float32",)}


class TestReference:
    def test_an_uncached_side_that_sees_later_tokens(self) -> None:
        assert without_numbers(first(played(APPEND, "planted.engines:not_causal"))) == (
            "case.evseq.yaml:10:5: prefill: reference: "
            "the uncached forward is not causal: a later token moved earlier logits by #"
        )

    def test_a_low_precision_that_rounding_does_not_explain(self) -> None:
        result = played(APPEND, "planted.engines:imprecise", only={})

        assert [case.dtype for case in failed(result)] == ["float32"]
        assert without_numbers(first(result)) == (
            "case.evseq.yaml:10:5: prefill: reference: "
            "the uncached float32 forward is off by # from truth, # times what rounding explains"
        )

    def test_pads_that_move_an_engine_without_double_precision(self) -> None:
        assert without_numbers(first(played(APPEND, "planted.engines:sees_pads", only=SINGLE))) == (
            "case.evseq.yaml:10:5: prefill: reference: "
            "the uncached float32 forward is off by # behind pads, # times what rounding explains"
        )

    def test_an_uncached_side_that_remembers_what_ran(self) -> None:
        assert first(played(APPEND, "planted.engines:remembers")) == (
            "case.evseq.yaml:10:5: prefill: reference: "
            "the uncached float64 forward gives other bits after the replay than before it"
        )

    def test_an_uncached_side_that_fails_after_the_replay(self) -> None:
        assert first(played(APPEND, "planted.engines:raises_afterwards")) == (
            "case.evseq.yaml:10:5: prefill: reference: "
            "after the replay, not before it, the uncached forward raised RuntimeError: out of memory"
        )


class TestFinite:
    def test_a_cached_logit_that_is_not_a_number(self) -> None:
        assert first(played(APPEND, "planted.faults:not_finite")) == (
            "case.evseq.yaml:11:5: append: row 'a' index 7: finite: logit 3 is nan"
        )

    def test_an_uncached_logit_that_overflows(self) -> None:
        result = played(APPEND, "planted.engines:uncached_infinite", only={})

        assert [case.dtype for case in failed(result)] == ["float32"]
        assert first(result) == (
            "case.evseq.yaml:10:5: prefill: row 'a' index 0: finite: "
            "the uncached float32 forward of this history is not finite"
        )

    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_a_truth_that_is_not_a_number_is_found_by_every_dtype_held_to_it(self, dtype: str) -> None:
        assert first(played(APPEND, "planted.engines:truth_infinite", only={"dtype": (dtype,)})) == (
            "case.evseq.yaml:10:5: prefill: row 'a' index 0: finite: "
            "the uncached float64 forward of this history is not finite"
        )


class TestParity:
    def test_logits_off_from_truth_in_double_precision(self) -> None:
        assert without_numbers(first(played(CROP, "planted.faults:positions_after_crop"))) == (
            "case.evseq.yaml:13:5: append: row 'a' index 8: parity: "
            "logit # is #, expected #: off by #, allowed # in float64"
        )

    def test_logits_off_from_truth_in_single_precision(self) -> None:
        assert without_numbers(first(played(CROP, "planted.faults:positions_after_crop", only=SINGLE))) == (
            "case.evseq.yaml:13:5: append: row 'a' index 8: parity: "
            "logit # is #, expected #: off by #, allowed # in float32"
        )

    def test_an_allowance_that_is_no_number_allows_nothing(self) -> None:
        evidence = observed(APPEND, "reference:full", only=SINGLE)
        nowhere = torch.full_like(evidence.references.scale, torch.nan)
        err = {**evidence.references.err, Dtype.FLOAT32: nowhere}

        found = list(parity(replace(evidence, references=replace(evidence.references, err=err))))

        assert list(parity(evidence)) == []
        assert len(found) == 14

    def test_the_logit_that_is_off_most_is_the_one_told(self) -> None:
        finding = failed(played(CROP, "planted.faults:positions_after_crop"))[0].findings[0]

        assert finding.actual is not None
        assert finding.expected is not None
        assert f"off by {abs(float(finding.actual) - float(finding.expected)):.3g}," in finding.message


class TestContinuity:
    def test_a_copy_that_goes_on_in_other_bits(self) -> None:
        result = played(RELOAD, "planted.faults:restored_otherwise")

        assert [finding.check for finding in result.cases[0].findings] == [Check.CONTINUITY] * 4
        assert without_numbers(first(result)) == (
            "case.evseq.yaml:14:5: append: row 'a' index 7: continuity: logit # is # in session 'again', "
            f"{result.cases[0].findings[0].expected} in 'main' which it copies: must be bit-equal, off by #"
        )

    def test_an_engine_that_never_repeats_itself_is_not_judged(self) -> None:
        result = played(RELOAD, "planted.faults:never_the_same")

        assert result.passed
        assert result.cases[0].notes == (
            Note(kind="not judged", message="continuity: the engine was not seen to repeat itself bit for bit"),
        )


class TestIsolation:
    def test_a_session_that_writes_into_another(self) -> None:
        assert first(played(FORK, "planted.faults:fork_shares_storage")) == (
            "case.evseq.yaml:14:5: append: row 'a' index 7: isolation: "
            "keys or values of session 'twin' moved in layer 0 by a step of session 'main'"
        )

    def test_a_step_that_moves_what_its_own_session_holds(self) -> None:
        found = lines(played(APPEND, "planted.faults:append_moves_cache"))

        assert (
            "case.evseq.yaml:11:5: append: row 'a' index 0: isolation: "
            "keys or values of session 'main' moved in layer 0 by its own step"
        ) in found

    def test_a_fork_that_moves_its_source(self) -> None:
        assert first(played(FORK, "planted.faults:fork_moves_source")) == (
            "case.evseq.yaml:12:5: fork: row 'a' index 0: isolation: "
            "keys or values of session 'main' moved in layer 0 by a step of session 'twin'"
        )

    def test_an_engine_that_shows_nothing_is_not_judged(self) -> None:
        result = played(FORK, "planted.faults:shows_nothing")

        assert result.passed
        assert result.cases[0].notes == (
            Note(kind="not judged", message="isolation: the engine does not show its keys and values"),
        )
