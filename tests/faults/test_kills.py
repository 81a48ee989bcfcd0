"""Each fault turns the script it names red: the finding it names leads, in the deciding arm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from evseq.faults.catalogue import FAULTS
from evseq.faults.fault import Side
from evseq.pipeline import Run, Settings, read_scripts, run
from evseq.script.document import Script, parse
from evseq.script.library import SUITE
from evseq.script.source import parse_yaml
from evseq.verdict.result import Case, Check, Outcome

ONE_SIDED = [fault.name for fault in FAULTS.values() if fault.side is not Side.BOTH]

BOTH_SIDED = [fault.name for fault in FAULTS.values() if fault.side is Side.BOTH]


@cache
def suite_script(name: str) -> Script:
    """Read a script of the suite as if it were somebody's own, so that no golden takes part."""
    return parse(parse_yaml((SUITE / f"{name}.evseq.yaml").read_text(encoding="utf-8"), file=f"{name}.evseq.yaml"))


def replayed(script: str, target: str, arms: Mapping[str, str]) -> Iterator[Case]:
    """Run the cases of the deciding arm one by one: most faults show in the first."""
    only = {"dtype": ("float64",)} | {name: (value,) for name, value in arms.items()}
    with Run(Settings(only=only)) as running:
        read = suite_script(script)
        for chosen in running.selected(read, target):
            yield from running.run_script(read, target, (chosen,)).cases


@pytest.mark.parametrize("name", ONE_SIDED)
def test_its_script_is_red_and_the_finding_it_names_leads(name: str) -> None:
    fault = FAULTS[name]
    target, arms = next(iter(fault.shows.items()))

    cases = replayed(fault.catches.script, f"{target}+{name}", arms)

    leading = next(case.findings[0] for case in cases if case.findings)
    assert (leading.event, leading.check) == (fault.catches.event, fault.catches.check)


@pytest.mark.parametrize("name", BOTH_SIDED)
def test_parity_is_silent_where_both_sides_are_wrong_alike(name: str) -> None:
    fault = FAULTS[name]
    target, arms = next(iter(fault.shows.items()))

    cases = replayed(fault.catches.script, f"{target}+{name}", arms)

    assert {case.outcome for case in cases} == {Outcome.PASSED}


@pytest.mark.parametrize("name", BOTH_SIDED)
def test_a_golden_catches_what_both_sides_get_wrong_alike(name: str) -> None:
    fault = FAULTS[name]
    target = next(iter(fault.shows))
    scripts = read_scripts([str(SUITE / f"{fault.catches.script}.evseq.yaml")])

    result = run(scripts, [f"{target}+{name}"], settings=Settings(only={"dtype": ("float64",)}))

    leading = result.cases[0].findings[0]
    assert (leading.event, leading.check) == (fault.catches.event, Check.GOLDEN)
    assert f"{leading.cause}".startswith("cached and uncached agree: both moved alike since the golden was accepted")


def test_an_engine_wrapped_without_a_fault_is_the_healthy_one() -> None:
    assert {case.outcome for case in replayed("fork-chain", "planted.wrapped:healthy", {})} == {Outcome.PASSED}
    assert {case.outcome for case in replayed("buffers-kept", "planted.wrapped:healthy", {})} == {Outcome.PASSED}
    assert {case.outcome for case in replayed("crop-per-row", "planted.wrapped:healthy", {})} == {Outcome.PASSED}
