"""Output: a text that a command writes to the file it was told, whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from evseq.cache.damage import NotAFile, NotWritable
from evseq.cache.replacing import replacing
from evseq.errors import UsageError

__all__ = ["fixed", "put", "refused"]


def put(path: Path, text: str) -> None:
    """Write `text` in place of what `path` holds, which a failure leaves; a link stays one, a device is written into.

    Raises UsageError where it cannot be written.
    """
    try:
        if _takes_text(path):
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        with replacing(path.resolve()) as file:
            file.write(text.encode())
    except (OSError, NotWritable, NotAFile) as error:
        raise refused(path, error) from None


def fixed(path: Path) -> None:
    """Raise UsageError, before anything takes long, where `put` could not write the file."""
    if _takes_text(path):
        return
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=path.resolve().parent):
            pass
    except OSError as error:
        raise refused(path, error) from None


def refused(path: Path, error: Exception) -> UsageError:
    """Return what is told where the system refuses to write a file."""
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    told = cause.strerror if isinstance(cause, OSError) else str(error)
    return UsageError(f"{path}: cannot be written: {told}\n  help: name a file in a folder you may write to")


def _takes_text(path: Path) -> bool:
    """Return whether it is a device or a pipe, which no file may take the name of."""
    return path.exists() and not path.is_file() and not path.is_dir()
