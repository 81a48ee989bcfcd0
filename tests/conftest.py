"""What every test runs under: shapes checked, one thread, repeatable examples."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

import shapes
from fronts import ENGINES, GREEN, TWICE
from objects import Bucket, known_to, serving

ROOT = Path(__file__).resolve().parent.parent

# Read when torch loads, which no conftest does. Two threads on busy cores were twenty times slower than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Checks the shapes of every signature that has some. Installed here and not by jaxtyping's own option, which refuses
# once the package is imported, and evseq's pytest plugin is imported before any option is read.
install_import_hook(shapes.modules(ROOT / "evseq"), "shapes.checked")

# A shell that starts the tests in the background has interrupts ignored, also in every process they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A run that fails must fail again; and a busy machine is no reason to fail.
settings.register_profile("evseq", derandomize=True, deadline=None)
settings.register_profile("long", derandomize=False, deadline=None, max_examples=5000)  # `nox -s fuzz`
settings.load_profile("evseq")

# Scripts that are wrong on purpose are read by a test; evseq's own plugin would report them.
collect_ignore_glob = ["script/broken/*", "script/static/*"]


@pytest.fixture(scope="session")
def real_model() -> Path:
    """Return the folder of the prepared real model; the first run makes it."""
    made = subprocess.run(
        [sys.executable, ROOT / "tools" / "prepare_smollm2.py"], stdout=subprocess.PIPE, text=True, check=True
    )
    return Path(made.stdout.splitlines()[-1])


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say nothing to evseq that a test does not say: no settings, and no goldens refused for where the tests run."""
    for name in [name for name in os.environ if name.startswith("EVSEQ_") or name == "CI"]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def shapes_checked() -> None:
    """Check the first calls of every function again, so that no test depends on those before it."""
    shapes.again()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "green.evseq.yaml").write_text(GREEN)
    return tmp_path


@pytest.fixture(scope="session")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Load everything once: pytester forgets what a run imports, and libraries in C do not load twice."""
    from evseq.pipeline import qualify

    script = tmp_path_factory.mktemp("loaded") / "green.evseq.yaml"
    script.write_text(GREEN)
    assert qualify("reference:full", [script]).cases


@pytest.fixture
def folder(loaded: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: ARG001
    """Stand in a folder with a script and engines, for pytest to run in with evseq's plugin and no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(engines=ENGINES)
    pytester.syspathinsert()
    (pytester.path / "green.evseq.yaml").write_text(TWICE)
    return pytester.path


@pytest.fixture
def bucket(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """Return an empty bucket of a server of its own, which this environment has a key for."""
    with serving(tmp_path_factory.mktemp("server")) as made:
        known_to(made, monkeypatch)
        yield made
