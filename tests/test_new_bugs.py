"""Scripts that `evseq new --bug` writes pass on a healthy engine, and turn red on one with such a bug."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evseq.pipeline import read_scripts
from evseq.script.new import Bug, create
from evseq.verdict.result import Exit
from playing import first, lines, played

CAUGHT = {
    Bug.BEAM: ("planted.faults:values_not_selected", r"13:5: append: row 'a' index 5: parity: "),
    Bug.REUSE: ("planted.faults:restore_recomputes", r"15:5: reload: row 'a' index 0: reuse: "),
    Bug.WINDOW: ("planted.faults:window_too_wide", r"15:5: append: row '[ab]' index \d+: parity: "),
    Bug.LOSSY: ("reference:full+packed-not-selected", r"18:5: append: row 'x' index \d+: solo: "),
    Bug.CALLER: ("planted.faults:mask_ignored", r"14:5: prefill: row 'meant' index 0: parity: "),
}


def written(bug: Bug, folder: Path) -> Path:
    return create(f"first-{bug}", folder, bug=bug)


@pytest.mark.parametrize("bug", Bug)
def test_it_passes_as_it_stands(bug: Bug, tmp_path: Path) -> None:
    result = played(read_scripts([written(bug, tmp_path)]), "reference:window", "reference:alibi", only={})
    assert (lines(result), result.exit) == ([], Exit.NOTHING if bug is Bug.WINDOW else Exit.PASSED)


@pytest.mark.parametrize("bug", Bug)
def test_an_engine_with_that_bug_turns_it_red(bug: Bug, tmp_path: Path) -> None:
    target, told = CAUGHT[bug]
    file = written(bug, tmp_path)
    assert re.match(rf"{re.escape(str(file))}:{told}", first(played(read_scripts([file]), target)))


@pytest.mark.parametrize("bug", Bug)
def test_comments_say_which_lines_take_the_report_s_numbers(bug: Bug, tmp_path: Path) -> None:
    text = written(bug, tmp_path).read_text(encoding="utf-8")
    assert "the report" in text
    assert text.count("  # ") >= 3
