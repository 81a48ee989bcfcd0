"""Whatever the registries have is on the stand: an event, field, cache kind, engine or check brings what tries it."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from evseq.cache.fields import FIELDS
from evseq.engines.registry import find, targets
from evseq.faults.catalogue import FAULTS
from evseq.faults.guard import LEFT_OUT
from evseq.pipeline import Settings, read_scripts, selected
from evseq.script.events import EVENTS
from evseq.script.library import SUITE
from evseq.script.quick import QUICK, quick
from evseq.script.refusals import refused
from evseq.verdict.checks import CHECKS
from evseq.verdict.result import Check

SCRIPTS = read_scripts([], suite=True)

WORDS = {event.word for script in SCRIPTS for event in script.events}


def kinds(target: str) -> set[str]:
    return {kind.name for kind in find(target).describe().caches}


def test_every_event_has_a_script() -> None:
    assert set(EVENTS) - WORDS == set()


def test_every_field_is_refused_by_a_script() -> None:
    assert set(FIELDS) == frozenset().union(*map(refused, SCRIPTS))


def test_every_field_is_left_out_by_a_fault() -> None:
    assert {f"guard-without-{name.replace('.', '-')}" for name in FIELDS} <= set(FAULTS)


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_fault_that_leaves_out_a_field_names_a_script_that_expects_it_refused(name: str) -> None:
    (script,) = (script for script in SCRIPTS if script.name == LEFT_OUT[name].catches.script)

    assert name in {f"guard-without-{field.replace('.', '-')}" for field in refused(script)}


@pytest.mark.parametrize("target", targets("reference"))
def test_every_cache_kind_is_played_by_a_script(target: str) -> None:
    cases = [case for script in SCRIPTS for case in selected(script, target, Settings())]

    assert kinds(target) <= {case.arms.get("cache") for case in cases}


def test_every_engine_has_faults() -> None:
    engines = {entry.name for entry in entry_points(group="evseq.engines")}

    assert engines <= {target.partition(":")[0] for fault in FAULTS.values() for target in fault.shows}


def test_every_check_has_a_fault() -> None:
    assert {fault.catches.check for fault in FAULTS.values()} == set(CHECKS)
    assert set(Check) - set(CHECKS) == {Check.ARITHMETIC}  # it is of evseq's own arithmetic and judges no engine


def test_the_quick_set_is_of_the_suite() -> None:
    arms = {script.name: set(script.arms) for script in SCRIPTS}

    assert {picked.script for picked in quick()} <= set(arms)
    assert all(set(picked.arms) <= arms[picked.script] for picked in quick())
    assert QUICK.parent == SUITE


def test_the_quick_set_is_written_as_the_audit_writes_it() -> None:
    told = QUICK.read_text(encoding="utf-8").splitlines()

    assert told == [str(picked) for picked in quick()]
    assert told == sorted(set(told))


def test_the_quick_set_is_a_small_part() -> None:
    whole = [case for script in SCRIPTS for case in selected(script, "reference:full", Settings())]
    few = [case for script in read_scripts([], quick=True) for case in selected(script, "reference:full", Settings())]

    assert 0 < len(few) < len(whole) / 10
