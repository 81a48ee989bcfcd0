"""Every check, red on a planted fault and silent on a healthy engine."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from evseq.cache.guard import Admitted, Refused, admit
from evseq.cache.identity import Difference, Identity
from evseq.geometry import Dtype
from evseq.verdict.checks import CHECKS
from evseq.verdict.first_law import parity
from evseq.verdict.result import Check, Note, Outcome
from playing import failed, first, lines, observed, played, without_numbers

SINGLE = {"dtype": ("float32",)}

ROWS = """\
rows:
  a: {random: {length: 10, seed: 1}}
  b: [17, 4, 59, 3, 8, 21]
arms:
  dtype: [float64, float32]
"""

APPEND = f"""{ROWS}\
events:
  - prefill: {{rows: {{a: 7, b: 3}}}}
  - append: {{next: 2}}
"""

CROP = f"""{APPEND}\
  - crop: {{by: 1}}
  - append: {{ids: {{a: [5], b: [6]}}}}
"""

RELOAD = f"""{ROWS}\
events:
  - prefill: {{rows: {{a: 7, b: 3}}}}
  - serialize: {{to: mid}}
  - append: {{next: 2}}
  - reload: {{from: mid, as: again}}
  - append: {{next: 2, on: again}}
"""

CHANGED = f"""{ROWS}\
events:
  - prefill: {{rows: {{a: 7, b: 3}}}}
  - serialize: {{to: mid}}
  - mutate-prefix-token: {{row: b, index: 1, token: 24}}
  - reload: {{from: mid, as: changed, expect: {{refused: prefix.tokens}}}}
"""

FORK = f"""{ROWS}\
  cache: [fixed]
events:
  - prefill: {{rows: {{a: 7, b: 3}}}}
  - fork: {{as: twin}}
  - append: {{next: 1, on: twin}}
  - append: {{ids: {{a: [5], b: [6]}}}}
"""

HOLES = f"""{ROWS}\
  padding: [holes]
  chunk: [1]
events:
  - prefill: {{rows: {{a: 2, b: 2}}}}
"""

EVERYTHING = f"""{ROWS}\
  padding: [left, holes]
  cache: [growing, ring]
events:
  - prefill: {{rows: {{a: 7, b: 3}}}}
  - serialize: {{to: mid}}
  - append: {{next: 2}}
  - reload: {{from: mid, as: again, expect: {{reused: {{exactly: 10}}}}}}
  - append: {{next: 2, on: again}}
  - mutate-prefix-token: {{row: b, index: 1, token: 24}}
  - reload: {{from: mid, as: changed, expect: {{refused: prefix.tokens}}}}
  - fork: {{as: twin, on: again}}
  - append: {{next: 1, on: twin}}
  - crop: {{by: 1, on: again}}
  - append: {{ids: {{a: [5], b: [6]}}, on: again}}
  - beam-select: {{rows: {{x: b, y: a}}, on: twin}}
  - append: {{ids: {{x: [5], y: [6]}}, on: twin}}
  - probe: {{}}
