from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evseq.verdict.result import (
    Case,
    Check,
    ErrorRatio,
    Finding,
    Forwards,
    Judged,
    Latency,
    Margin,
    Outcome,
    Result,
)

SCRIPT = """\
evseq: 1
name: crop-twice
about: What is cropped is gone.
rows:
  a: [1, 2, 3, 4, 5, 6, 7, 8]
events:
  - prefill: {rows: {a: 4}}
  - crop: {by: 2}
  - append: {next: 2}
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "crop.evseq.yaml"
    file.write_text(SCRIPT)
    return file


@pytest.fixture
def finding(script: Path) -> Finding:
    return Finding(
        check=Check.PARITY,
        place=f"{script}:9:5",
        event="append",
        step=3,
        row="a",
        index=2,
        message="logit 17 is 1.5, expected 2.5: off by 1, allowed 4.1e-13 in float64",
        actual="1.5",
        expected="2.5",
    )


@pytest.fixture
def passed(script: Path) -> Case:
    return Case(
        id="crop-twice[left-float64][reference:full]",
        script="crop-twice",
        file=str(script),
        target="reference:full",
        arms={"padding": "left", "dtype": "float64"},
        outcome=Outcome.PASSED,
        dtype="float64",
        observations=6,
        margin=Margin(deviation=3e-14, err=1e-14, allowed=4e-13),
        errors=ErrorRatio(cached=3e-14, uncached=0.0),
        latency=Latency(first=0.00123, later=0.0004),
        peak_cache_bytes=12800,
        replay_forwards=3,
        seconds=0.5,
        replay="evseq run crop.evseq.yaml --target reference:full --arm padding=left --arm dtype=float64",
    )


@pytest.fixture
def failed(passed: Case, finding: Finding) -> Case:
    return replace(
        passed,
        id="crop-twice[right-float64][reference:full]",
        arms={"padding": "right", "dtype": "float64"},
        outcome=Outcome.FAILED,
        findings=(finding,),
        margin=Margin(deviation=1.0, err=0.0, allowed=4.1e-13),
        errors=ErrorRatio(cached=1.0, uncached=0.0),
    )


@pytest.fixture
def unsupported(passed: Case) -> Case:
    return Case(
        id="crop-twice[left-float16][reference:full]",
        script=passed.script,
        file=passed.file,
        target=passed.target,
        arms={"padding": "left", "dtype": "float16"},
        outcome=Outcome.UNSUPPORTED,
        reason="no float16",
    )


@pytest.fixture
def result(passed: Case) -> Result:
    return Result(
        cases=(passed,),
        targets=("reference:full",),
        judged=(Judged(target="reference:full", judged=("float64",), not_judged=("float32", "bfloat16")),),
        forwards=Forwards(leaves=2, oracle=4, reference=5),
        seconds=1.25,
    )


@pytest.fixture
def unsupported_result(result: Result, unsupported: Case) -> Result:
    cases = (
        replace(unsupported, id="one"),
        replace(unsupported, id="two"),
        replace(unsupported, id="three", reason="needs ragged"),
    )
    return replace(result, cases=cases)
