"""Another engine, in under a hundred lines, plays what the reference plays."""

from __future__ import annotations

from pathlib import Path

import pytest

from evseq.engines import conformance
from evseq.pipeline import Settings, read_scripts, run
from evseq.verdict.result import Outcome, Result
from planted import second
from playing import DOUBLE

TARGET = "planted.second:Second"

CHANGES = ("cannot change", "no cache kind", "cache 'plain' takes no room")
"""How the reasons begin for which a script cannot be played that changes the engine or its cache."""


@pytest.fixture(scope="module")
def result() -> Result:
    """Play the shipped suite, in the deciding arm, as far as it needs no window and no pool."""
    scripts = [script for script in read_scripts([], suite=True) if not {"window", "pool"} & set(script.needs)]
    return run(scripts, [TARGET], settings=Settings(only=DOUBLE))


def test_the_file_has_under_a_hundred_lines() -> None:
    assert second.__file__ is not None
    lines = Path(second.__file__).read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.strip()]) < 100


def test_it_conforms_but_for_refusing_what_does_not_fit() -> None:
    assert {breach.rule for breach in conformance.check(second.Second())} == {"layout", "misfit"}


def test_it_passes_everything_it_plays(result: Result) -> None:
    assert result.passed
    assert result.counts[Outcome.FAILED] == 0


def test_it_plays_four_fifths_of_the_scripts_that_need_no_window_and_leave_the_engine_alone(result: Result) -> None:
    changing = {case.script for case in result.cases if (case.reason or "").startswith(CHANGES)}
    every = {case.script for case in result.cases} - changing
    passed = {case.script for case in result.cases if case.outcome is Outcome.PASSED}

    assert len(every) >= 15
    assert len(passed) >= 0.8 * len(every)
    joining = {case.script for case in result.cases if case.reason == "needs join"}
    assert "rows-join" in joining
    assert every - passed == {"text-prompts", "refused-tokenizer"} | joining
