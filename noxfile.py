"""Every check of the project; nothing runs only in CI. `python3 tools/bootstrap.py -l` lists the sessions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import nox

nox.needs_version = ">=2026.10"
nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
os.environ["NOX_ENABLE_STALENESS_CHECK"] = "1"  # an environment of another Python is made anew, not reused
nox.options.sessions = ["tests", "lint", "types", "qualify"]

CONSTRAINTS = "tools/constraints.txt"
PROJECT = nox.project.load_toml("pyproject.toml")
PYTHON = Path(".nox", "workshop", "Scripts/python.exe" if os.name == "nt" else "bin/python").absolute()

TESTS = os.pathsep.join(str(Path(folder).absolute()) for folder in (".", "tests"))
"""Where tests import from, for what runs without pytest."""

QUIET = {
    # Two threads on busy cores were twenty times slower than one, and one adds up in one order.
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Nothing is ever fetched by name.
    "HF_HUB_OFFLINE": "1",
}


@nox.session(default=False)
def workshop(session: nox.Session) -> None:
    """Make the one environment that tests, types, qualify and real work in: torch is installed once, not four times."""
    kinds = ("build", "test", "types", "remote", "real", "fuzz")
    groups = [nox.project.dependency_groups(PROJECT, name) for name in kinds]
    session.install("-c", CONSTRAINTS, *(package for group in groups for package in group))
    # The build backend is there already, pinned; an isolated build would fetch an unpinned one.
    session.install("-c", CONSTRAINTS, "--no-build-isolation", "-e", ".[all]")


@nox.session(requires=["workshop"], venv_backend="none")
def tests(session: nox.Session) -> None:
    """Run the tests, shapes checked; all of them must also reach the coverage floor. Arguments go to pytest."""
    python(session, "-m", "coverage", "erase")
    # A worker a core, each beginning with a part of the files in their order, so that modules are prepared once. A few
    # tests, and a debugger, are better off in one process.
    workers = [] if session.posargs else ["-n", "logical", "--maxprocesses", "4", "--dist", "worksteal"]
    python(session, "-m", "coverage", "run", "-m", "pytest", "--durations=10", *workers, *session.posargs)
    python(session, "-m", "coverage", "combine", "--quiet")
    python(session, "-m", "coverage", "report", *(["--fail-under=0"] if session.posargs else []))


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting."""
    session.install("-c", CONSTRAINTS, *nox.project.dependency_groups(PROJECT, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(requires=["workshop"], venv_backend="none")
def types(session: nox.Session) -> None:
    """Check types, strictly."""
    python(session, "-m", "mypy", *session.posargs)


@nox.session(requires=["workshop"], venv_backend="none")
def qualify(session: nox.Session) -> None:
    """Replay the shipped suite on every configuration of the reference engine. Arguments go to `evseq qualify`."""
    python(session, "-m", "evseq", "qualify", "-n", "2", *session.posargs)


@nox.session(requires=["workshop"], venv_backend="none", default=False)
def goldens(session: nox.Session) -> None:
    """Write candidates of the shipped suite and tell what they change. Arguments go to `evseq golden` instead."""
    if session.posargs:
        python(session, "-m", "evseq", "golden", *session.posargs)
        return
    # A run that wrote candidates fails, and so does telling of any: both are what was asked for.
    python(session, "-m", "evseq", "qualify", "--update-goldens", "--quiet", success_codes=[0, 1])
    python(session, "-m", "evseq", "golden", "diff", success_codes=[0, 1])


@nox.session(requires=["workshop"], venv_backend="none", default=False)
def audit(session: nox.Session) -> None:
    """Plant all faults before the suite, without what catches them, before the quick set. Arguments: `evseq audit`."""
    python(session, "-m", "evseq", "audit", "-n", "2", *(session.posargs or ["--target", "reference"]))
    if not session.posargs:
        python(session, "tools/prove_catches.py", "-n", "2")
        # What the quick set alone still catches, on both engines.
        types = ("llama", "mistral", "gpt2", "lfm2", "falcon_h1")
        models = [word for name in types for word in ("--target", f"transformers:new/{name}")]
        python(session, "-m", "evseq", "audit", "--quick", "-n", "2", "--target", "reference")
        python(session, "-m", "evseq", "audit", "--quick", "-n", "2", *models)


@nox.session(requires=["workshop"], venv_backend="none", default=False)
def equal(session: nox.Session) -> None:
    """Play the suite in one process, in two, and on a cluster, and compare. Arguments are names of scripts."""
    python(session, "tools/prove_equal.py", *session.posargs, paths=TESTS)


@nox.session(requires=["workshop"], venv_backend="none", default=False)
def fuzz(session: nox.Session) -> None:
    """Read damaged files of every kind for a while, then kill 350 writers. Arguments: `--minutes 20`, `--reader X`."""
    python(session, "tools/fuzz.py", *session.posargs)
    python(session, "-m", "pytest", "--hypothesis-profile=long", "tests/hostile/test_reading.py")
    python(
        session, "tests/hostile/dying.py", "cache,recording,golden,candidate,accept,ledger,witness", "50", paths=TESTS
    )


@nox.session(requires=["workshop"], venv_backend="none", default=False)
def bench(session: nox.Session) -> None:
    """Measure what evseq costs beside the bare operations, in one run. Arguments name parts of it."""
    python(session, "-m", "tools.bench", *session.posargs)


@nox.session(requires=["workshop"], venv_backend="none", default=False)
def architectures(session: nox.Session) -> None:
    """Replay the shipped suite on new small transformers models of fourteen architectures, then scripts about some."""
    python(session, "-m", "evseq", "run", "--suite", "--target", "transformers", "--quiet", *session.posargs)
    python(session, "-m", "evseq", "run", "evseq/script/architectures", "--quiet", *session.posargs)


@nox.session(requires=["workshop"], venv_backend="none", default=False)
def real(session: nox.Session) -> None:
    """Prepare SmolLM2-135M, run the shipped suite on it, then the tests that need it. Arguments go to `evseq run`."""
    # Its stderr, with the progress, goes to the terminal; its last line is the folder.
    said = session.run(str(PYTHON), "tools/prepare_smollm2.py", env=QUIET, silent=True, stderr=None)
    folder = str(said).splitlines()[-1]
    arms = session.posargs or ["--arm", "dtype=float64,float32"]
    python(session, "-m", "evseq", "run", "--suite", "--target", f"transformers:{folder}", *arms)
    python(session, "-m", "pytest", "-m", "real", "--durations=10")


def python(session: nox.Session, *arguments: str, success_codes: Sequence[int] = (0,), paths: str = "") -> None:
    """Run the workshop's Python; it imports from `paths` too."""
    env = QUIET | ({"PYTHONPATH": paths} if paths else {})
    session.run(str(PYTHON), *arguments, env=env, success_codes=success_codes)
