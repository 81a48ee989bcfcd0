from __future__ import annotations

import pytest

from evseq.checking import check, engine_name, read_scripts
from evseq.errors import ScriptError
from evseq.script.library import SUITE
from playing import script

IMPOSSIBLE = "rows: {a: [1, 2]}\nevents: [{prefill: {rows: {a: 3}}}]\n"


def test_every_script_of_the_suite_is_fine() -> None:
    check(read_scripts([], suite=True), None, mode="pairwise")


def test_the_problems_of_all_scripts_are_told_at_once() -> None:
    scripts = [script(IMPOSSIBLE, name="one"), script(IMPOSSIBLE, name="two")]

    with pytest.raises(ScriptError) as error:
        check(scripts, None, mode="pairwise")

    assert len(error.value.problems) == 2


def test_a_script_of_the_suite_that_is_also_named_is_read_once() -> None:
    named = SUITE / "crop-per-row.evseq.yaml"

    assert read_scripts([named], suite=True) == read_scripts([], suite=True)


def test_a_target_begins_with_the_name_of_its_engine() -> None:
    assert [engine_name(text) for text in ("reference:full", "reference", None)] == ["reference", "reference", ""]
