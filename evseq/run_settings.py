"""Run settings: what a run is asked for besides scripts and targets, by a front end or from Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evseq.errors import UsageError
from evseq.golden.terms import Terms
from evseq.script.arms import selection

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to run. `only` filters arms; `record` is a folder that keeps recordings; `goldens` are the terms for them.

    `known` is a file of known failures; without one, each script's folder is asked for `known.yaml`. `workers` are
    processes that share the scripts; they are started as `multiprocessing` does, so a program guards its main module.
    With the address of a `scheduler` of Dask the workers of its cluster share them instead.

    Raises UsageError for a value that would do nothing, or something else.
    """

    mode: str = "pairwise"
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    threads: int = 1
    record: Path | None = None
    goldens: Terms = field(default_factory=Terms)
    known: Path | None = None
    workers: int = 1
    scheduler: str | None = None

    def __post_init__(self) -> None:
        """Refuse what a caller from Python may say and no front end does."""
        selection(self.mode)
        for name, number in (("threads", self.threads), ("workers", self.workers)):
            if number < 1:
                raise UsageError(f"{name}: {number} is no number of {name}\n  help: use a whole number from 1")
        only: Mapping[str, object] = self.only
        for name, values in only.items():
            if isinstance(values, str) or not values:
                raise UsageError(
                    f"only: arm {name!r}: {values!r} are no values\n  help: name them, as in {{'dtype': ('float64',)}}"
                )
