"""The quick set, wherever scripts are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evseq.cli import main
from evseq.pipeline import Settings, qualify, read_scripts
from evseq.script.library import quick
from evseq.verdict.result import Exit

FEW = ("greedy-continuation", "half-precision")

DOUBLE = Settings(only={"dtype": ("float64",), "cache": ("growing",), "padding": ("left",)})


@pytest.fixture(autouse=True)
def few(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - it says where the test works
    """Let the quick set be two scripts."""
    monkeypatch.setattr("evseq.script.library.quick", lambda: FEW)


def test_it_is_read_as_the_suite_is() -> None:
    assert [script.name for script in read_scripts([], quick=True)] == list(FEW)


def test_a_script_of_it_and_of_the_suite_is_read_once() -> None:
    assert len(read_scripts([], suite=True, quick=True)) == len(read_scripts([], suite=True))


def test_a_person_asks_for_it_in_python() -> None:
    result = qualify("reference:full", "quick", settings=DOUBLE)

    assert result.passed
    assert {case.script for case in result.cases} == set(FEW)


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


def test_its_names_are_those_of_the_file() -> None:
    assert quick() == tuple(sorted(quick()))
