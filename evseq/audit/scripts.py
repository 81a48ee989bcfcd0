"""Scripts: the shipped suite and its quick set, read once in each process."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from evseq.pipeline import read_scripts
from evseq.script.document import Script

__all__ = ["scripts"]


def scripts(names: Iterable[str], *, quick: bool = False) -> list[Script]:
    """Return the scripts of the suite that are named, in its order; if `quick`, with the cases of the quick set."""
    wanted = set(names)
    return [script for script in _suite(quick=quick) if script.name in wanted]


@cache
def _suite(*, quick: bool) -> tuple[Script, ...]:
    return read_scripts([], suite=not quick, quick=quick)
