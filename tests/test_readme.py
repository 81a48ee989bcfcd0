"""The README's blocks are run as they stand, the two set-up commands aside."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

BLOCK = re.compile(r"^```(?P<language>\w+)(?: (?P<file>\S+))?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
VARYING = re.compile(r"\b\d+(?:\.\d+)? (?:µs|ms|s)\b|in \d+\.\d+s|at most \S+(?: of|,)|deviation .*")
"""Times differ from run to run, the noise of healthy logits from processor to processor; nothing else may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block."""

    language: str
    file: str | None
    body: str


BLOCKS = [Block(**match.groupdict()) for match in BLOCK.finditer(README)]
FILES = {block.file: block.body for block in BLOCKS if block.file and block.language in ("yaml", "python")}
CONSOLES = [block.body for block in BLOCKS if block.language == "console"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with every file the README shows."""
    made = tmp_path_factory.mktemp("readme")
    for name, body in FILES.items():
        (made / name).write_text(body, encoding="utf-8")
    return made


def run(command: str, folder: Path) -> str:
    """Run one command as a reader would and return what it prints."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV", "EVSEQ", "CI"))}
    done = subprocess.run(  # noqa: S602 - the commands the README gives
        command,
        shell=True,
        cwd=folder,
        env={**env, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def shown(console: str, folder: Path) -> str:
    """Return the block as running its commands now would print it."""
    commands = [line.removeprefix("$ ") for line in console.splitlines() if line.startswith("$ ")]
    return "".join(f"$ {command}\n{run(command, folder)}" for command in commands)


def still(text: str) -> str:
    """Return text without what varies."""
    return VARYING.sub("TIME", text).rstrip()


@pytest.mark.parametrize("console", CONSOLES, ids=[block.splitlines()[0].removeprefix("$ ") for block in CONSOLES])
def test_a_console_block_shows_what_its_commands_print(console: str, folder: Path) -> None:
    assert still(shown(console, folder)) == still(console)


def test_the_two_set_up_commands_are_the_ones_ci_runs() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    setup = next(block.body for block in BLOCKS if block.file == "setup")

    assert [line.split("#")[0].strip() for line in setup.splitlines()] == [
        "python3 tools/bootstrap.py -s qualify",
        "python3 tools/bootstrap.py -s tests",
    ]
    assert "python3 tools/bootstrap.py -s tests" in ci


def test_the_map_names_what_is_there() -> None:
    text = README.split("```text\n")[1].split("```")[0]
    names = re.findall(r"^(?:  )?([\w./]+)", text, re.MULTILINE)
    held = {path.name for path in [*ROOT.iterdir(), *(ROOT / "evseq").iterdir()]}

    assert [name for name in names if name.rstrip("/") not in held] == []


def test_what_is_counted_in_words_is_counted_right() -> None:
    from evseq.faults.catalogue import FAULTS
    from evseq.script.library import SUITE

    changes = " ".join((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split())
    assert f"one of {len(FAULTS)} faults" in " ".join(README.split())
    assert f"{len(FAULTS)} of them are in `evseq.faults`" in changes
    assert f"{len([*SUITE.glob('*.evseq.yaml')])} scripts." in changes


def test_every_check_is_explained() -> None:
    from evseq.verdict.result import Check

    assert [check.value for check in Check if f"| `{check.value}` |" not in README] == []
