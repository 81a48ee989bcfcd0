"""Every field changed for real: control, refusal by name and place, damage or a reason, and admitted once restored."""

from __future__ import annotations

from functools import cache

import pytest

from evseq.cache.fields import FIELDS
from evseq.cache.mutations import MUTATIONS, Reach
from evseq.engines.registry import find
from evseq.pipeline import Settings, run
from evseq.script.refusals import damaged, refusals
from evseq.verdict.result import Outcome, Result

ARMS = {"dtype": ("float64",), "padding": ("holes",)}

SCRIPTS = refusals(find("reference:full").describe())
WINDOWED = refusals(find("reference:window").describe())

ONLY_FIXED = {"cache.shapes"}
"""Fields that only a cache with room can differ in."""

ONLY_ROUNDED = {"cache.quantisation"}
"""Fields that only a cache has that rounds what it holds."""

ELSEWHERE = {"numeric.device"}
"""Fields that take a machine with more than one of them."""


@cache
def judged(target: str, field: str) -> Result:
    scripts = SCRIPTS if target == "reference:full" else WINDOWED
    kinds = ("fixed",) if field in ONLY_FIXED else ("quantised",) if field in ONLY_ROUNDED else ("growing",)
    return run([scripts[field]], [target], settings=Settings(only={**ARMS, "cache": kinds}))


def test_no_field_is_without_a_mutation() -> None:
    assert list(MUTATIONS) == list(FIELDS)


def test_no_field_of_anything_alive_is_without_a_script() -> None:
    unreachable = {name for name, mutation in MUTATIONS.items() if mutation.reach is Reach.RECORD}
    assert SCRIPTS.keys() == FIELDS.keys() - unreachable
    assert unreachable == {"numeric.library", "format.version"}


def test_what_follows_from_a_mutation_are_fields_too() -> None:
    assert {name for mutation in MUTATIONS.values() for name in mutation.also} <= FIELDS.keys()


@pytest.mark.parametrize("target", ["reference:full", "reference:window"])
@pytest.mark.parametrize("field", sorted(SCRIPTS.keys() - ELSEWHERE))
def test_a_changed_field_is_refused_and_admitted_once_restored(field: str, target: str) -> None:
    result = judged(target, field)
    assert [str(finding) for case in result.cases for finding in case.findings] == []
    assert {case.outcome for case in result.cases} == {Outcome.PASSED}


@pytest.mark.parametrize("field", sorted(name for name in SCRIPTS.keys() - ELSEWHERE if FIELDS[name].reason))
def test_a_field_of_policy_is_noted_with_its_reason(field: str) -> None:
    told = {note.message for case in judged("reference:full", field).cases for note in case.notes}
    assert f"{field}: refused by evseq's guard; {FIELDS[field].reason}" in told


def test_a_field_that_takes_another_machine_is_counted_as_unsupported() -> None:
    (case, *_) = judged("reference:full", "numeric.device").cases
    assert (case.outcome, case.reason) == (Outcome.UNSUPPORTED, "cannot change numeric.device while it lives")


@pytest.mark.parametrize("region", damaged(find("reference:full").describe()))
def test_damage_to_a_region_of_the_file_is_told_and_the_file_itself_admitted(region: str) -> None:
    script = next(script for name, script in damaged(find("reference:window").describe()).items() if name == region)
    assert run([script], ["reference:window"], settings=Settings(only=ARMS)).passed
