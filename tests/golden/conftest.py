"""Small goldens, candidates of them, and a real repository around their folder."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch

from evseq.cache.identity import Identity
from evseq.geometry import Deciding, Dtype
from evseq.golden.candidate import Candidate, Change, JudgedCase, load, store
from evseq.golden.forms import Full
from evseq.golden.golden import Golden
from evseq.golden.histories import TOP, Histories
from evseq.golden.root import Place, Root
from evseq.verdict.result import Outcome

WEIGHTS = "3f" * 32


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """Return a folder of goldens that is not there yet."""
    return Root(folder=tmp_path / "goldens")


@pytest.fixture
def make_golden() -> Callable[..., Golden]:
    """Return a maker of goldens of three histories: 4, 4 2, 4 3."""

    def make(*, script: str = "one", vocab: int = 6, seed: int = 0, weights: str = WEIGHTS, by: float = 0.0) -> Golden:
        logits = torch.randn(3, vocab, generator=torch.Generator().manual_seed(seed)) + by
        return Golden(
            script=script,
            identity=Identity(values={"model.architecture": "Small", "weights.source": weights}),
            histories=Histories(parents=(TOP, 0, 0), tokens=(4, 2, 3), positions=(0, 1, 1), observed=(0, 1, 2)),
            logits=Full(logits=logits),
            allowed=torch.full((3,), 1e-6),
            greedy={(4,): 2},
            deciding=Deciding.PURE,
            layers=2,
        )

    return make


@pytest.fixture
def make_candidate(make_golden: Callable[..., Golden]) -> Callable[..., Candidate]:
    """Return a maker of candidates, written and read back; `says` are fields of the sidecar."""

    def make(
        root: Root, place: str = "small/v1/one", *, golden: Golden | None = None, weights: str = WEIGHTS, **says: Any
    ) -> Candidate:
        model, revision, script = place.split("/")
        usual: dict[str, Any] = {
            "change": Change.NEW,
            "target": "reference:window",
            "made": datetime(2026, 3, 1, tzinfo=UTC),
            "commit": "c0ffee",
            "libraries": {"torch": "2.13.0", "evseq": "0.1.0"},
            "processor": "cpu",
            "finite": True,
            "repeats": True,
            "cases": (JudgedCase(id="one[left]", outcome=Outcome.PASSED, dtype=Dtype.FLOAT64),),
            "uses": (),
        }
        names = {"model": model, "revision": revision, "script": script, "seal": "", "weights": weights}
        store(root, golden or make_golden(script=script, weights=weights), Candidate(**(usual | names | says)))
        return load(root, Place(model=model, revision=revision, script=script))[0]

    return make


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    """Return real git in a new repository with one commit of `code.py`; it returns what git prints."""

    def run(*arguments: str) -> str:
        settings = ["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"]
        done = subprocess.run(
            ["git", *settings, *arguments],  # noqa: S607 - the one on the path
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout

    run("init", "--quiet")
    (tmp_path / "code.py").write_text("x = 1\n")
    run("add", "code.py")
    run("commit", "--quiet", "--message", "first")
    return run
