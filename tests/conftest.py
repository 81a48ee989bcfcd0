"""What every test runs under: shapes checked, one thread, repeatable examples."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

import shapes

ROOT = Path(__file__).resolve().parent.parent

# Read when torch loads, which no conftest does. Two threads on busy cores were twenty times slower than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Checks the shapes of every signature that has some. Installed here and not by jaxtyping's own option, which refuses
# once the package is imported, and evseq's pytest plugin is imported before any option is read.
install_import_hook(shapes.modules(ROOT / "evseq"), "shapes.checked")

# A run that fails must fail again; and a busy machine is no reason to fail.
settings.register_profile("evseq", derandomize=True, deadline=None)
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
