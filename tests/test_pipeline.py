from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from evseq import pipeline
from evseq.engines.registry import find
from evseq.errors import ScriptError, TargetError, UsageError
from evseq.geometry import Description, Dtype
from evseq.pipeline import Run, ScriptResult, Settings, check, qualify, read_scripts, run, selected
from evseq.verdict.arithmetic import one_head
from evseq.verdict.result import Case, Check, Exit, Forwards, Outcome
from planted.second import Second
from playing import DOUBLE, failed, first, lines, played, script

FULL, ALIBI = "reference:full", "reference:alibi"

ONE = "rows: {a: [1, 2, 3]}\nevents: [{prefill: {rows: {a: 2}}}, {append: {next: 1}}]\n"

ARMS = """\
rows:
  a: {random: {length: 9, seed: 1}}
  b: [17, 4, 59, 3]
arms:
  padding: [left, right]
  cache: [growing, fixed]
  dtype: [float64, float32]
events:
  - prefill: {rows: {a: 7, b: 3}}
  - append: {next: 1}
"""

CROP = """\
rows: {a: [1, 2, 3]}
events: [{prefill: [a]}, {crop: {by: 1}}, {append: {ids: {a: [5]}}}]
"""

ELSEWHERE = """\
rows: {a: [1, 2, 3]}
events:
  - prefill: [a]
  - serialize: {to: mid}
  - reload: {from: mid, process: fresh, as: elsewhere}
  - append: {ids: {a: [5]}, on: elsewhere}
"""


@dataclass
class Watching:
    """Writes down what it is told, and raises when told of one case."""

    stop_at: int | None = None
    told: list[str] = field(default_factory=list)
    finished_: list[Case] = field(default_factory=list)

    def planned(self, cases: int) -> None:
        self.told.append(f"{cases} planned")

    def started(self, script: str, target: str) -> None:
        self.told.append(f"{script} on {target}")

    def finished(self, case: Case) -> None:
        self.finished_.append(case)
        self.told.append(case.id)
        if len(self.finished_) == self.stop_at:
            raise KeyboardInterrupt


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


class TestUnsupported:
    def test_it_is_counted_and_listed_with_its_reason(self) -> None:
        result = played([script(CROP, name="crops"), script(ONE, name="one")], "planted.engines:no_crop")

        assert result.exit is Exit.PASSED
        assert result.counts == {Outcome.PASSED: 1, Outcome.FAILED: 0, Outcome.UNSUPPORTED: 1}
        assert [(case.script, case.reason) for case in result.cases] == [("crops", "needs crop"), ("one", None)]

    def test_no_supported_case_at_all_is_nothing(self) -> None:
        result = played(CROP, "planted.engines:no_crop")

        assert result.exit is Exit.NOTHING
        assert not result.passed

    def test_no_case_at_all_is_nothing_too(self) -> None:
        result = played(ARMS, FULL, only={"padding": ("holes",)})

        assert (result.cases, result.exit) == ((), Exit.NOTHING)

    def test_a_filter_that_fits_nothing_is_refused(self) -> None:
        with pytest.raises(UsageError) as refused:
            played(ARMS, FULL, only={"dtype": ("float64", "float23")})

        assert str(refused.value) == (
            "only: arm 'dtype' has no value 'float23' in these scripts\n  help: did you mean 'float32'?"
        )

    def test_an_engine_that_numbers_tokens_itself_is_seen_to_repeat_itself(self) -> None:
        result = played(ONE, "planted.engines:one_row_only")

        assert result.passed
        assert result.cases[0].notes == ()


