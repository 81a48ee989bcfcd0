"""Opening: a regular file, read no further than it may be long. All that evseq reads of its own comes through here."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from evseq.cache.damage import FieldDamaged, NotAFile, NotReadable, NotThere, SaidTwice, TooLarge

__all__ = ["opened", "plain_json", "whole"]


@contextlib.contextmanager
def opened(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open a regular file for reading; what the system refuses, then or later, is a `Damage`."""
    if "\0" in str(path):  # no system has such a name
        raise NotThere(path, "no such file")
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):  # asked first: some devices act when they are opened
            raise NotAFile(path, "not a regular file")
        # Neither waited for nor read if a pipe or a device took the name since.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NotAFile(path, "not a regular file")
            yield file
    except FileNotFoundError:
        raise NotThere(path, "no such file") from None
    except OSError as error:
        raise NotReadable(path, f"cannot be read: {error.strerror or error}") from error


def whole(path: str | PathLike[str], *, most: int) -> bytes:
    """Return what a file of at most `most` bytes holds; a longer one is not read. Raises a `Damage`."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(most + 1) if size <= most else b""
    if max(size, len(content)) > most:  # it may have grown meanwhile
        raise TooLarge(path, f"{max(size, len(content))} bytes, at most {most} are read")
    return content


def plain_json(path: str | PathLike[str], *, most: int) -> bytes:
    """Return the bytes of a JSON file, no key of which is said twice and each number of which is one.

    Raises a `Damage`: of two values for one key, readers differ in which they take.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        said: dict[str, Any] = {}
        for key, value in pairs:
            if key in said:
                raise SaidTwice(path, f"the key {key!r} is said twice")
            said[key] = value
        return said

    def none(word: str) -> None:
        raise FieldDamaged(path, f"{word} is no number that JSON has")

    content = whole(path, most=most)
    try:
        json.loads(content.decode(), object_pairs_hook=once, parse_constant=none)
    except (ValueError, RecursionError) as error:
        raise FieldDamaged(path, f"not JSON: {error}") from None
    return content
