"""The quick set, wherever scripts are named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evseq.cli import main
from evseq.pipeline import Settings, qualify, read_scripts, run
from evseq.script.library import SUITE
from evseq.script.picks import Pick
from evseq.verdict.result import Exit

FEW = ("greedy-continuation", "half-precision")

OWN = """\
evseq: 1
name: own
about: A test.
rows: {a: [1, 2, 3]}
arms: {dtype: [float64, float32]}
allow: {check: parity, because: nothing, within: 2}
events: [prefill: [a]]
"""

DOUBLE = Settings(only={"dtype": ("float64",), "cache": ("growing",), "padding": ("left",)})


@pytest.fixture(autouse=True)
def few(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - it says where the test works
    """Let the quick set be a case each of two scripts, and in one every cache kind."""
    picks = (Pick(script=FEW[0]), Pick(script=FEW[1], arms={"padding": "right", "cache": "all"}))
    monkeypatch.setattr("evseq.script.quick.quick", lambda: picks)


def test_it_is_read_as_the_suite_is() -> None:
    assert [script.name for script in read_scripts([], quick=True)] == list(FEW)


def test_a_script_of_it_that_is_also_of_the_suite_is_whole() -> None:
    both = read_scripts([], suite=True, quick=True)

    assert both == read_scripts([], suite=True)
    assert not any(script.picks for script in both)


def test_a_script_of_it_that_is_also_named_is_whole() -> None:
    first, second = read_scripts([SUITE / f"{FEW[0]}.evseq.yaml"], quick=True)

    assert [(script.name, bool(script.picks)) for script in (first, second)] == [(FEW[1], True), (FEW[0], False)]


def test_only_its_cases_are_played() -> None:
    result = qualify("reference:full", "quick")

    assert result.passed
    assert [case.id.partition("]")[0] for case in result.cases] == [
        "greedy-continuation[1-left-growing-float64",
        "half-precision[float64-right-growing",
        "half-precision[float64-right-fixed",
        "half-precision[float64-right-ring",
    ]


def test_what_no_case_ran_in_is_not_judged() -> None:
    (judged,) = qualify("reference:full", "quick", settings=DOUBLE).judged

    assert judged.judged[0] == "float64"
    assert set(judged.not_judged) >= {"float32", "bfloat16"}


def test_an_arm_that_is_filtered_has_all_values_of_the_filter() -> None:
    narrow = Settings(only={"dtype": ("float32",), "cache": ("growing",)})

    assert [case.id.partition("]")[0] for case in qualify("reference:full", "quick", settings=narrow).cases] == [
        "greedy-continuation[1-left-growing-float32",
    ]


def test_it_catches_a_planted_fault() -> None:
    assert qualify("reference:full+later-layers-not-selected", "quick", settings=DOUBLE).exit is Exit.FAILED


@pytest.mark.parametrize("command", [["run"], ["qualify"]])
def test_a_person_asks_for_it_on_the_command_line(command: list[str], here: Path) -> None:
    target, arms = ["--target", "reference:full"], ["--arm", "dtype=float64", "--arm", "cache=growing"]

    assert main([*command, "--quick", *target, *arms, "--jsonl", "run.jsonl", "-q"]) == Exit.PASSED

    first, *cases = map(json.loads, (here / "run.jsonl").read_text().splitlines()[:-1])
    assert first["scripts"] == ["quick"]
    assert {case["script"] for case in cases} == set(FEW)


def test_scripts_of_ones_own_are_run_besides(here: Path) -> None:
    target, arms = ["--target", "reference:full"], ["--arm", "dtype=float64", "--arm", "padding=left"]

    assert main(["run", "green.evseq.yaml", "--quick", *target, *arms, "--jsonl", "run.jsonl", "-q"]) == Exit.PASSED

    cases = map(json.loads, (here / "run.jsonl").read_text().splitlines()[1:-1])
    assert {case["script"] for case in cases} == {*FEW, "green"}


def test_what_the_cases_left_out_may_need_tolerated_is_no_finding(here: Path) -> None:
    (here / "own.evseq.yaml").write_text(OWN)
    (own,) = read_scripts([here / "own.evseq.yaml"])

    whole = run([own], ["reference:full"], settings=Settings())
    few = run([replace(own, picks=(Pick(script="own"),))], ["reference:full"], settings=Settings())

    assert [finding.message for finding in whole.findings] == ["tolerates nothing in any case: take it out"]
    assert (len(whole.cases), len(few.cases), few.findings) == (2, 1, ())
