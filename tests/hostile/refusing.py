"""Writers whom the system refuses: a disk that is full, a folder that is read only, a file of somebody else's.

Run as `python refusing.py KIND,...`, it prints what each writer was told, for each way in which it was refused. What
was there before must be there afterwards.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from evseq.errors import EvseqError
from hostile.dying import MEMORY
from hostile.writing import WRITERS, Writer

NOBODY = 65534


def _full(folder: Path) -> None:
    """Let no file grow beyond some bytes, as where a disk is full or a quota used up."""
    del folder
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def _nobody(folder: Path) -> None:
    """Be a user who may read all of it and write nothing."""
    for inside in (folder, *folder.rglob("*")):
        inside.chmod(0o755 if inside.is_dir() else 0o644)
    _become_nobody()


def _read_only(folder: Path) -> None:
    """Own all of it, without leave to write."""
    for inside in (folder, *folder.rglob("*")):
        if os.getuid() == 0:
            os.chown(inside, NOBODY, NOBODY)
        inside.chmod(0o555 if inside.is_dir() else 0o444)
    _become_nobody()


def _become_nobody() -> None:
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


WAYS: Mapping[str, Callable[[Path], None]] = {"full": _full, "nobody": _nobody, "read-only": _read_only}


def refused(writer: Writer, way: str) -> str:
    """Return what a writer is told. Raises AssertionError where it is told nothing, or something is lost."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        folder = Path(name)
        folder.chmod(0o755)
        for number in (0, 1):
            writer.prepared(folder, number)
            if number == 0:
                writer.writes(folder, number)
        read, write = os.pipe()
        process = os.fork()
        if process == 0:
            told = "nothing"
            try:
                WAYS[way](folder)
                writer.writes(folder, 1)
            except EvseqError as error:
                told = f"{type(error).__name__}: {error}"
            except BaseException as error:  # noqa: BLE001 - told, and found wrong
                told = f"a traceback: {type(error).__name__}: {error}"
            os.write(write, told.encode())
            os._exit(0)
        os.waitpid(process, 0)
        os.close(write)
        with os.fdopen(read) as pipe:
            told = pipe.read()
        for inside in (folder, *folder.rglob("*")):
            os.chown(inside, os.getuid(), os.getgid())
            inside.chmod(0o755 if inside.is_dir() else 0o644)
        assert writer.found(folder) == 0, f"after {told}"
        assert [path.name for path in folder.rglob(".*")] == [], told
        writer.tidied(folder)
        return told.replace(str(folder), "FOLDER")


if __name__ == "__main__":
    for kind in sys.argv[1].split(","):
        for word in WAYS:
            print(json.dumps([kind, word, refused(WRITERS[kind], word)]), flush=True)  # noqa: T201
