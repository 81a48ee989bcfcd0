"""Nothing heavy loads before there is work for it; the names of the package's front are bound late, and are right."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import evseq

SCRIPT = """\
evseq: 1
name: short
about: A prefill and one step.
targets: [reference]
rows:
  a: [17, 4, 59, 3]
arms:
  dtype: [float64, float32]
events:
  - prefill: {rows: {a: 3}}
  - append: {next: 1}
"""


AND_TELL = """
import atexit, pathlib, runpy, sys
atexit.register(lambda: pathlib.Path("loaded").write_text("\\n".join(sys.modules)))
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""Runs a module as `python -m` would, and writes the names of all loaded modules to a file at exit."""


def run(module: str, *arguments: str, folder: Path) -> tuple[int, frozenset[str]]:
    """Run a module in a process of its own with `folder` as its own; return the exit code and what it loaded."""
    done = subprocess.run(
        [sys.executable, "-c", AND_TELL, module, *arguments], cwd=folder, stdout=subprocess.DEVNULL, check=False
    )
    return done.returncode, frozenset((folder / "loaded").read_text().split())


class TestNoTorch:
    def test_importing_the_package(self, tmp_path: Path) -> None:
        (tmp_path / "user.py").write_text("import evseq")
        code, loaded = run("user", folder=tmp_path)
        assert code == 0
        assert loaded & {"evseq", "torch"} == {"evseq"}

    def test_importing_a_room_with_tensors_is_seen(self, tmp_path: Path) -> None:
        (tmp_path / "user.py").write_text("import evseq.cache.state")
        code, loaded = run("user", folder=tmp_path)
        assert code == 0
        assert loaded & {"evseq", "torch"} == {"evseq", "torch"}

    def test_help(self, tmp_path: Path) -> None:
        code, loaded = run("evseq", "--help", folder=tmp_path)
        assert code == 0
        assert loaded & {"evseq.cli", "torch"} == {"evseq.cli"}

    def test_checking_a_script(self, tmp_path: Path) -> None:
        (tmp_path / "short.evseq.yaml").write_text(SCRIPT)
        code, loaded = run("evseq", "check", "short.evseq.yaml", folder=tmp_path)
        assert code == 0
        assert loaded & {"evseq.script.plan", "torch"} == {"evseq.script.plan"}

    def test_starting_pytest_with_the_plugin(self, tmp_path: Path) -> None:
        code, loaded = run("pytest", "--collect-only", folder=tmp_path)
        assert code == pytest.ExitCode.NO_TESTS_COLLECTED
        assert loaded & {"evseq.pytest_plugin", "torch"} == {"evseq.pytest_plugin"}

    def test_running_a_test_that_does_not_use_it(self, tmp_path: Path) -> None:
        (tmp_path / "test_other.py").write_text("def test_other():\n    pass\n")
        code, loaded = run("pytest", folder=tmp_path)
        assert code == 0
        assert loaded & {"evseq.pytest_plugin", "torch"} == {"evseq.pytest_plugin"}

    def test_collecting_a_script(self, tmp_path: Path) -> None:
        (tmp_path / "short.evseq.yaml").write_text(SCRIPT)
        code, loaded = run("pytest", "--collect-only", folder=tmp_path)
        assert code == 0
        assert loaded & {"evseq.script.document", "torch"} == {"evseq.script.document"}


def test_a_run_on_the_reference_engine_needs_no_extra(tmp_path: Path) -> None:
    (tmp_path / "short.evseq.yaml").write_text(SCRIPT)
    code, loaded = run("evseq", "run", "short.evseq.yaml", "--target", "reference", folder=tmp_path)
    assert code == 0
    assert loaded & {"torch", "transformers", "fsspec"} == {"torch"}


class TestFront:
    @pytest.mark.parametrize("name", evseq.__all__)
    def test_every_public_name_is_bound(self, name: str) -> None:
        assert getattr(evseq, name) is getattr(evseq, name)

    def test_the_version_is_the_installed_one(self) -> None:
        assert evseq.__version__ == importlib.metadata.version("evseq")

    def test_dir_lists_the_public_names(self) -> None:
        assert set(evseq.__all__) <= set(dir(evseq))

    def test_an_unknown_name_is_an_attribute_error(self) -> None:
        with pytest.raises(AttributeError, match=r"^module 'evseq' has no attribute 'qualfy'$"):
            evseq.qualfy  # noqa: B018 - the look-up is the act
