"""Taking away what catches a fault: the pair turns red, and only then."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from evseq.cache.fields import FIELDS
from evseq.verdict.checks import CHECKS
from evseq.verdict.result import Check

TOOL = Path(__file__).resolve().parents[2] / "tools" / "prove_catches.py"


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = spec_from_file_location("prove_catches", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["prove_catches"] = module
    spec.loader.exec_module(module)
    return module


def test_a_fault_is_caught_by_what_it_names_and_only_by_that(tool: Any) -> None:
    proof = tool.prove("crop-shrinks-buffer")

    assert proof.holds
    assert proof.intact == ("crop", Check.ACCOUNTING)
    assert proof.unchecked == ("append", Check.PARITY)
    assert proof.uneventful == "no script is left"


def test_a_fault_on_both_sides_is_caught_by_a_golden_and_by_nothing_else(tool: Any) -> None:
    proof = tool.prove("both-attention-scale")

    assert proof.intact == ("prefill", Check.GOLDEN)
    assert proof.unchecked == "nothing is found"


def test_a_claim_that_something_else_would_meet_does_not_hold(tool: Any) -> None:
    lead, other = ("append", Check.PARITY), ("crop", Check.ACCOUNTING)

    assert tool.Proof(fault="x", named=lead, intact=lead, unchecked=other, uneventful="no script is left").holds
    assert not tool.Proof(fault="x", named=lead, intact=other, unchecked=other, uneventful=other).holds
    assert not tool.Proof(fault="x", named=lead, intact=lead, unchecked=lead, uneventful=other).holds
    assert not tool.Proof(fault="x", named=lead, intact=lead, unchecked=other, uneventful=lead).holds


def test_a_check_is_back_afterwards(tool: Any) -> None:
    before = list(CHECKS)

    with tool.without_check(Check.PARITY):
        assert Check.PARITY not in CHECKS

    assert list(CHECKS) == before


def test_a_field_out_of_the_comparison_turns_its_script_red(tool: Any) -> None:
    pair = next(pair for pair in tool.field_pairs() if pair[0] == "prefix.tokens")

    proof = tool.prove_field(pair)

    assert proof.holds
    assert (proof.intact, proof.without) == ("nothing is found", ("reload", Check.REFUSAL))


def test_every_field_has_a_script_that_expects_it_to_be_refused(tool: Any) -> None:
    assert {name for name, script, _ in tool.field_pairs() if script is not None} == set(FIELDS)


def test_a_field_that_nobody_expects_to_be_refused_holds_nothing(tool: Any) -> None:
    assert not tool.prove_field(("salt", None, {})).holds
