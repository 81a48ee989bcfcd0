from __future__ import annotations

from dataclasses import replace

from evseq.report.summary import last_line, notes, unsupported, unwritten, verdict
from evseq.verdict.result import Case, ErrorRatio, Finding, Margin, Note, Result, Witnessed


class TestUnsupported:
    def test_nothing_is_said_where_all_ran(self, result: Result) -> None:
        assert unsupported(result, verbose=False) == []

    def test_reasons_are_counted(self, unsupported_result: Result) -> None:
        assert unsupported(unsupported_result, verbose=False) == [
            "unsupported: 3 cases",
            "  no float16: 2 cases",
            "  needs ragged: 1 case",
        ]

    def test_verbose_names_the_cases(self, unsupported_result: Result) -> None:
        assert unsupported(unsupported_result, verbose=True)[1:4] == ["  no float16: 2 cases", "    one", "    two"]


class TestNotes:
    def test_nothing_is_said_without_notes(self, result: Result) -> None:
        assert notes(result, verbose=False) == []

    def test_they_are_counted_by_kind(self, result: Result, passed: Case) -> None:
        reach = Note(kind="out of reach", message="row 'a': truth is the same after the change")
        loud = Note(kind="loud", message="crop of event 2: raised, as allowed")
        noted = replace(result, cases=(replace(passed, notes=(reach, reach, loud)), replace(passed, notes=(loud,))))
        assert notes(noted, verbose=False) == [
            "out of reach: 2 in 1 case",
            "  row 'a': truth is the same after the change (2 times)",
            "loud: 2 in 1 case",
            "  crop of event 2: raised, as allowed (2 times)",
        ]

    def test_many_of_a_kind_are_cut_short(self, result: Result, passed: Case) -> None:
        many = tuple(Note(kind="loud", message=f"event {number}") for number in range(5))
        noted = replace(result, cases=(replace(passed, notes=many),))
        assert notes(noted, verbose=False)[-1] == "  ... and 2 others, all told with -v"

    def test_verbose_tells_each_with_its_case(self, result: Result, passed: Case) -> None:
        many = tuple(Note(kind="loud", message=f"event {number}") for number in range(5))
        noted = replace(result, cases=(replace(passed, notes=many),))
        assert notes(noted, verbose=True)[-1] == "  crop-twice[left-float64][reference:full]: event 4"


class TestVerdict:
    def test_it_says_what_ran_and_what_it_cost(self, result: Result) -> None:
        assert verdict(result) == [
            "verdict",
            "  reference:full: 1 passed; promise exact; float64 judged; float32, bfloat16 not judged",
            "  float64: at most 0.075 of an allowance used, in crop-twice[left-float64][reference:full]",
            "    deviation 3e-14, err 1e-14, allowed 4e-13",
            "  leaves 2; forwards: oracle 4, reference 5, replay 3",
        ]

    def test_goldens_are_told_with_the_share_they_leave(self, result: Result, passed: Case) -> None:
        near = replace(passed, id="near", golden="v1", golden_share=0.1)
        far = replace(passed, id="far", golden="v1", golden_share=0.4)
        told = verdict(replace(result, cases=(near, far)))
        assert told[1] == (
            "  reference:full: 2 passed; promise exact; goldens of v1; float64 judged; float32, bfloat16 not judged"
        )
        assert "  float64: at most 0.4 of an allowance from a golden, in far" in told

    def test_a_target_without_cases_is_named(self, result: Result) -> None:
        empty = replace(result, cases=(), judged=())
        assert verdict(empty)[1] == "  reference:full: no cases"

    def test_an_engine_that_stands_for_its_targets_is_not_a_target(self, result: Result) -> None:
        assert verdict(replace(result, targets=("reference",)))[1].startswith("  reference:full: 1 passed")

    def test_the_largest_share_of_each_dtype_is_told(self, result: Result, passed: Case) -> None:
        near = replace(passed, id="near", margin=Margin(deviation=3e-13, err=0.0, allowed=4e-13))
        told = verdict(replace(result, cases=(passed, near)))
        assert told[2] == "  float64: at most 0.75 of an allowance used, in near"

    def test_a_share_without_a_number_is_the_largest(self, result: Result, passed: Case) -> None:
        lost = replace(passed, id="lost", margin=Margin(deviation=float("nan"), err=0.0, allowed=4e-13))
        told = verdict(replace(result, cases=(lost, passed)))
        assert told[2] == "  float64: at most nan of an allowance used, in lost"


class TestErrors:
    def test_nothing_is_said_where_the_uncached_side_is_truth(self, result: Result) -> None:
        assert [line for line in verdict(result) if "uncached" in line] == []

    def test_the_largest_ratio_of_a_dtype_is_told(self, result: Result, passed: Case) -> None:
        near = replace(passed, id="near", dtype="float32", errors=ErrorRatio(cached=3e-6, uncached=2e-6))
        far = replace(near, id="far", errors=ErrorRatio(cached=6e-6, uncached=2e-6))
        told = verdict(replace(result, cases=(passed, far, near)))
        assert "  float32: error cached/uncached at most 3, in far" in told

    def test_an_infinite_error_is_the_largest(self, result: Result, passed: Case) -> None:
        near = replace(passed, id="near", dtype="float32", errors=ErrorRatio(cached=3e-6, uncached=2e-6))
        lost = replace(near, id="lost", errors=ErrorRatio(cached=float("inf"), uncached=float("inf")))
        told = verdict(replace(result, cases=(lost, near)))
        assert "  float32: error cached/uncached at most inf, in lost" in told


