"""Faults of a package that is broken itself."""

from __future__ import annotations

from evseq.engines.protocol import Loader


class Raises:
    """Raises when planted."""

    def plant(self, loader: Loader, *, target: str) -> Loader:
        raise RuntimeError("no ground")


FAULTS = {"raises": Raises()}
