"""Impossible and vacuous scripts: every message is an address, the evidence and a next step, word by word.

Beside each `NN-name.evseq.yaml` of the folder `static` stands what an author is told, in `NN-name.txt`. A script is
checked on the target it names, without a target if it names none.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import evseq
from evseq.errors import Problem, ScriptError
from evseq.pipeline import Settings, check, read_scripts

STATIC = Path(__file__).parent / "static"
FILES = sorted(path.name for path in STATIC.glob("*.evseq.yaml"))
HEALTHY = [Path(evseq.__file__).parent / "script" / "suite"]


def refused(name: str) -> ScriptError:
    (script,) = read_scripts([name])
    with pytest.raises(ScriptError) as error:
        check([script], next(iter(script.targets), None), Settings(mode="all"))
    return error.value


@pytest.fixture(autouse=True)
def _beside_the_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(STATIC)


@pytest.mark.parametrize("name", FILES)
def test_an_impossible_script_is_told_word_by_word(name: str) -> None:
    expected = Path(name.removesuffix(".evseq.yaml") + ".txt").read_text(encoding="utf-8")
    assert f"{refused(name)}\n" == expected


@pytest.mark.parametrize("name", FILES)
def test_every_problem_has_an_address_and_a_next_step_in_reading_order(name: str) -> None:
    problems = refused(name).problems
    assert all(problem.message and problem.help and problem.excerpt for problem in problems)
    assert list(problems) == sorted(problems, key=_place)


def _place(problem: Problem) -> tuple[int, int]:
    return problem.place.line, problem.place.column


def test_there_are_scripts_enough_and_no_text_without_a_script() -> None:
    texts = sorted(path.name for path in STATIC.glob("*.txt"))
    assert len(FILES) >= 40
    assert texts == [name.removesuffix(".evseq.yaml") + ".txt" for name in FILES]


@pytest.mark.parametrize("target", [None, "reference"])
def test_healthy_scripts_are_not_complained_of(target: str | None) -> None:
    check(read_scripts(HEALTHY), target, Settings())


def test_problems_of_all_scripts_are_told_at_once() -> None:
    with pytest.raises(ScriptError) as error:
        check(read_scripts(FILES), None, Settings())
    assert {problem.place.file for problem in error.value.problems} >= set(FILES[:20])
