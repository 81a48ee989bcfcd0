"""Scripts: the shipped suite, read once in each process."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from evseq.pipeline import read_scripts
from evseq.script.document import Script

__all__ = ["scripts"]


def scripts(names: Iterable[str]) -> list[Script]:
    """Return the scripts of the suite that are named, in its order."""
    wanted = set(names)
    return [script for script in _suite() if script.name in wanted]


@cache
def _suite() -> tuple[Script, ...]:
    return read_scripts([], suite=True)
