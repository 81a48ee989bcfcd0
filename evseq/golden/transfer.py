"""Transfer: bytes to and from a store, through fsspec, which is loaded here and nowhere else."""

from __future__ import annotations

import contextlib
import errno
import queue
import threading
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from evseq.cache.damage import NotWritable
from evseq.errors import UsageError
from evseq.golden.outage import Altered, Denied, NotInStore, Outage, Silent, Unreachable
from evseq.golden.store import Store

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem
    from fsspec.callbacks import Callback

__all__ = ["download", "upload"]

ANONYMOUS = frozenset({"NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "NoAuthInfo"})
"""What packages of protocols raise where there are no credentials, by name: none of them is imported here."""

FORBIDDEN = frozenset({401, 403})
"""HTTP's words for it."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""What a system says of a disk: of this machine's own, where something is fetched."""

Work = Callable[["AbstractFileSystem", str, "Callback"], None]
"""What is done with a filesystem and a path in it, as long as bytes move."""


class _Word(Enum):
    """What a transfer says of itself."""

    MOVING = "moving"
    DONE = "done"


def download(store: Store, name: str, *, to: Path) -> None:
    """Write an object's bytes, whatever they are, into a file.

    Raises NotInStore where there is none, Altered where a folder has its name, an Outage where the store fails, OSError
    where this disk does, UsageError where a package is not installed.
    """

    def get(system: AbstractFileSystem, path: str, heard: Callback) -> None:
        system.get_file(path, str(to), callback=heard)

    _moved(store, name, get)


def upload(store: Store, name: str, *, file: Path) -> None:
    """Send a file; folders below the store's own are made, the store itself is not.

    Raises what `download` does, NotWritable where it is the store that has no room or takes nothing.
    """

    def put(system: AbstractFileSystem, path: str, heard: Callback) -> None:
        try:
            system.put_file(str(file), path, callback=heard)
        except FileNotFoundError:  # a store with real folders, or one that is not there
            *above, _ = name.split("/")
            base = path.removesuffix(f"/{name}")
            for count in range(len(above)):
                with contextlib.suppress(FileExistsError):
                    # Never its parents: that would make a bucket of a misspelt name.
                    system.mkdir("/".join((base, *above[: count + 1])), create_parents=False)
            system.put_file(str(file), path, callback=heard)

    try:
        _moved(store, name, put)
    except OSError as error:
        raise NotWritable(store.address(name), f"cannot be written: {error.strerror}") from None


def _moved(store: Store, name: str, work: Work) -> None:
    """Do `work` in a thread of its own and wait as long as bytes move: not every protocol knows a timeout."""
    said: queue.SimpleQueue[_Word | Exception] = queue.SimpleQueue()

    def heard(*_: object, **__: object) -> None:
        said.put(_Word.MOVING)

    def run() -> None:
        try:
            from fsspec.callbacks import Callback

            system, path = _opened(store)
            heard()
            work(system, f"{path.rstrip('/')}/{name}", Callback(hooks={"heard": heard}))
        except Exception as error:  # noqa: BLE001 - packages of protocols raise what they like; it is said below
            said.put(error)
        else:
            said.put(_Word.DONE)

    # One that never comes back must not keep the process from ending.
    threading.Thread(target=run, name=f"evseq: {name}", daemon=True).start()
    while True:
        try:
            told = said.get(timeout=store.timeout)
        except queue.Empty:
            raise Silent(store.address(name), f"nothing moved for {store.timeout:g} s") from None
        match told:
            case _Word.MOVING:
                continue
            case _Word.DONE:
                return
            case Exception():
                raise _said(store, name, told) from told
            case _:
                assert_never(told)


def _opened(store: Store) -> tuple[AbstractFileSystem, str]:
    """Return the filesystem of a store and its path there. Raises UsageError where a package is not installed."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise UsageError(f"{store.url}: fsspec is not installed\n  help: pip install 'evseq[remote]'") from None
    try:
        system, path = url_to_fs(store.url)
    except (ImportError, ValueError) as error:
        raise UsageError(
            f"{store.url}: {_line(error)}\n  help: mend the URL, or install the package of its protocol"
        ) from None
    return system, path


def _said(store: Store, name: str, error: Exception) -> Exception:
    """Return in our words what a package of a protocol raised."""
    address, told = store.address(name), _line(error)
    if isinstance(error, UsageError) or (isinstance(error, OSError) and error.errno in FULL):
        return error
    if isinstance(error, FileNotFoundError):
        return NotInStore(address, f"is not in the store: {told}")
    if isinstance(error, FileExistsError | IsADirectoryError):
        return Altered(address, "is a folder, which has to be removed")
    failed: type[Outage] = Unreachable
    if isinstance(error, TimeoutError):
        failed = Silent
    elif (
        isinstance(error, PermissionError)
        or type(error).__name__ in ANONYMOUS
        or getattr(error, "status", None) in FORBIDDEN
    ):
        failed = Denied
    answered = hasattr(error, "status") or getattr(error, "errno", None) == errno.EIO  # over HTTP, or by S3's codes
    words = {Silent: "did not answer in time", Denied: "access is refused"}
    return failed(address, f"{words.get(failed, 'the store fails' if answered else 'cannot be reached')}: {told}")


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
