"""The catalogue keeps its promises: areas, sides, reports."""

from __future__ import annotations

import inspect
import re
from collections import Counter

import pytest

from evseq.cache.fields import FIELDS
from evseq.faults.both import Changed
from evseq.faults.catalogue import FAULTS, ROOMS
from evseq.faults.combined import Telling
from evseq.faults.fault import Area, Fault, Side
from evseq.faults.reuse import Blaming, Keyed
from evseq.script.library import SUITE
from evseq.verdict.result import Check

SIDES = Counter(fault.side for fault in FAULTS.values())


def test_there_are_at_least_70_faults() -> None:
    assert len(FAULTS) >= 70


def test_every_fault_fills_what_its_base_leaves_open() -> None:
    assert [fault.name for fault in FAULTS.values() if inspect.isabstract(fault.broken)] == []


@pytest.mark.parametrize("base", [Blaming, Changed, Keyed, Telling])
def test_a_fault_that_does_not_is_no_engine(base: type) -> None:
    assert inspect.isabstract(base)


def test_no_two_faults_have_one_name() -> None:
    written = sum(isinstance(found, Fault) for room in ROOMS for found in vars(room).values())

    assert len(FAULTS) == written + len(FIELDS)


def test_every_area_has_three_faults() -> None:
    counts = Counter(fault.area for fault in FAULTS.values())

    assert {area: counts[area] for area in Area if counts[area] < 3} == {}


def test_every_side_has_its_faults() -> None:
    assert SIDES[Side.BOTH] >= 6
    assert SIDES[Side.GUARD] >= 8
    assert SIDES[Side.ACCOUNTING] >= 5
    assert set(SIDES) == set(Side)


def test_every_check_of_a_replay_has_a_fault() -> None:
    assert {fault.catches.check for fault in FAULTS.values()} == set(Check) - {Check.ARITHMETIC}


def test_only_a_golden_catches_what_both_sides_get_wrong() -> None:
    both = {fault.name for fault in FAULTS.values() if fault.side is Side.BOTH}

    assert both == {fault.name for fault in FAULTS.values() if fault.catches.check is Check.GOLDEN}


def test_every_report_is_a_public_one() -> None:
    odd = [fault.report for fault in FAULTS.values() if not re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", fault.report)]

    assert odd == []


def test_a_report_has_an_address() -> None:
    assert FAULTS["pads-counted"].url == "https://github.com/huggingface/transformers/issues/22161"


def test_every_fault_says_in_a_sentence_what_is_wrong() -> None:
    assert [fault.name for fault in FAULTS.values() if not re.fullmatch(r"[A-Z].{20,150}\.", fault.about)] == []


def test_every_fault_names_a_script_of_the_suite() -> None:
    shipped = {file.name.removesuffix(".evseq.yaml") for file in SUITE.glob("*.evseq.yaml")}

    assert {fault.catches.script for fault in FAULTS.values()} <= shipped
