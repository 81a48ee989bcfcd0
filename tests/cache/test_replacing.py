from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from evseq.cache.damage import IsALink, NotAFile, NotWritable
from evseq.cache.replacing import held, replacing

HALFWAY = """
import sys
from evseq.cache.replacing import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half of it")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
    file.write(b", the rest")
"""

OVER_AND_OVER = """
import sys
from evseq.cache.replacing import replacing
print("writing", flush=True)
for text in (b"one", b"two") * int(sys.argv[2]):
    with replacing(sys.argv[1]) as file:
        for _ in range(64):
            file.write(text * 100_000)
"""

WHOLE = {b"one" * 6_400_000, b"two" * 6_400_000}


def leftovers(folder: Path) -> list[Path]:
    """Return the temporary files in a folder."""
    return list(folder.glob(".evseq-*.tmp"))


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return what starts a writer of `tmp_path/file` and waits until it is at it."""
    started = []

    def start(code: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code, tmp_path / "file", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_the_name_belongs_to_the_new_file_once_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")

    with replacing(tmp_path / "file") as file:
        file.write(b"new")
        file.flush()
        meanwhile = (tmp_path / "file").read_bytes()

    assert (meanwhile, (tmp_path / "file").read_bytes(), leftovers(tmp_path)) == (b"old", b"new", [])


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")

    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "file") as file:
        file.write(b"new" * (1 // 0))

    assert ((tmp_path / "file").read_bytes(), leftovers(tmp_path)) == (b"old", [])


def test_a_full_disk_is_named_and_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")

    with pytest.raises(NotWritable) as caught, replacing(tmp_path / "file"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert str(caught.value) == (
        f"{tmp_path}/file: cannot be written: No space left on device\n"
        "  help: check the folder's permissions and the room on its disk"
    )
    assert ((tmp_path / "file").read_bytes(), leftovers(tmp_path)) == (b"old", [])


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotWritable, match="cannot be written: No such file or directory"), replacing(tmp_path / "a/b"):
        pass


def test_a_folder_of_that_name_stays(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()

    with pytest.raises(NotWritable, match="cannot be written: Is a directory"), replacing(tmp_path / "file"):
        pass

    assert ((tmp_path / "file").is_dir(), leftovers(tmp_path)) == (True, [])


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()

    with replacing(tmp_path / "file"):
        pass

    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_writer_killed_halfway_leaves_the_old_file_and_its_leftover_is_swept(
    tmp_path: Path, writer: Callable[..., subprocess.Popen[str]]
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    killed = writer(HALFWAY)
    killed.kill()
    killed.wait()
    before = [path.read_bytes() for path in leftovers(tmp_path)]

    with replacing(tmp_path / "another"):
        pass

    assert ((tmp_path / "file").read_bytes(), before, leftovers(tmp_path)) == (b"old", [b"half of it"], [])


def test_a_living_writer_is_not_swept(tmp_path: Path, writer: Callable[..., subprocess.Popen[str]]) -> None:
    living = writer(HALFWAY)

    with replacing(tmp_path / "file") as file:
        file.write(b"meanwhile")
    during = (tmp_path / "file").read_bytes()
    living.communicate("")

    assert (during, living.returncode) == (b"meanwhile", 0)
    assert (tmp_path / "file").read_bytes() == b"half of it, the rest"


@pytest.mark.parametrize("milliseconds", [1, 7, 20, 45, 90, 160])
def test_a_writer_killed_at_any_time_leaves_a_whole_file(
    milliseconds: int, tmp_path: Path, writer: Callable[..., subprocess.Popen[str]]
) -> None:
    (tmp_path / "file").write_bytes(b"one" * 6_400_000)
    killed = writer(OVER_AND_OVER, "1000")

    time.sleep(milliseconds / 1000)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    found = (tmp_path / "file").read_bytes()
    with replacing(tmp_path / "file"):
        pass

    assert found in WHOLE
    assert leftovers(tmp_path) == []


def test_many_writers_of_one_name_do_not_disturb_each_other(
    tmp_path: Path, writer: Callable[..., subprocess.Popen[str]]
) -> None:
    writers = [writer(OVER_AND_OVER, "3") for _ in range(4)]

    ended = [process.wait() for process in writers]

    assert ended == [0, 0, 0, 0]
    assert (tmp_path / "file").read_bytes() in WHOLE
    assert leftovers(tmp_path) == []


def test_a_held_file_is_there_until_the_block_is_left_whoever_sweeps(tmp_path: Path) -> None:
    with held(tmp_path) as mark:
        with replacing(tmp_path / "file"):
            pass
        there = mark.exists()

    assert (there, leftovers(tmp_path)) == (True, [])


def test_a_file_cannot_be_held_where_there_is_no_folder(tmp_path: Path) -> None:
    with (
        pytest.raises(NotWritable, match="cannot be written: No such file or directory"),
        held(tmp_path / "none"),
    ):
        pass


def test_other_files_of_the_folder_are_left_alone(tmp_path: Path) -> None:
    for name in (".evseq-kept", "evseq-1.tmp", "kept.tmp", ".kept.tmp"):
        (tmp_path / name).touch()

    with replacing(tmp_path / "file"):
        pass

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".evseq-kept",
        ".kept.tmp",
        "evseq-1.tmp",
        "file",
        "kept.tmp",
    ]


def test_a_writer_whose_file_was_swept_before_it_had_the_lock_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[Path]] = []
    lock = fcntl.flock

    def swept_at_first(file: BinaryIO, operation: int) -> None:
        made.append(leftovers(tmp_path))
        made[0][0].unlink(missing_ok=True)
        lock(file, operation)

    monkeypatch.setattr("evseq.cache.replacing.fcntl.flock", swept_at_first)

    with replacing(tmp_path / "file") as file:
        file.write(b"new")

    assert (len(made), (tmp_path / "file").read_bytes(), leftovers(tmp_path)) == (2, b"new", [])


def test_where_the_filesystem_has_no_locks_files_are_written_and_nothing_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".evseq-1-2.tmp").touch()

    def no_locks(file: BinaryIO, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), file.name, operation)

    monkeypatch.setattr("evseq.cache.replacing.fcntl.flock", no_locks)

    with replacing(tmp_path / "file") as file:
        file.write(b"new")

    assert ((tmp_path / "file").read_bytes(), leftovers(tmp_path)) == (b"new", [tmp_path / ".evseq-1-2.tmp"])


def test_a_link_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "file").symlink_to("real")

    with pytest.raises(IsALink) as caught, replacing(tmp_path / "file") as file:
        file.write(b"new")

    assert str(caught.value) == (
        f"{tmp_path}/file: a link to real, which a file would replace\n"
        "  help: name the file that it leads to, or put the file itself there"
    )
    assert ((tmp_path / "file").is_symlink(), (tmp_path / "real").read_bytes()) == (True, b"old")
    assert leftovers(tmp_path) == []


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file")

    with (
        pytest.raises(NotAFile, match="not a regular file, and not to be replaced by one"),
        replacing(tmp_path / "file"),
    ):
        pass

    assert (tmp_path / "file").is_fifo()
