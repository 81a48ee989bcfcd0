"""The check against goldens, red on planted faults and silent on a healthy engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from accepting import accepted, held, terms
from evseq.golden.terms import Need
from evseq.pipeline import Settings, run
from evseq.verdict.result import Check, Note, Outcome
from playing import failed, first, lines, script, without_numbers

HEALTHY = "reference:full"
BOTH, CACHED, UNCACHED = "planted.sides:both_sides", "planted.sides:cached_side", "planted.sides:uncached_side"

APPEND = script("""\
rows:
  a: {random: {length: 10, seed: 1}}
  b: [17, 4, 59, 3, 8, 21]
arms:
  padding: [left, right]
  dtype: [float64, float32, bfloat16]
events:
  - prefill: {rows: {a: 7, b: 3}}
  - append: {next: 2}
""")

LONGER = script("""\
rows:
  a: {random: {length: 10, seed: 1}}
  b: [17, 4, 59, 3, 8, 21]
events:
  - prefill: {rows: {a: 7, b: 3}}
  - append: {next: 3}
""")

SHOWN = "case.evseq.yaml:11:5: prefill: row 'a' index 1"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the healthy engine's golden."""
    folder = tmp_path_factory.mktemp("goldens")
    accepted([APPEND], HEALTHY, terms(folder, HEALTHY))
    return folder


def test_a_healthy_engine_is_held_to_it_in_every_arm_and_dtype(root: Path) -> None:
    result = run([APPEND], [HEALTHY], settings=Settings(goldens=terms(root, HEALTHY)))

    assert {case.dtype for case in result.cases} == {"float64", "float32", "bfloat16"}
    assert lines(result) == []
    assert [note for case in result.cases for note in case.notes] == []
    assert all(0 < (case.golden_share or 0) < 1 for case in result.cases)


def test_a_fault_on_both_sides_turns_golden_red_and_leaves_parity_silent(root: Path) -> None:
    result = held([APPEND], BOTH, terms(root, BOTH))

    told = "golden: logit # is #, accepted # at revision v1: off by #, allowed # in float64"
    assert without_numbers(first(result)) == f"{SHOWN}: {told}"
    assert {finding.check for case in result.cases for finding in case.findings} == {Check.GOLDEN}
    assert failed(result)[0].findings[0].cause == (
        "cached and uncached agree: both moved alike since the golden was accepted"
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_fault_on_the_cached_side_turns_both_red(root: Path, dtype: str) -> None:
    settings = Settings(only={"dtype": (dtype,)}, goldens=terms(root, CACHED))

    result = run([APPEND], [CACHED], settings=settings)

    assert {finding.check for case in result.cases for finding in case.findings} == {Check.PARITY, Check.GOLDEN}
    assert failed(result)[0].findings[0].cause == "the cached step moved: it misses the accepted logits too"


def test_a_fault_on_the_uncached_side_turns_both_red_and_is_told_apart(root: Path) -> None:
    result = held([APPEND], UNCACHED, terms(root, UNCACHED))

    assert {finding.check for case in result.cases for finding in case.findings} == {Check.PARITY, Check.GOLDEN}
    red = [finding for finding in failed(result)[0].findings if finding.check is Check.GOLDEN]
    told = "golden: the uncached forward: logit # is #, accepted # at revision v1: off by #, allowed # in float64"
    assert without_numbers(str(red[0])) == f"{SHOWN}: {told}"
    assert failed(result)[0].findings[0].cause == (
        "the uncached forward moved: the cached step still gives the accepted logits"
    )


def test_a_history_that_the_golden_lacks_is_told_where_it_begins(root: Path) -> None:
    result = held([LONGER], HEALTHY, terms(root, HEALTHY))

    told = (
        "script, or what its rows hold, was changed since, or it is of another script of this name; --update-goldens "
        "writes a candidate"
    )
    where = "case.evseq.yaml:9:5: append: row 'a' index 9: golden"
    assert lines(result) == [f"{where}: the golden of revision v1 has no such history: the {told}"]


def test_a_golden_that_is_required_and_not_there_fails_every_case(tmp_path: Path) -> None:
    result = held([APPEND], HEALTHY, terms(tmp_path, HEALTHY))

    told = "golden: no golden of small/v1/case; --update-goldens writes a candidate"
    assert lines(result) == [f"case.evseq.yaml:11:5: prefill: {told}"] * 2


def test_one_that_is_not_required_is_counted_as_not_recorded(tmp_path: Path) -> None:
    result = held([APPEND], HEALTHY, terms(tmp_path, HEALTHY, need=Need.OPTIONAL))

    told = "no golden of small/v1/case; --update-goldens writes a candidate"
    assert {case.outcome for case in result.cases} == {Outcome.PASSED}
    assert [note for case in result.cases for note in case.notes] == [Note(kind="not recorded", message=told)] * 2
