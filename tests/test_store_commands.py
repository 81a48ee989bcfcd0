from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from candidates import adopt
from evseq.cli import main
from evseq.config import configure
from evseq.golden.root import Place, Root
from evseq.golden.stored import pins
from evseq.verdict.result import Exit

CROP = Place(model="small", revision="v1", script="crop")
Told = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def root(here: Path) -> Root:
    """Work in a project whose goldens are kept in another folder, by its URL."""
    (here / "store").mkdir()
    text = f'[tool.evseq]\ngoldens = "file://{here}/store"\ncache = "kept"\n'
    (here / "pyproject.toml").write_text(text)
    return configure().root()


def test_goldens_that_lie_in_the_folder_are_sent(root: Root, here: Path, capsys: Told) -> None:
    adopt(Root(folder=root.folder))
    assert main(["golden", "push"]) == Exit.PASSED
    assert main(["golden", "push"]) == Exit.PASSED
    assert capsys.readouterr().out == (
        f"small/v1/crop: sent\nfile://{here}/store: 1 sent\nfile://{here}/store: 1 there already\n"
    )


def test_goldens_are_fetched_into_the_cache(root: Root, here: Path, capsys: Told) -> None:
    adopt(root)
    assert main(["golden", "cache", "--prune", "0"]) == Exit.PASSED
    assert main(["golden", "pull"]) == Exit.PASSED
    assert main(["golden", "pull"]) == Exit.PASSED
    assert capsys.readouterr().out == (
        f"{here}/kept/goldens: 1 golden deleted, 0.0 MB; 0 kept, 0.0 MB\n"
        f"small/v1/crop: fetched\nfile://{here}/store: 1 fetched\nfile://{here}/store: 1 there already\n"
    )


def test_one_that_is_nowhere_fails(root: Root, here: Path, capsys: Told) -> None:
    adopt(root)
    main(["golden", "cache", "--prune", "0"])
    address = here / "store" / "small" / "v1" / f"crop.{pins(root)[CROP]}.safetensors"
    address.unlink()
    capsys.readouterr()
    assert main(["golden", "push"]) == Exit.FAILED
    first, _, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"file://{address}: is not in the store: ")
    assert last == f"file://{here}/store: 1 lost"


def test_no_golden_is_accepted_yet(here: Path, capsys: Told) -> None:
    assert main(["golden", "push"]) == Exit.PASSED
    assert capsys.readouterr().out == f"file://{here}/store: no golden is accepted here\n"


@pytest.mark.parametrize("command", ["push", "pull"])
def test_a_folder_is_no_url(command: str, capsys: Told) -> None:
    assert main(["golden", command, "--goldens", "kept"]) == Exit.USAGE
    assert capsys.readouterr().err == (
        "kept: goldens are kept in this folder, not at a URL\n"
        '  help: name one: --goldens, EVSEQ_GOLDENS, or goldens = "s3://bucket/evseq" under [tool.evseq]\n'
    )


def test_the_cache_tells_its_size_and_forgets_what_is_old(root: Root, here: Path, capsys: Told) -> None:
    adopt(root)
    adopt(root, (1, 1, 1.5), at="small/v2/crop")
    old = here / "kept" / "goldens" / f"{pins(root)[CROP]}.safetensors"
    os.utime(old, (time.time() - 100 * 86400,) * 2)
    assert main(["golden", "cache"]) == Exit.PASSED
    assert main(["golden", "cache", "--prune", "90"]) == Exit.PASSED
    assert capsys.readouterr().out == (
        f"{here}/kept/goldens: 2 goldens, 0.0 MB\n{here}/kept/goldens: 1 golden deleted, 0.0 MB; 1 kept, 0.0 MB\n"
    )
    assert not old.exists()


@pytest.mark.parametrize("command", ["push", "pull", "cache"])
def test_every_command_shows_an_example(command: str, capsys: Told) -> None:
    assert main(["golden", command, "--help"]) == Exit.PASSED
    assert f"  Examples:\n    evseq golden {command}" in capsys.readouterr().out


def test_pruned_goldens_are_kept_for_older_commits(root: Root, here: Path, capsys: Told) -> None:
    adopt(root)
    assert main(["golden", "prune"]) == Exit.PASSED
    assert capsys.readouterr().out == (
        "small/v1/crop: would be deleted\n"
        "  help: evseq golden prune --delete --reason TEXT\n"
        f"file://{here}/store keeps their files: older commits need them\n"
    )
