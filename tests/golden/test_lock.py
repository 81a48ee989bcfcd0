from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from evseq.cache.damage import NotWritable
from evseq.cache.replacing import replacing
from evseq.golden.lock import locked

ONE_AT_A_TIME = """
import sys
from pathlib import Path
from evseq.golden.lock import locked
count = Path(sys.argv[1]) / "count"
for _ in range(50):
    with locked(count.parent):
        count.write_text(str(int(count.read_text()) + 1))
"""

HELD = """
import sys
from pathlib import Path
from evseq.golden.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_processes_wait_for_each_other(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")

    writers = [subprocess.Popen([sys.executable, "-c", ONE_AT_A_TIME, tmp_path]) for _ in range(3)]
    ended = [process.wait() for process in writers]

    assert (ended, (tmp_path / "count").read_text()) == ([0, 0, 0], "150")


def test_it_falls_with_the_process_and_the_next_writer_sweeps(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HELD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.kill()
    left = [path.name for path in tmp_path.iterdir()]

    with locked(tmp_path), replacing(tmp_path / "file"):
        pass

    assert (left, [path.name for path in tmp_path.iterdir()]) == ([".evseq-lock.tmp"], ["file"])


def test_a_file_written_in_a_held_folder_does_not_break_the_lock(tmp_path: Path) -> None:
    with locked(tmp_path):
        with replacing(tmp_path / "file"):
            pass
        held = (tmp_path / ".evseq-lock.tmp").exists()

    assert held


def test_a_lock_whose_file_was_swept_before_it_was_held_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    lock = fcntl.flock

    def swept_at_first(file: BinaryIO, operation: int) -> None:
        taken.append(operation)
        if len(taken) == 1:
            (tmp_path / ".evseq-lock.tmp").unlink()
        lock(file, operation)

    monkeypatch.setattr("evseq.golden.lock.fcntl.flock", swept_at_first)

    with locked(tmp_path):
        held = (tmp_path / ".evseq-lock.tmp").exists()

    assert (len(taken), held) == (2, True)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotWritable) as caught, locked(tmp_path / "none"):
        pass

    assert str(caught.value) == (
        f"{tmp_path}/none/.evseq-lock.tmp: cannot be locked: No such file or directory\n"
        "  help: check the folder's permissions and the room on its disk"
    )


def test_without_locks_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(file: BinaryIO, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), file.name, operation)

    monkeypatch.setattr("evseq.golden.lock.fcntl.flock", no_locks)

    with pytest.raises(NotWritable, match="cannot be locked: No locks available"), locked(tmp_path):
        pass
