"""Versions: of evseq and of what its numbers depend on, read from the packages' metadata, which loads no library."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

__all__ = ["evseq", "libraries", "of"]

LIBRARIES = ("torch", "safetensors", "transformers")


def evseq() -> str | None:
    """Return the version of evseq."""
    return of("evseq")


def libraries() -> Mapping[str, str | None]:
    """Return versions by name, None where not installed."""
    return {"python": platform.python_version(), **{name: of(name) for name in LIBRARIES}}


@cache  # metadata is a file to be parsed, and every script of a run is stamped with it
def of(name: str) -> str | None:
    """Return the version of a package, None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
