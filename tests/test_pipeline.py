from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from evseq import pipeline
from evseq.errors import ScriptError
from evseq.pipeline import Run, ScriptResult, Settings, check, qualify, read_scripts, run, selected
from evseq.verdict.arithmetic import one_head
from evseq.verdict.result import Check, Exit, Forwards, Outcome
from planted.second import Second
from playing import ARMS, DOUBLE, ONE, played, script

FULL, ALIBI = "reference:full", "reference:alibi"


class TestRun:
    def test_targets_come_one_by_one_and_scripts_in_order(self) -> None:
        scripts = [script(ONE, name="first"), script(ONE, name="second")]

        result = played(scripts, FULL, ALIBI)

        assert result.passed
        assert result.targets == (FULL, ALIBI)
        assert [case.id for case in result.cases] == [
            f"first[float64][{FULL}]",
            f"second[float64][{FULL}]",
            f"first[float64][{ALIBI}]",
            f"second[float64][{ALIBI}]",
        ]

    def test_arms_are_pairwise_or_all(self) -> None:
        parsed = [script(ARMS)]

        pairwise = run(parsed, [FULL], settings=Settings())
        every = run(parsed, [FULL], settings=Settings(mode="all"))

        assert [len(result.cases) for result in (pairwise, every)] == [4, 8]

    def test_only_some_values_of_an_arm(self) -> None:
        result = played(ARMS, FULL, only={"padding": ("right",), "dtype": ("float32",)})

        assert {(case.arms["padding"], case.dtype) for case in result.cases} == {("right", "float32")}

    def test_a_case_says_how_to_replay_just_it(self) -> None:
        result = played(ARMS, FULL, only={**DOUBLE, "padding": ("left",), "cache": ("fixed",)})

        assert [case.replay for case in result.cases] == [
            (f"evseq run case.evseq.yaml --target {FULL} --arm padding=left --arm cache=fixed --arm dtype=float64")
        ]

    def test_latencies_bytes_and_margin_are_measured_apart(self) -> None:
        (case,) = played(ONE, FULL).cases

        assert case.latency.first is not None
        assert case.latency.later is not None
        # Keys and values in three layers of two heads of eight numbers of eight bytes, for three tokens.
        assert case.peak_cache_bytes == 2 * 3 * 2 * 8 * 8 * 3
        assert case.margin is not None
        assert 0 < case.margin.fraction < 1
        assert (case.promise, case.dtype, case.observations, case.replay_forwards) == ("exact", "float64", 3, 2)

    def test_arithmetic_comes_first_and_belongs_to_no_case(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = one_head(lambda query, *_: query)
        monkeypatch.setattr("evseq.verdict.arithmetic.one_head", lambda: found)

        result = played(ONE, FULL)

        assert result.exit is Exit.FAILED
        assert result.findings == found
        assert {finding.check for finding in found} == {Check.ARITHMETIC}
        assert [case.outcome for case in result.cases] == [Outcome.PASSED]

    def test_threads_are_set_while_it_runs_and_given_back(self) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(3)

        with Run(Settings(threads=2)):
            inside = torch.get_num_threads()

        assert (inside, torch.get_num_threads()) == (2, 3)
        torch.set_num_threads(before)

    def test_an_impossible_script_is_refused_before_any_weight_is_loaded(self) -> None:
        impossible = "rows: {a: [1, 2, 3]}\nevents: [{prefill: [a]}, {crop: {by: 5}}]\n"

        with pytest.raises(ScriptError) as raised:
            played([script(impossible, name="one"), script(impossible, name="two")], "planted.raising:load")

        assert [problem.place.file for problem in raised.value.problems] == ["one.evseq.yaml", "two.evseq.yaml"]


class TestQualify:
    def test_scripts_of_your_own(self, tmp_path: Path) -> None:
        (tmp_path / "one.evseq.yaml").write_text(f"evseq: 1\nname: one\nabout: A test.\n{ONE}")

        results = [
            qualify(FULL, tmp_path / "one.evseq.yaml"),
            qualify(FULL, str(tmp_path)),
            qualify(FULL, [tmp_path / "one.evseq.yaml"]),
        ]

        assert [[case.script for case in result.cases] for result in results] == [["one"]] * 3

    def test_a_loader_is_a_target(self, tmp_path: Path) -> None:
        (tmp_path / "one.evseq.yaml").write_text(f"evseq: 1\nname: one\nabout: A test.\n{ONE}")

        result = qualify(Second(), str(tmp_path))

        assert result.passed
        assert [case.target for case in result.cases] == ["memory:Second"]

    def test_a_fault_is_in_the_result(self, tmp_path: Path) -> None:
        (tmp_path / "one.evseq.yaml").write_text(f"evseq: 1\nname: one\nabout: A test.\n{ONE}")

        result = qualify("planted.faults:forwards_twice", str(tmp_path))

        assert (result.passed, result.exit) == (False, Exit.FAILED)

    def test_the_default_is_the_shipped_suite_on_every_configuration(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[tuple[int, Sequence[object]]] = []

        def noted(scripts: Sequence[object], targets: Sequence[object], **_: object) -> None:
            asked.append((len(scripts), targets))

        monkeypatch.setattr(pipeline, "run", noted)

        qualify()

        assert asked == [(len(read_scripts([], suite=True)), ["reference"])]


class TestCheck:
    def test_a_sound_script_is_left_in_peace(self) -> None:
        check([script(ARMS)], FULL, Settings())
        check([script(ARMS)], "reference", Settings())
        check([script(ARMS)], None, Settings())

    def test_what_only_a_target_can_tell_needs_one(self) -> None:
        windowed = script("rows: {a: {random: {length: window, seed: 1}}}\nevents: [{prefill: [a]}]\n")

        check([windowed], None, Settings())
        with pytest.raises(ScriptError):
            check([windowed], FULL, Settings())

    def test_cases_are_those_a_run_would_have(self) -> None:
        parsed, settings = script(ARMS), Settings(only=DOUBLE)

        chosen = selected(parsed, FULL, settings)

        assert [case.id for case in chosen] == [
            case.id.removeprefix("case[").partition("]")[0] for case in played(parsed, FULL).cases
        ]


class TestForwards:
    def test_there_is_one_for_each_leaf_and_dtype(self, suite: dict[str, ScriptResult]) -> None:
        counted = {name: result.forwards.oracle for name, result in suite.items()}

        assert counted == {name: result.forwards.leaves * _dtypes(result) for name, result in suite.items()}

    def test_the_sum_over_the_suite_is_that_of_its_scripts(self, suite: dict[str, ScriptResult]) -> None:
        total = sum((result.forwards for result in suite.values()), Forwards())

        assert total.oracle == sum(result.forwards.leaves * _dtypes(result) for result in suite.values())
        assert total.oracle > 100

    def test_every_case_of_the_suite_passes_or_is_not_supported(self, suite: dict[str, ScriptResult]) -> None:
        told = {case.script: case.reason for result in suite.values() for case in result.cases if case.reason}

        assert {case.outcome for result in suite.values() for case in result.cases} == {
            Outcome.PASSED,
            Outcome.UNSUPPORTED,
        }
        assert set(told.values()) == {
            "needs a windowed layer",
            "the cache is 'growing' already",
            "cache 'growing' takes no room before it is filled",
        }


@pytest.fixture(scope="module")
def suite() -> dict[str, ScriptResult]:
    """Play two cases of every script of the shipped suite on one configuration, but for those that want a process."""
    with Run(Settings(only={"cache": ("growing",)})) as running:
        return {
            parsed.name: running.run_script(parsed, FULL, running.selected(parsed, FULL)[:2])
            for parsed in read_scripts([], suite=True)
            if "fresh" not in parsed.needs
        }


def _dtypes(result: ScriptResult) -> int:
    """Return in how many dtypes a script ran, the deciding one among them."""
    return len({case.dtype for case in result.cases if case.dtype} | {"float64"})