"""


@pytest.fixture(scope="module")
def healthy() -> list[Check]:
    """Return the checks that complain of a healthy engine in a script that gives each of them something to look at."""
    result = played(EVERYTHING, "reference:window", only={})
    assert result.counts[Outcome.PASSED] == 4
    return [finding.check for case in result.cases for finding in case.findings]


@pytest.mark.parametrize("check", CHECKS)
def test_a_healthy_engine_is_left_in_peace(check: Check, healthy: list[Check]) -> None:
    assert healthy.count(check) == 0


class TestCompleted:
    def test_an_operation_that_raises_is_named_with_its_event(self) -> None:
        result = played(CROP, "planted.faults:crop_raises")

        assert lines(result) == [
            "case.evseq.yaml:12:5: crop: completed: session 'main': NotImplementedError: no crop for this cache"
        ]

    def test_a_loud_event_may_raise_and_the_case_says_so(self) -> None:
        result = played(CROP.replace("by: 1", "by: 1, expect: loud"), "planted.faults:crop_raises")

        assert result.passed
        assert result.cases[0].notes == (
            Note(kind="loud", message="crop of event 3: raised, as allowed"),
            Note(kind="not judged", message="1 later steps on sessions that were gone"),
        )

    def test_a_loud_event_that_is_right_says_so_too(self) -> None:
        result = played(CROP.replace("by: 1", "by: 1, expect: loud"), "reference:full")

        assert result.passed
        assert result.cases[0].notes == (Note(kind="loud", message="crop of event 3: right"),)

    def test_a_loud_event_that_is_silently_wrong_is_no_less_wrong(self) -> None:
        loud = APPEND.replace("next: 2", "next: 2, expect: loud")

        result = played(loud, "planted.faults:append_moves_cache")

        assert result.cases[0].notes == ()
        assert without_numbers(first(result)) == (
            "case.evseq.yaml:11:5: append: row 'a' index 7: parity: "
            "logit # is #, expected #: off by #, allowed # in float64"
        )


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


class TestRefusal:
    def test_a_change_that_is_admitted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("evseq.replay.asking.admit", lambda *_: Admitted())

        assert lines(played(CHANGED, "reference:full")) == [
            (
                "case.evseq.yaml:13:5: reload: row 'b' index 1: refusal: "
                "reuse was admitted, expected prefix.tokens to be refused"
            )
        ]

    def test_a_refusal_though_nothing_was_changed(self) -> None:
        assert first(played(RELOAD, "planted.engines:another_each_time")) == (
            "case.evseq.yaml:13:5: reload: row 'a' index 0: refusal: "
            "refused for numeric.library: key 'read': recorded 1, now 2, though nothing was changed"
        )

    def test_a_refusal_for_what_the_engine_does_not_say_of_itself(self) -> None:
        assert first(played(RELOAD, "planted.engines:unknown_library")) == (
            "case.evseq.yaml:13:5: reload: row 'a' index 0: refusal: "
            "refused for numeric.library: missing in the file, though nothing was changed"
        )

    def test_a_refusal_at_another_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("evseq.replay.asking.admit", _one_further)

        assert lines(played(CHANGED, "reference:full")) == [
            (
                "case.evseq.yaml:13:5: reload: row 'b' index 1: refusal: "
                "refused for prefix.tokens: row 'b' index 2: recorded 4, now 24, expected prefix.tokens row 'b' index 1"
            )
        ]

    def test_a_refusal_for_another_field(self) -> None:
        result = played(CHANGED, "planted.engines:another_each_time")

        assert "numeric.library" in first(result)
        assert first(result).endswith("expected prefix.tokens row 'b' index 1")

    def test_forwards_before_the_refusal(self) -> None:
        assert lines(played(CHANGED, "planted.engines:identity_forwards")) == [
            (
                "case.evseq.yaml:13:5: reload: row 'b' index 1: refusal: "
                "3 token columns were forwarded before the refusal, expected 0"
            )
        ]

    def test_a_change_that_shows_no_damage(self) -> None:
        assert without_numbers(first(played(CHANGED, "planted.faults:stale_is_right"))) == (
            "case.evseq.yaml:13:5: reload: row 'b' index 3: refusal: the stale cache, forced, is off by only #, "
            "allowed #: this change shows no damage, the script has no power"
        )

    def test_low_precision_does_not_judge_damage(self) -> None:
        result = played(CHANGED, "planted.faults:stale_is_right", only=SINGLE)

        # It is no failure of the script, but what was forced is not what was saved.
        assert {finding.check for finding in result.cases[0].findings} == {Check.PARITY}
        assert "not judged" in {note.kind for note in result.cases[0].notes}

    def test_a_change_the_model_does_not_see_is_out_of_reach(self) -> None:
        result = played(CHANGED, "planted.engines:forgetful")

        assert result.passed
        assert result.cases[0].notes == (
            Note(kind="out of reach", message="row 'b': truth is the same after the change"),
        )


class TestReuse:
    def test_a_restore_that_recomputes_at_the_reload(self) -> None:
        assert first(played(RELOAD, "planted.faults:restore_recomputes")) == (
            "case.evseq.yaml:13:5: reload: row 'a' index 0: reuse: "
            "14 token columns of the prefix were forwarded again, expected 0"
        )

    def test_a_restore_that_recomputes_at_the_next_append(self) -> None:
        assert first(played(RELOAD, "planted.faults:recomputes_lazily")) == (
            "case.evseq.yaml:13:5: reload: row 'a' index 0: reuse: "
            "14 token columns of the prefix were forwarded again, expected 0"
        )

    @pytest.mark.parametrize(("bound", "told"), [("exactly: 10", "exactly 10"), ("least: 1", "least 1")])
    def test_fewer_reused_than_the_script_says(self, bound: str, told: str) -> None:
        expected = RELOAD.replace("as: again}", f"as: again, expect: {{reused: {{{bound}}}}}}}")

        assert first(played(expected, "planted.faults:restore_recomputes")) == (
            f"case.evseq.yaml:13:5: reload: row 'a' index 0: reuse: 0 of 10 tokens came from the cache, expected {told}"
        )

    def test_more_reused_than_the_script_says(self) -> None:
        expected = RELOAD.replace("as: again}", "as: again, expect: {reused: {most: 9}}}")

        assert lines(played(expected, "reference:full")) == [
            "case.evseq.yaml:13:5: reload: row 'a' index 0: reuse: 10 of 10 tokens came from the cache, expected most 9"
        ]

    @pytest.mark.parametrize("bound", ["exactly: 10", "least: 10"])
    def test_as_many_as_the_script_says(self, bound: str) -> None:
        expected = RELOAD.replace("as: again}", f"as: again, expect: {{reused: {{{bound}}}}}}}")

        assert played(expected, "reference:full").passed

    def test_another_session_of_that_name_is_another_matter(self) -> None:
        again = f"{RELOAD}  - drop: {{on: again}}\n  - prefill: {{rows: {{a: 2}}, as: again}}\n"
        probed = again.replace("append: {next: 2, on: again}", "probe: {on: again}")

        result = played(probed, "planted.faults:prefills_twice")

        assert {finding.check for finding in result.cases[0].findings} == {Check.ACCOUNTING}

    def test_recomputing_is_fine_where_the_script_allows_it(self) -> None:
        expected = RELOAD.replace("as: again}", "as: again, expect: {reused: {most: 9}}}")

        assert played(expected, "planted.faults:restore_recomputes").passed


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


class TestOrder:
    def test_the_first_divergence_in_the_order_of_events_leads(self) -> None:
        found = played(RELOAD, "planted.probes:length_short").cases[0].findings

        assert [finding.step for finding in found] == sorted(finding.step for finding in found)
        assert (found[0].check, found[0].event) == (Check.ACCOUNTING, "prefill")
        assert Check.REFUSAL in {finding.check for finding in found}

    def test_within_an_event_a_cause_comes_before_its_effects(self) -> None:
        found = played(CROP, "planted.faults:positions_after_crop").cases[0].findings

        assert [finding.check for finding in found if finding.event == "append"][:4] == [
            *[Check.PARITY] * 2,
            *[Check.ACCOUNTING] * 2,
        ]


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


def _one_further(recorded: Identity, asked: Identity) -> Admitted | Refused:
    answer = admit(recorded, asked)
    if isinstance(answer, Admitted):
        return answer
    return Refused(differences=tuple(_moved(difference) for difference in answer.differences))


def _moved(difference: Difference) -> Difference:
    return replace(difference, index=(difference.index or 0) + 1)
