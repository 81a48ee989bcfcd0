"""Scripts: the names of all that a project has, whatever a run selects."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from evseq.cache.opening import whole
from evseq.errors import CacheError, EvseqError
from evseq.script import source
from evseq.script.library import PATTERN, SUITE

__all__ = ["known_scripts"]

SKIPPED = frozenset({"build", "dist", "node_modules"})
"""Folders that hold copies of scripts, or somebody else's; hidden ones and virtual environments are skipped too."""


def known_scripts(project: Path) -> frozenset[str]:
    """Return the names of all scripts of a project and of the shipped suite.

    One that does not say its name, because of a slip in it, may be called as its file is, or by any word in it.
    """
    files = dict.fromkeys(path for folder in (project, SUITE) for path in _script_files(folder))
    return frozenset(name for path in files for name in _names(path))


def _script_files(folder: Path) -> Iterator[Path]:
    seen = set()
    for here, folders, files in os.walk(folder, followlinks=True):  # a name missed would make its goldens unused
        real = os.path.realpath(here)
        if real in seen or "pyvenv.cfg" in files:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".") and name not in SKIPPED]
        yield from (path for name in files if (path := Path(here, name)).match(PATTERN))


def _names(path: Path) -> set[str]:
    try:
        data = source.read(path).data
    except EvseqError:
        data = None
    name = data.get("name") if isinstance(data, dict) else None
    if name and isinstance(name, str):
        return {name}
    words = set()
    with contextlib.suppress(CacheError):
        text = whole(path, most=source.MAX_BYTES).decode(errors="replace")
        words = {word.rstrip(".") for word in re.findall(r"[A-Za-z_][\w.-]*", text)}
    return words | {path.name.removesuffix(PATTERN.removeprefix("*"))}
