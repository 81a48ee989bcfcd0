"""Nothing is reused beyond the first difference: every check red on a planted fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evseq.cache.guard import Admitted, Refused, admit
from evseq.cache.identity import Difference, Identity
from evseq.verdict.result import Check, Note
from planted.scripts import CHANGED, RELOAD
from playing import first, lines, played, without_numbers

SINGLE = {"dtype": ("float32",)}


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


def _one_further(recorded: Identity, asked: Identity) -> Admitted | Refused:
    answer = admit(recorded, asked)
    if isinstance(answer, Admitted):
        return answer
    return Refused(differences=tuple(_moved(difference) for difference in answer.differences))


def _moved(difference: Difference) -> Difference:
    return replace(difference, index=(difference.index or 0) + 1)
