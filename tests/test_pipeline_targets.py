from __future__ import annotations

import pytest

from evseq.engines.registry import find
from evseq.errors import TargetError, UsageError
from evseq.pipeline import Run, Settings, run
from evseq.verdict.result import Exit, Outcome
from planted.second import Second
from playing import ARMS, CROP, DOUBLE, ELSEWHERE, ONE, played, script

FULL, ALIBI = "reference:full", "reference:alibi"


class TestTargets:
    def test_an_engine_alone_is_every_configuration_of_it(self) -> None:
        result = played(ONE, "reference")

        assert result.passed
        assert result.targets == tuple(f"reference:{name}" for name in ("full", "window", "learned", "alibi", "narrow"))

    def test_a_script_that_names_targets_is_about_those(self) -> None:
        own = script(f"targets: [{ALIBI}]\n{ONE}", name="own")
        free = script(ONE, name="free")

        result = played([own, free], FULL)

        assert [(case.script, case.target) for case in result.cases] == [("free", FULL), ("own", ALIBI)]
        assert (result.targets, result.exit) == ((FULL, ALIBI), Exit.PASSED)

    def test_an_object_in_memory_plays_those_scripts_too(self) -> None:
        own = script(f"targets: [{ALIBI}]\n{ONE}", name="own")

        result = played([own], Second())

        assert [(case.script, case.target) for case in result.cases] == [("own", "memory:Second")]

    def test_two_objects_of_one_type_are_two_targets(self) -> None:
        result = played(CROP, find("planted.engines:no_crop"), find("planted.engines:one_row_only"))

        assert result.targets == ("memory:BrokenLoader", "memory:BrokenLoader-2")
        assert [case.reason for case in result.cases] == ["needs crop", "needs crop"]

    def test_the_same_object_is_opened_once(self) -> None:
        model = Second()

        with Run(Settings()) as running:
            opened = [running.target(model) for _ in range(2)]

        assert opened[0] is opened[1]

    def test_an_object_in_memory_cannot_be_opened_in_another_process(self) -> None:
        result = played(ELSEWHERE, Second())

        assert [(case.outcome, case.reason) for case in result.cases] == [(Outcome.UNSUPPORTED, "needs fresh")]

    def test_a_word_that_is_no_target(self) -> None:
        with pytest.raises(TargetError, match="no engine 'referense'"):
            played(ONE, "referense")

    def test_what_is_neither_loader_nor_model(self) -> None:
        with pytest.raises(UsageError):
            played(ONE, 7)


class TestUnsupported:
    def test_it_is_counted_and_listed_with_its_reason(self) -> None:
        result = played([script(CROP, name="crops"), script(ONE, name="one")], "planted.engines:no_crop")

        assert result.exit is Exit.PASSED
        assert result.counts == {Outcome.PASSED: 1, Outcome.FAILED: 0, Outcome.KNOWN: 0, Outcome.UNSUPPORTED: 1}
        assert [(case.script, case.reason) for case in result.cases] == [("crops", "needs crop"), ("one", None)]

    def test_no_supported_case_at_all_is_nothing(self) -> None:
        result = played(CROP, "planted.engines:no_crop")

        assert result.exit is Exit.NOTHING
        assert not result.passed

    def test_no_case_at_all_is_nothing_too(self) -> None:
        result = played(ARMS, FULL, only={"padding": ("holes",)})

        assert (result.cases, result.exit) == ((), Exit.NOTHING)

    def test_a_target_asked_for_that_no_script_is_about_is_nothing(self) -> None:
        own = script(f"targets: [{ALIBI}]\n{ONE}", name="own")

        result = played(own, FULL)

        assert (result.targets, result.unjudged, result.exit) == ((FULL, ALIBI), (FULL,), Exit.NOTHING)

    def test_a_standing_target_that_no_script_is_about_is_passed_over(self) -> None:
        own = script(f"targets: [{ALIBI}]\n{ONE}", name="own")

        result = run([own], [FULL], settings=Settings(), standing=True)

        assert (result.targets, result.unjudged, result.exit) == ((ALIBI,), (), Exit.PASSED)

    def test_a_standing_target_that_supports_nothing_is_nothing(self) -> None:
        result = run([script(CROP)], ["planted.engines:no_crop", FULL], settings=Settings(only=DOUBLE), standing=True)

        assert (result.unjudged, result.exit) == (("planted.engines:no_crop",), Exit.NOTHING)

    def test_one_target_of_several_that_supports_nothing_is_nothing(self) -> None:
        result = played(CROP, FULL, "planted.engines:no_crop", Second())

        assert (result.unjudged, result.exit) == (("planted.engines:no_crop",), Exit.NOTHING)

    def test_a_failure_elsewhere_is_a_failure(self) -> None:
        result = played(CROP, "planted.faults:forwards_twice", "planted.engines:no_crop")

        assert (result.unjudged, result.exit) == (("planted.engines:no_crop",), Exit.FAILED)

    def test_one_configuration_of_an_engine_may_support_nothing(self) -> None:
        windowed = "needs: [window]\nrows: {a: [1, 2, 3]}\nevents: [{prefill: [a]}]\n"

        result = played(windowed, "reference")

        assert {case.target for case in result.cases if case.outcome is Outcome.UNSUPPORTED} >= {FULL, ALIBI}
        assert (result.unjudged, result.exit) == ((), Exit.PASSED)

    def test_a_filter_that_fits_nothing_is_refused(self) -> None:
        with pytest.raises(UsageError) as refused:
            played(ARMS, FULL, only={"dtype": ("float64", "float23")})

        assert str(refused.value) == (
            "only: arm 'dtype' has no value 'float23' in these scripts\n  help: did you mean 'float32'?"
        )

    def test_a_cache_no_target_offers_is_refused(self) -> None:
        with pytest.raises(UsageError) as refused:
            played(ARMS, FULL, only={"cache": ("growin",)})

        assert str(refused.value) == (
            "only: no target and no script has cache=growin\n"
            "  help: did you mean 'growing'? targets offer growing, fixed, ring, quantised, streaming, blocks"
        )

    def test_an_engine_that_numbers_tokens_itself_is_seen_to_repeat_itself(self) -> None:
        result = played(ONE, "planted.engines:one_row_only")

        assert result.passed
        assert result.cases[0].notes == ()
