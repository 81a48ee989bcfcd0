"""A few scripts whose parts are shared among processes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from evseq.golden.terms import Terms
from evseq.pipeline import Settings, run
from evseq.report.jsonl import JsonLines
from evseq.script.document import Script
from evseq.verdict.result import Result
from playing import ELSEWHERE, script

FULL, WINDOW = "reference:full", "reference:window"

STEP = "rows: {a: [1, 2, 3]}\nevents: [{prefill: {rows: {a: 2}}}, {append: {next: 1}}]\n"

GREEDY = """\
rows: {a: [1, 2, 3]}
arms: {cache: [growing, fixed], dtype: [float64, float32]}
events: [{prefill: [a]}, {append: {greedy: 2}}]
"""

SCRIPTS = (script(STEP, name="step"), script(GREEDY, name="greedy"), script(GREEDY, name="again"), script(ELSEWHERE))


def written(folder: Path, *, workers: int = 1, scheduler: str | None = None) -> Result:
    """Run a few scripts on two targets and a broken one, in a folder where all is written that can be."""
    folder.mkdir()
    os.chdir(folder)
    settings = Settings(
        record=Path("recordings"), goldens=Terms(root=Path("goldens")), workers=workers, scheduler=scheduler
    )
    targets = (FULL, WINDOW, "planted.faults:forwards_twice")
    file = JsonLines(Path("run.jsonl"), targets=targets, scripts=(), settings={})
    result = run(SCRIPTS, targets, settings=settings, watch=file)
    file.report(result)
    file.close()
    return result


def replace_file(one: Script, folder: Path) -> Script:
    """Give a script a file of its own, as a golden's must have."""
    return replace(one, source=replace(one.source, file=str(folder / f"{one.name}.evseq.yaml")))
