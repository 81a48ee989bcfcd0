"""A small torch decoder with weights in the package: the embedded default engine.

The entry point `reference` names this module; importing it never imports torch.
"""

from __future__ import annotations

from evseq.engines.reference.config import NAMES
from evseq.engines.reference.loader import ReferenceLoader

__all__ = ["ReferenceLoader", "configurations", "loader"]


def configurations() -> tuple[str, ...]:
    """Return the names in the package, the plainest first."""
    return NAMES


def loader(rest: str) -> ReferenceLoader:
    """Return the loader of the configuration `rest`. Raise `TargetError` for a name not in the package."""
    return ReferenceLoader.named(rest)
