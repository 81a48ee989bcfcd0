"""Lock: one process at a time in a folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from evseq.cache.damage import NotWritable

__all__ = ["locked"]

NAME = ".evseq-lock.tmp"
"""One of the names that `replacing` sweeps once nobody holds it: nothing stays of a killed holder."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until nobody else holds `folder`, and hold it; the lock falls with the process.

    Raise `NotWritable` where the system refuses.
    """
    path = folder / NAME
    while True:
        with _lock(path) as file:
            if os.fstat(file.fileno()).st_nlink:  # else somebody removed it between open and lock
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return


def _lock(path: Path) -> BinaryIO:
    try:
        file = path.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            file.close()
            raise
    except OSError as error:
        raise NotWritable(path, f"cannot be locked: {error.strerror or error}") from error
    return file