class TestBroken:
    def test_an_uncached_side_that_raises_fails_every_supported_case(self) -> None:
        result = played([script(ONE, name="one"), script(ARMS, name="arms")], "planted.raising:uncached", only={})

        assert result.exit is Exit.FAILED
        assert result.counts[Outcome.FAILED] == len(result.cases) == 1 + 4
        assert lines(result)[0] == (
            "one.evseq.yaml:5:11: prefill: reference: the uncached forward raised OSError: uncached has failed"
        )

    def test_a_case_that_was_not_supported_stays_so(self) -> None:
        result = played(ARMS, "planted.engines:single_and_failing", only={})

        assert result.counts == {Outcome.PASSED: 0, Outcome.FAILED: 2, Outcome.UNSUPPORTED: 2}

    def test_a_target_that_cannot_be_loaded_fails_and_the_others_run(self) -> None:
        result = played(ONE, "planted.raising:load", FULL)

        assert [(case.target, case.outcome) for case in result.cases] == [
            ("planted.raising:load", Outcome.FAILED),
            (FULL, Outcome.PASSED),
        ]
        assert first(result) == (
            "case.evseq.yaml:5:11: prefill: reference: "
            "loading planted.raising:load in float64 raised OSError: load has failed"
        )

    def test_it_is_loaded_once_however_many_scripts_ask(self) -> None:
        loader = Failing()

        result = played([script(ONE, name=name) for name in ("one", "two", "three")], loader)

        assert len(failed(result)) == 3
        assert loader.loaded == 1

    def test_options_that_cannot_be_loaded_fail_their_cases(self) -> None:
        options = "rows: {a: [1, 2]}\narms:\n  memory.kernel: [good, bad]\nevents: [{prefill: [a]}]\n"

        result = played(options, Optioned())

        assert [case.outcome for case in result.cases] == [Outcome.PASSED, Outcome.FAILED]
        assert first(result) == (
            "case.evseq.yaml:7:11: prefill: completed: session 'main': "
            "loading memory:Optioned in float64 with kernel=bad raised ValueError: no such kernel"
        )


class TestInterrupted:
    def test_finished_cases_are_kept(self) -> None:
        watching = Watching(stop_at=3)

        result = played([script(ONE, name="one"), script(ARMS, name="arms")], FULL, only={}, watch=watching)

        assert (result.interrupted, result.exit) == (True, Exit.INTERRUPTED)
        assert list(result.cases) == watching.finished_
        assert [case.script for case in result.cases] == ["one", "arms", "arms"]

    def test_an_interrupt_in_an_engine_ends_the_run_too(self) -> None:
        scripts = [script(ONE, name="one"), script(ONE, name="two")]

        result = played(scripts, FULL, "planted.faults:interrupted", "reference:alibi")

        assert result.exit is Exit.INTERRUPTED
        assert [case.target for case in result.cases] == [FULL, FULL]

    def test_a_watcher_is_told_everything_in_order(self) -> None:
        watching = Watching()

        result = played([script(ONE, name="one"), script(CROP, name="two")], FULL, watch=watching)

        assert watching.told == [
            "2 planned",
            f"one on {FULL}",
            f"one[float64][{FULL}]",
            f"two on {FULL}",
            f"two[float64][{FULL}]",
        ]
        assert tuple(watching.finished_) == result.cases


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
        assert set(told.values()) == {"needs a windowed layer"}


@pytest.fixture(scope="module")
def suite() -> dict[str, ScriptResult]:
    """Play two cases of every script of the shipped suite on one configuration, but for those that want a process."""
    with Run(Settings(only={"cache": ("growing",)})) as running:
        return {
            parsed.name: running.run_script(parsed, FULL, running.selected(parsed, FULL)[:2])
            for parsed in read_scripts([], suite=True)
            if "fresh" not in parsed.needs
        }


class Failing(Second):
    """A loader that counts how often it fails."""

    loaded = 0

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Second:
        self.loaded += 1
        raise OSError("the weights are gone")


class Optioned(Second):
    """A loader with an option of which one value does not work."""

    def describe(self) -> Description:
        return replace(super().describe(), options={"kernel": ("good", "bad")})

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Second:
        if options.get("kernel") == "bad":
            raise ValueError("no such kernel")
        return super().load(dtype, options)


def _dtypes(result: ScriptResult) -> int:
    """Return in how many dtypes a script ran, the deciding one among them."""
    return len({case.dtype for case in result.cases if case.dtype} | {"float64"})
