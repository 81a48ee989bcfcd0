"""Targets: what a run has opened, each once, by text or as an object in memory."""

from __future__ import annotations

from typing import cast

from evseq.engines.protocol import Loader
from evseq.engines.registry import find
from evseq.replay.fresh import Fresh
from evseq.replay.target import Target

__all__ = ["Targets"]


class Targets:
    """Opened targets by their text, and the one process that serves all of them for fresh reloads."""

    def __init__(self, *, threads: int) -> None:
        self.fresh = Fresh(threads=threads)
        self._opened: dict[str, Target] = {}
        self._memory: list[tuple[object, str]] = []  # objects given in place of a text, and the text they go by

    def target(self, named: str | object) -> Target:
        """Open a target by its text, a loader, or a transformers model; once. Raises TargetError."""
        text = named if isinstance(named, str) else self._named(named)
        if text not in self._opened:
            loader = find(text) if isinstance(named, str) else _loader(named)
            in_memory = not isinstance(named, str)
            self._opened[text] = Target(text=text, loader=loader, fresh=self.fresh, in_memory=in_memory)
        return self._opened[text]

    def close(self) -> None:
        """Let go of every target, and end the process."""
        self.fresh.close()
        self._opened.clear()
        self._memory.clear()

    def _named(self, model: object) -> str:
        """Return the text an object goes by; another object of that type gets another."""
        for known, text in self._memory:
            if known is model:
                return text
        others = sum(type(known) is type(model) for known, _ in self._memory)
        name = f"memory/{type(model).__name__}" + (f"-{others + 1}" if others else "")
        text = name.replace("/", ":", 1) if _is_loader(model) else f"transformers:{name}"
        self._memory.append((model, text))
        return text


def _is_loader(model: object) -> bool:
    return all(callable(getattr(model, method, None)) for method in ("describe", "tokenize", "load"))


def _loader(model: object) -> Loader:
    if _is_loader(model):
        return cast("Loader", model)
    from evseq.engines.transformers import in_memory

    return in_memory(model)