class TestWitness:
    def test_nothing_is_said_without_goldens(self, result: Result) -> None:
        assert [line for line in verdict(result) if "witness" in line] == []

    def test_the_largest_drift_from_each_witness_is_told(self, result: Result, passed: Case) -> None:
        near = replace(passed, id="near", witnessed=Witnessed(file="w/cpu-float64-plain-torch-2.13.0.json", drift=0.0))
        far = replace(near, id="far", witnessed=Witnessed(file="w/cpu-float64-plain-torch-2.13.0.json", drift=0.02))
        assert verdict(replace(result, cases=(near, far)))[-2] == (
            "  witness: cpu-float64-plain-torch-2.13.0: at most 0.02 of an allowance from then, in far"
        )

    def test_targets_without_one_are_named_once(self, result: Result, passed: Case) -> None:
        here = replace(passed, witnessed=Witnessed(file="w/cpu-float64-plain-torch-2.13.0.json", drift=None))
        there = replace(here, target="reference:window")
        assert verdict(replace(result, cases=(here, here, there)))[-2] == (
            "  witness: cpu-float64-plain-torch-2.13.0: none for 3 cases on reference:full, reference:window"
        )

    def test_one_that_was_written_is_told(self, result: Result, passed: Case) -> None:
        new = Witnessed(file="w/cpu-float64-plain-torch-2.13.0.json", drift=None, written=True)
        assert verdict(replace(result, cases=(replace(passed, witnessed=new),)))[-2] == (
            "  witness: cpu-float64-plain-torch-2.13.0: written of 1 case"
        )


class TestLastLine:
    def test_passed(self, result: Result) -> None:
        assert last_line(result) == "PASSED: 1 case, 1.2 s on 1 thread"

    def test_unsupported_cases_are_counted_apart(self, result: Result, passed: Case, unsupported: Case) -> None:
        both = replace(result, cases=(passed, unsupported), threads=2)
        assert last_line(both) == "PASSED: 1 case, 1 unsupported, 1.2 s on 2 threads"

    def test_failed(self, result: Result, passed: Case, failed: Case) -> None:
        assert last_line(replace(result, cases=(passed, failed))) == "FAILED: 1 of 2 cases, 1.2 s on 1 thread"

    def test_failed_in_no_case(self, result: Result, finding: Finding) -> None:
        assert last_line(replace(result, findings=(finding,))) == (
            "FAILED: 0 of 1 case, and 1 finding in no case, 1.2 s on 1 thread"
        )

    def test_nothing_supported(self, result: Result, unsupported: Case) -> None:
        assert last_line(replace(result, cases=(unsupported,))) == (
            "NOTHING SUPPORTED: no case was judged, 1 unsupported, 1.2 s on 1 thread"
        )

    def test_a_target_asked_for_without_a_judged_case(self, result: Result, unsupported: Case) -> None:
        lacking = replace(
            result,
            cases=(*result.cases, replace(unsupported, target="mine:b")),
            targets=("reference:full", "mine:b", "mine:a"),
            asked=("reference", "mine:a", "mine:b"),
        )
        assert (verdict(lacking)[2:4], last_line(lacking)) == (
            ["  mine:b: 1 unsupported", "  mine:a: no cases"],
            "NOT JUDGED: no case on mine:a, mine:b; 1 case passed elsewhere, 1 unsupported, 1.2 s on 1 thread",
        )

    def test_candidates_fail_a_run(self, result: Result) -> None:
        assert last_line(replace(result, candidates=("a", "b", "c"))) == (
            "FAILED: 0 of 1 case, 1.2 s on 1 thread, 3 candidates written: `evseq golden review`"
        )

    def test_interrupted(self, result: Result, failed: Case, passed: Case) -> None:
        stopped = replace(result, cases=(passed, failed), interrupted=True)
        assert last_line(stopped) == "INTERRUPTED: 2 cases judged, 1 failed, 0 cancelled, 1.2 s on 1 thread"


class TestUnwritten:
    def test_nothing_is_said_where_all_was_written(self, result: Result) -> None:
        assert unwritten(result) == []

    def test_each_file_is_told_with_its_reason_and_the_verdict_stays(self, result: Result) -> None:
        told = "kept/a: cannot be written: No space left on device\n  help: check the room on its disk"
        full = replace(result, unwritten=(told,))

        assert unwritten(full) == [
            "not written: 1 file",
            "  kept/a: cannot be written: No space left on device",
            "    help: check the room on its disk",
        ]
        assert last_line(full) == "NOT WRITTEN: 1 file; 1 case judged, none failed, 1.2 s on 1 thread"
