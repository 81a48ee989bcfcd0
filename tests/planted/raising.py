"""Engines that raise in one method: `planted.raising:METHOD`, each method by its name in the protocols."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evseq.engines.reference import loader as healthy

LOADER = ("describe", "tokenize", "load")
ENGINE = ("dtype", "forwarded", "identity", "uncached", "open")
SESSION = ("prefill", "append", "select", "crop", "fork", "reset", "export", "restore", "probe", "view")

PROPERTIES = ("dtype", "forwarded")
MAKERS = ("load", "open", "fork")
"""Methods that return an engine or a session."""


@dataclass(slots=True)
class Raising:
    """A loader, engine or session that raises when `method` is used, and makes others like it."""

    inner: Any
    method: str

    def __getattr__(self, name: str) -> Any:
        if name == self.method and name in PROPERTIES:
            raise OSError(f"{name} has failed")
        if name == self.method:
            return self._raise
        found = getattr(self.inner, name)
        return self._wrapped(found) if name in MAKERS else found

    def _raise(self, *arguments: Any, **named: Any) -> Any:
        raise OSError(f"{self.method} has failed")

    def _wrapped(self, make: Any) -> Any:
        return lambda *arguments, **named: Raising(make(*arguments, **named), self.method)


def __getattr__(name: str) -> Any:
    """Return what makes a loader of engines that raise in the method of that name."""
    if name.startswith("_"):
        raise AttributeError(name)
    return lambda: Raising(healthy("full"), name)
