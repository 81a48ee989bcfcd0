"""Replace a file whole or not at all, and sweep what killed writers left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from evseq.cache.damage import IsALink, NotAFile, NotWritable

__all__ = ["held", "replacing"]

TEMPORARY = ".evseq-*.tmp"


@contextlib.contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open a new file that takes the name `path` once the block is left without an error.

    Until then, and if the writer is killed, the old file is whole. Any number of writers may share a folder: each holds
    a lock on its own temporary file, which falls with the process, and sweeps only what nobody holds. Raise
    `NotWritable` where the system refuses, `IsALink` or `NotAFile` where the name is no file's.
    """
    target = Path(path)
    try:
        _refuse_others(target)
        _sweep(target.parent)
        temporary, file = _temporary(target.parent)
        try:
            with file:  # the lock is held until the file has its final name
                yield file
                file.flush()
                os.fsync(file.fileno())
                temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync(target.parent)
    except OSError as error:
        raise NotWritable(path, f"cannot be written: {error.strerror or error}") from error


@contextlib.contextmanager
def held(folder: Path) -> Iterator[Path]:
    """Have an empty file in a folder until the block is left; that of a killed process is swept as any other.

    Raise `NotWritable` where the system refuses.
    """
    try:
        _sweep(folder)
        path, file = _temporary(folder)
    except OSError as error:
        raise NotWritable(folder, f"cannot be written: {error.strerror or error}") from error
    with file:
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def _refuse_others(target: Path) -> None:
    """Raise for a name that a file would take from a link or, with enough rights, even from a device."""
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise IsALink(target, f"a link to {target.readlink()}, which a file would replace")
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # of a folder the system says so itself
        raise NotAFile(target, "not a regular file, and not to be replaced by one")


def _temporary(folder: Path) -> tuple[Path, BinaryIO]:
    while True:
        path = folder / TEMPORARY.replace("*", f"{os.getpid()}-{secrets.token_hex(8)}")
        file = path.open("xb")
        with contextlib.suppress(OSError):  # no locks on this filesystem: then nobody sweeps here
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return path, file
        file.close()  # swept between open and lock


def _sweep(folder: Path) -> None:
    for path in folder.glob(TEMPORARY):
        with contextlib.suppress(OSError), path.open("r+b") as file:  # held, gone meanwhile, or not ours to remove
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _sync(folder: Path) -> None:
    """Make the new name itself survive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
