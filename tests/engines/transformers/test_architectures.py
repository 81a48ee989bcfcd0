"""The scripts about one kind of layer each: in normal form, and silent on the first model they name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import evseq.script
from evseq.pipeline import Settings, read_scripts, run
from evseq.script.document import unparse
from evseq.verdict.result import Outcome

FILES = sorted((Path(evseq.script.__file__).parent / "architectures").glob("*.evseq.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_is_in_normal_form_and_silent_on_healthy_models(file: Path) -> None:
    (script,) = read_scripts([str(file)])
    settings = Settings(only={"dtype": ("float64",), "chunk": ("whole",), "cache": ("dynamic",)})
    result = run([replace(script, targets=script.targets[:1])], [], settings=settings)
    assert {case.outcome for case in result.cases} <= {Outcome.PASSED, Outcome.UNSUPPORTED}
    assert unparse(script) == file.read_text(encoding="utf-8")
