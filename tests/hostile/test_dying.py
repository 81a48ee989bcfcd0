"""Writers that are killed or refused: what is there is always the old or the new, whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

CROWDED = """
from hostile.dying import crowded
from hostile.writing import WRITERS, taken
for name, writers, reads in (("cache", 3, None), ("candidate", 3, None), ("witness", 2, None), ("accept", 1, taken)):
    outcomes = crowded(WRITERS[name], seconds=1.5, writers=writers, readers=2, seed=1, reads=reads)
    print(name, outcomes["writer -9"] > 0, sorted(word for word in outcomes if word.endswith(" 1")))
"""

DENIED = "Permission denied\n  help: check the folder's permissions and the room on its disk"
FULL = "File too large\n  help: check the folder's permissions and the room on its disk"


def told(*arguments: str | Path) -> list[str]:
    """Return the lines a script prints that must end well."""
    paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, *arguments], env=os.environ | paths, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def killed() -> dict[str, dict[str, int]]:
    """Return by kind of writer what was found after its deaths."""
    kinds = "cache,recording,golden,candidate,accept,ledger,witness"
    outcomes = [json.loads(line) for line in told(HERE / "dying.py", kinds, "7", "6")]
    return {outcome.pop("writer"): outcome for outcome in outcomes}


@pytest.fixture(scope="module")
def refused() -> dict[tuple[str, str], str]:
    """Return by kind of writer, and way in which the system refuses it, what it is told."""
    lines = told(HERE / "refusing.py", "cache,golden,candidate,accept,ledger,witness")
    return {(kind, way): words for kind, way, words in map(json.loads, lines)}


def test_a_writer_killed_at_any_moment_leaves_the_old_or_the_new_whole(killed: dict[str, dict[str, int]]) -> None:
    found = {kind: outcome.get("killed, old", 0) + outcome.get("killed, new", 0) for kind, outcome in killed.items()}

    assert found == dict.fromkeys(("cache", "recording", "golden", "candidate", "accept", "ledger", "witness"), 7)


@pytest.mark.parametrize("kind", ["candidate", "accept"])
def test_two_files_that_belong_together_change_at_one_moment(killed: dict[str, dict[str, int]], kind: str) -> None:
    assert killed[kind].keys() >= {"killed, old", "killed, new"}


def test_readers_beside_writers_that_die_always_find_something_whole() -> None:
    assert told("-c", CROWDED) == [f"{kind} True []" for kind in ("cache", "candidate", "witness", "accept")]


@pytest.mark.parametrize(
    ("kind", "way", "message"),
    [
        ("cache", "full", f"NotWritable: FOLDER/file: cannot be written: {FULL}"),
        ("cache", "nobody", f"NotWritable: FOLDER/file: cannot be written: {DENIED}"),
        ("cache", "read-only", f"NotWritable: FOLDER/file: cannot be written: {DENIED}"),
        ("accept", "full", f"NotWritable: FOLDER/small/LEDGER.yaml: cannot be written: {FULL}"),
        ("accept", "nobody", f"NotWritable: FOLDER/.evseq-lock.tmp: cannot be locked: {DENIED}"),
        ("accept", "read-only", f"NotWritable: FOLDER/.evseq-lock.tmp: cannot be locked: {DENIED}"),
    ],
)
def test_a_writer_who_is_refused_says_where_and_loses_nothing(
    refused: dict[tuple[str, str], str], kind: str, way: str, message: str
) -> None:
    assert refused[kind, way] == message


def test_every_writer_who_is_refused_says_so(refused: dict[tuple[str, str], str]) -> None:
    assert len(refused) == 18
    assert {words.partition(":")[0] for words in refused.values()} == {"NotWritable"}
