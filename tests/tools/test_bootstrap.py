"""The bootstrap in a repository whose path holds a space, with a stand-in for nox that installs offline."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

BOOTSTRAP = Path(__file__).resolve().parents[2] / "tools" / "bootstrap.py"
VERSION = ".".join(map(str, sys.version_info[:3]))

NOX = """
import os, sys
print("arguments", sys.argv[1:])
print("folder", os.getcwd())
print("strays", [name for name in ("PYTHONPATH", "VIRTUAL_ENV", "PIP_TARGET") if name in os.environ])
sys.exit(int(os.environ.get("EXIT_WITH", "0")))
"""


class Repository:
    """A copy of the bootstrap with a pinned stand-in for nox, and a way to run it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.wheels = root.parent / "wheels"
        (root / "tools").mkdir(parents=True)
        shutil.copy(BOOTSTRAP, root / "tools")
        (root / "tools" / "constraints.txt").write_text("nox==1.0\n")
        (root / "noxfile.py").touch()
        self.wheels.mkdir()
        with zipfile.ZipFile(self.wheels / "nox-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("nox/__init__.py", "")
            wheel.writestr("nox/__main__.py", NOX)
            wheel.writestr("nox-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: nox\nVersion: 1.0\n")
            wheel.writestr("nox-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr("nox-1.0.dist-info/RECORD", "")

    @property
    def environment(self) -> Path:
        return self.root / ".bootstrap" / f"python{VERSION}-nox1.0"

    def start(
        self, *arguments: str, folder: Path | None = None, also: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": self.wheels.as_uri()}
        return subprocess.Popen(
            [sys.executable, str(self.root / "tools" / "bootstrap.py"), *arguments],
            cwd=folder or self.root,
            env={**os.environ, **offline, **(also or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, *arguments: str, folder: Path | None = None, also: Mapping[str, str] | None = None
    ) -> tuple[int, list[str], list[str]]:
        process = self.start(*arguments, folder=folder, also=also)
        out, err = process.communicate(timeout=120)
        return process.returncode, out.splitlines(), err.splitlines()


@pytest.fixture
def fresh(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "a clone")


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Return a repository whose environment was made under every setting that could forbid or redirect it."""
    folder = tmp_path_factory.mktemp("ready")
    repository = Repository(folder / "a clone")
    astray = {name: str(folder / "astray") for name in ("PIP_TARGET", "PIP_PREFIX", "PYTHONPATH", "VIRTUAL_ENV")}
    code, _, progress = repository.run(also={"PIP_REQUIRE_VIRTUALENV": "1", "PIP_USER": "1", **astray})
    assert (code, progress) == (0, [f"bootstrap: making .bootstrap/python{VERSION}-nox1.0, once"])
    assert not (folder / "astray").exists()
    return repository


@pytest.fixture(scope="module")
def bootstrap() -> ModuleType:
    loader = SourceFileLoader("bootstrap", str(BOOTSTRAP))
    spec = spec_from_loader("bootstrap", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


class Steps:
    """The steps of making an environment, noted and not taken; `failing` names one that fails."""

    def __init__(self, bootstrap: ModuleType) -> None:
        self.bootstrap = bootstrap
        self.taken: list[str] = []
        self.failing: str | None = None

    def prepare(self, repository: Repository) -> Path:
        home, constraints = repository.root / ".bootstrap", repository.root / "tools" / "constraints.txt"
        python = self.bootstrap.prepare(home, constraints)
        assert isinstance(python, Path)
        return python

    def call(self, command: Sequence[str], purpose: str) -> None:
        self.taken.append(purpose)
        if purpose == self.failing:
            raise self.bootstrap.BootstrapError(purpose)
        if purpose == "make an environment":
            python = Path(command[-1], "Scripts/python.exe" if os.name == "nt" else "bin/python")
            python.parent.mkdir(parents=True)
            python.touch()


@pytest.fixture
def steps(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Steps:
    noted = Steps(bootstrap)
    monkeypatch.setattr(bootstrap, "call", noted.call)
    return noted


class TestRun:
    def test_arguments_go_to_nox_as_they_are(self, ready: Repository) -> None:
        _, out, _ = ready.run("-s", "tests", "--", "-k", "two words")
        noxfile = str(ready.root / "noxfile.py")
        assert out[0] == f"arguments {['--noxfile', noxfile, '-s', 'tests', '--', '-k', 'two words']}"

    def test_the_exit_code_comes_back(self, ready: Repository) -> None:
        code, _, _ = ready.run(also={"EXIT_WITH": "7"})
        assert code == 7

    def test_it_runs_from_another_folder_and_ignores_its_modules(self, ready: Repository, tmp_path: Path) -> None:
        (tmp_path / "nox.py").write_text("raise SystemExit('the wrong nox')")
        code, out, _ = ready.run(folder=tmp_path)
        assert (code, out[1]) == (0, f"folder {tmp_path}")

    def test_the_second_run_makes_nothing(self, ready: Repository) -> None:
        _, _, progress = ready.run()
        assert progress == []

    def test_variables_of_the_caller_stay_outside(self, ready: Repository, tmp_path: Path) -> None:
        also = {"PYTHONPATH": str(tmp_path), "VIRTUAL_ENV": str(tmp_path), "PIP_TARGET": str(tmp_path)}
        _, out, _ = ready.run(also=also)
        assert out[2] == "strays []"


class TestPrepare:
    def test_two_runs_at_once_make_it_once(self, fresh: Repository) -> None:
        first, second = fresh.start(), fresh.start()
        progress = first.communicate(timeout=120)[1] + second.communicate(timeout=120)[1]
        assert (first.returncode, second.returncode) == (0, 0)
        assert progress == f"bootstrap: making .bootstrap/python{VERSION}-nox1.0, once\n"

    def test_an_interrupted_environment_is_made_anew(self, fresh: Repository, steps: Steps) -> None:
        (fresh.environment / "leftover").mkdir(parents=True)
        python = steps.prepare(fresh)
        assert steps.taken == ["make an environment", "install nox 1.0"]
        assert python.exists()
        assert not (fresh.environment / "leftover").exists()

    def test_a_step_that_fails_leaves_it_unfinished(self, fresh: Repository, steps: Steps) -> None:
        steps.failing = "install nox 1.0"
        with pytest.raises(steps.bootstrap.BootstrapError):
            steps.prepare(fresh)
        steps.failing = None
        steps.prepare(fresh)
        assert steps.taken == ["make an environment", "install nox 1.0"] * 2

    def test_a_finished_environment_is_kept(self, fresh: Repository, steps: Steps) -> None:
        steps.prepare(fresh)
        steps.prepare(fresh)
        assert steps.taken == ["make an environment", "install nox 1.0"]

    def test_another_pin_is_another_environment(self, fresh: Repository, steps: Steps) -> None:
        first = steps.prepare(fresh)
        (fresh.root / "tools" / "constraints.txt").write_text("nox==2.0\n")
        second = steps.prepare(fresh)
        assert (first.exists(), second.exists(), first == second) == (True, True, False)

    def test_an_environment_of_another_python_is_made_anew(self, fresh: Repository, steps: Steps) -> None:
        steps.prepare(fresh)
        (fresh.environment / "finished").write_text("another place")
        steps.prepare(fresh)
        assert steps.taken == ["make an environment", "install nox 1.0"] * 2

    def test_an_environment_whose_python_has_gone_is_made_anew(self, fresh: Repository, steps: Steps) -> None:
        steps.prepare(fresh).unlink()
        steps.prepare(fresh)
        assert steps.taken == ["make an environment", "install nox 1.0"] * 2

    def test_a_failed_step_shows_its_last_lines(self, bootstrap: ModuleType) -> None:
        command = [sys.executable, "-c", "raise SystemExit('no index')"]
        with pytest.raises(bootstrap.BootstrapError) as caught:
            bootstrap.call(command, "install nox 1.0")
        assert str(caught.value) == (
            f"tools/bootstrap.py: cannot install nox 1.0: exit code 1 of {' '.join(command)}\n"
            "  | no index\n"
            "  help: correct what the lines above say (a package index within reach? room on the disk?) and run this"
            " again; it starts over"
        )

    def test_constraints_without_nox_are_refused(self, fresh: Repository) -> None:
        constraints = fresh.root / "tools" / "constraints.txt"
        constraints.write_text("torch==2.13.0\n")
        code, _, err = fresh.run()
        assert (code, err) == (
            4,
            [f"{constraints}: no line 'nox==VERSION'", "  help: restore the file from version control"],
        )

    def test_a_folder_that_cannot_be_made_is_no_traceback(self, fresh: Repository) -> None:
        (fresh.root / ".bootstrap").touch()
        code, _, err = fresh.run()
        assert code == 4
        assert err[0].startswith("tools/bootstrap.py: [Errno ")
        assert err[1] == f"  help: make {fresh.root} writable, with room on its disk"


class TestCheckPython:
    def test_an_old_python_is_told_apart(self, bootstrap: ModuleType) -> None:
        with pytest.raises(bootstrap.BootstrapError) as caught:
            bootstrap.check_python((3, 10))
        assert str(caught.value) == (
            f"tools/bootstrap.py: {sys.executable} is Python 3.10, evseq needs 3.11 or newer\n"
            "  help: run this file with a newer one, such as: python3.11 tools/bootstrap.py"
        )

    def test_a_python_without_ensurepip_is_told_what_to_install(
        self, bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("importlib.util.find_spec", {"venv": "found", "ensurepip": None}.get)
        with pytest.raises(bootstrap.BootstrapError) as caught:
            bootstrap.check_python((3, 11))
        assert str(caught.value) == (
            f"tools/bootstrap.py: {sys.executable} has no module ensurepip\n"
            "  help: install what the system keeps apart (Debian, Ubuntu: apt install python3.11-venv), or run this"
            " file with another Python"
        )

    def test_a_complete_python_passes(self, bootstrap: ModuleType) -> None:
        bootstrap.check_python((3, 11))
