"""Starting: commands that load no model, against a bare interpreter with the libraries they cannot do without."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from evseq.script.library import SUITE
from tools.bench.timing import Line, interleaved

__all__ = ["starts"]

BARE = "import yaml, pydantic"

USED = "import yaml; from pydantic import BaseModel"
"""Pydantic loads its parts when they are asked for; `BARE` asks for none of them."""


def starts() -> Iterator[Line]:
    """Compare `--help`, a check of one script, and a collection of the suite by pytest."""
    script = str(SUITE / "crop-per-row.evseq.yaml")
    with tempfile.TemporaryDirectory() as folder:
        yield _start("evseq --help / python", ["-m", "evseq", "--help"], ["-c", "pass"], folder)
        yield _start(
            "evseq check SCRIPT / python, yaml, pydantic",
            ["-m", "evseq", "check", script],
            ["-c", BARE],
            folder,
            most=3,
        )
        yield _start(
            "evseq check SCRIPT / the same, with a model", ["-m", "evseq", "check", script], ["-c", USED], folder
        )
        collect = ["-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
        yield _start("pytest, one script / without", [*collect, script], [*collect, "-p", "no:evseq"], folder)


def _start(what: str, ours: list[str], bare: list[str], folder: str, *, most: float | None = None) -> Line:
    timed = interleaved(lambda: _python(ours, folder), lambda: _python(bare, folder), rounds=11)
    target, held = ("", None) if most is None else (f"at most {most} x", timed.ratio <= most)
    return Line(what=what, timed=timed, figure=f"{timed.ratio:.2f} x", target=target, held=held)


def _python(arguments: list[str], folder: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=Path(folder),
        env=_environment(folder),
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode in (0, 5), done.stderr  # 5: pytest collected nothing


def _environment(folder: str) -> dict[str, str]:
    """Return this environment, in which whatever is imported is compiled once, as an installed package is."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    path = os.pathsep.join(path for path in sys.path if path)
    return {**kept, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(Path(folder, "compiled"))}
