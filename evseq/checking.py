"""Checking: scripts as they are read, and what is wrong with them before a model loads. Loads no torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from evseq.engines.registry import find, targets
from evseq.errors import Problem, ScriptError
from evseq.geometry import Capability
from evseq.replay.opening import described, tokenized
from evseq.script import lower as lowering
from evseq.script.document import Script
from evseq.script.library import SUITE, read_all
from evseq.script.quick import quick_scripts

if TYPE_CHECKING:
    from evseq.geometry import Description
    from evseq.script.texts import Tokenize

__all__ = ["check", "engine_name", "read_scripts"]


def read_scripts(names: Sequence[str | Path], *, suite: bool = False, quick: bool = False) -> tuple[Script, ...]:
    """Read script files and folders of them (`**/*.evseq.yaml`), the shipped suite too if asked, or its quick set.

    A script of the quick set that is also named, or of the suite that is asked for, is whole.
    Raises ScriptError with the problems of every file at once; UsageError for a name that is neither.
    """
    whole = read_all([*([SUITE] if suite else []), *(Path(name) for name in names)])
    there = {script.source.file for script in whole}
    few = [script for script in quick_scripts() if script.source.file not in there] if quick else []
    return (*few, *whole)


def check(scripts: Sequence[Script], target: str | None, *, mode: str) -> None:
    """Check every case of every script without a forward; symbolically without a target.

    `mode` selects the combinations of arm values. Raises ScriptError with the problems of all scripts.
    """
    problems: list[Problem] = []
    for text in targets(target) if target else (None,):
        description, tokenize = (None, None) if text is None else _read(text)
        for script in scripts:
            try:
                lowering.check(script, description, engine=engine_name(text), mode=mode, tokenize=tokenize)
            except ScriptError as error:
                problems += error.problems
    if problems:
        raise ScriptError(problems)


def engine_name(target: str | None) -> str:
    """Return the name of a target's engine; nothing without a target."""
    return (target or "").partition(":")[0]


def _read(text: str) -> tuple[Description, Tokenize | None]:
    """Return a target's description, and its tokenizer if it declares one."""
    loader = find(text)
    description = described(text, loader)
    worded = Capability.TEXT in description.capabilities
    return description, partial(tokenized, text, loader) if worded else None
