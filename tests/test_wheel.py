"""What a user installs holds all that a run reads."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """Return the names inside a wheel built from the source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = folder.iterdir()
    with zipfile.ZipFile(wheel) as opened:
        return frozenset(opened.namelist())


@pytest.mark.parametrize("pattern", ["*.py", "script/suite/*.evseq.yaml", "engines/reference/weights/*", "py.typed"])
def test_the_wheel_holds(pattern: str, packed: frozenset[str]) -> None:
    source = {file.relative_to(ROOT).as_posix() for file in (ROOT / "evseq").rglob(pattern) if file.is_file()}
    assert source
    assert source <= packed


def test_the_wheel_holds_the_goldens_of_the_reference_engine(packed: frozenset[str]) -> None:
    accepted = {Path("evseq", place.relative_to(ROOT)).as_posix() for place in (ROOT / "goldens").rglob("*.*")}
    assert any(name.endswith(".safetensors") for name in accepted)
    assert accepted <= packed


def test_the_wheel_holds_nothing_beside_the_package(packed: frozenset[str]) -> None:
    assert {name.split("/")[0] for name in packed} == {"evseq", "evseq-0.1.0.dist-info"}
