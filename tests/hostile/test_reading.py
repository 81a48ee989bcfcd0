"""Files that nobody wrote in good faith: each is admitted as what a writer would have written, or refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostile.reading import READERS, ended, sample

CORPUS = Path(__file__).parent / "corpus"

FILES = sorted(path for path in CORPUS.glob("*/*"))

PEAK = """
import resource, sys
from pathlib import Path
from hostile.reading import READERS, ended
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
for name, content in {
    "empty lists": b"\\xdd\\x00\\x0f\\xff\\xff" + b"\\x90" * 1048575,
    "claims": b"\\xdd\\x00\\x0f\\xff\\xff" * 2000,
}.items():
    import base64
    from hostile.mutating import framed
    text = base64.b64encode(content).decode()
    ended(READERS["cache"], Path(sys.argv[1], "file"), framed({"__metadata__": {"evseq": text}}))
for header in (b"[" + b"{}," * 4_000_000 + b"{}]", b'{"a":' * 1_000_000):
    header += b" " * (-len(header) % 8)
    ended(READERS["cache"], Path(sys.argv[1], "file"), len(header).to_bytes(8, "little") + header)
print(peak() - before)
"""
"""Reads what would fill hundreds of megabytes, and prints how many were taken."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return a sound file for each reader."""
    return {name: reader.made(tmp_path_factory.mktemp(name)) for name, reader in READERS.items()}


@pytest.mark.parametrize("file", FILES, ids=[f"{file.parent.name}-{file.name}" for file in FILES])
def test_a_kept_file_ends_as_its_name_says(file: Path, tmp_path: Path) -> None:
    assert ended(READERS[file.parent.name], tmp_path / "file", file.read_bytes()) == file.name.partition(".")[0]


def test_the_corpus_stays_small() -> None:
    assert {file.parent.name for file in FILES} == READERS.keys() - {"recording"}  # whose plan changes with the code
    assert sum(file.stat().st_size for file in FILES) < 300_000


@pytest.mark.parametrize("name", READERS)
def test_what_was_written_is_admitted(name: str, made: dict[str, bytes], tmp_path: Path) -> None:
    assert ended(READERS[name], tmp_path / "file", made[name]) == "admitted"


@pytest.mark.parametrize("name", READERS)
@given(seed=st.integers(0, 1 << 32))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_changed_ends_in_an_error_of_evseq_or_as_written(
    name: str, seed: int, made: dict[str, bytes], tmp_path: Path
) -> None:
    ended(READERS[name], tmp_path / "file", sample(READERS[name], made[name], seed))


def test_nothing_takes_much_more_memory_than_its_bytes(tmp_path: Path) -> None:
    paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", PEAK, tmp_path], env=os.environ | paths, stdout=subprocess.PIPE, text=True, check=True
    )

    assert int(done.stdout) < 150  # MB; the largest of them has 12, unpacked it would have been 900
