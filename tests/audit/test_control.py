"""What turns a script red is the fault and not its wrapping: in a wrapping without a fault no script is red.

And a script asks for nothing that the audit would not expect of it: what it does not come upon it is not tried with.
"""

from __future__ import annotations

import pytest

from evseq.audit.reach import SELDOM, asked
from evseq.pipeline import Run, Settings, read_scripts
from evseq.script.document import Script
from evseq.verdict.result import Outcome
from planted.wrapped import NOTED

HEALTHY = "planted.wrapped:healthy"

FEW = 4
"""Cases of each script: those of its first arms."""


@pytest.mark.parametrize("script", read_scripts([], suite=True), ids=lambda script: script.name)
def test_no_script_is_red_in_a_wrapping_without_a_fault_or_asks_for_more_than_expected(script: Script) -> None:
    NOTED.clear()
    with Run(Settings(only={"dtype": ("float64",)})) as running:
        chosen = running.selected(script, HEALTHY)[:FEW]

        cases = running.run_script(script, HEALTHY, chosen).cases

    assert [str(finding) for case in cases for finding in case.findings] == []
    assert asked(script.events) >= SELDOM & NOTED
    assert {case.outcome for case in cases} <= {Outcome.PASSED, Outcome.UNSUPPORTED}
