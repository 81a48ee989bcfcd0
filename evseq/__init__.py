"""Decide from numbers whether a decoder's cached step equals its uncached forward.

The names below are bound when they are first used: importing `evseq` loads neither torch nor anything else heavy.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evseq.engines.protocol import Batch, Engine, Loader, Probe, Session
    from evseq.errors import EvseqError
    from evseq.pipeline import qualify
    from evseq.verdict.result import Outcome, Result

    __version__: str

__all__ = [
    "Batch",
    "Engine",
    "EvseqError",
    "Loader",
    "Outcome",
    "Probe",
    "Result",
    "Session",
    "__version__",
    "qualify",
]

_HOMES = {
    "Batch": "evseq.engines.protocol",
    "Engine": "evseq.engines.protocol",
    "EvseqError": "evseq.errors",
    "Loader": "evseq.engines.protocol",
    "Outcome": "evseq.verdict.result",
    "Probe": "evseq.engines.protocol",
    "Result": "evseq.verdict.result",
    "Session": "evseq.engines.protocol",
    "qualify": "evseq.pipeline",
}


def __getattr__(name: str) -> Any:
    """Bind a public name to the object in its room (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version  # takes longer than the rest of this module

        value: Any = version("evseq")
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'evseq' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
