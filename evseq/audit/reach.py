"""Reach: whether a script asks an engine for anything that a fault breaks. Where it does not, the engine is healthy."""

from __future__ import annotations

from collections.abc import Iterable

from evseq.faults.broken import BrokenEngine, BrokenSession
from evseq.faults.fault import Fault, Side
from evseq.script.document import Script
from evseq.script.events import Drop, Event, Keep, Repeat

__all__ = ["SELDOM", "asked", "broken", "one_sided", "reached"]

SELDOM = frozenset({"select", "crop", "fork", "join", "reset", "export", "restore", "reuse"})
"""What only some scripts ask for. Everything else is asked for by all."""

SAVING = SELDOM - {"select", "join", "reset"}
"""What saving, asking for reuse and showing what a refusal is for may take."""

ASKED = {
    "beam-select": frozenset({"select"}),
    "retire": frozenset({"select"}),
    "join": frozenset({"join"}),
    "crop": frozenset({"crop"}),
    "speculate": frozenset({"crop"}),
    "fork": frozenset({"fork"}),
    "prefill": frozenset[str](),
    "append": frozenset[str](),
    "probe": frozenset[str](),
}
"""What an event takes of that; one that is not listed takes what saving does."""

PARTS = {"twin": "fork"}
"""Methods of the wrapping by the one they are part of."""

PLAIN = frozenset({"__module__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__abstractmethods__"})
PLAIN |= {"__firstlineno__", "__static_attributes__"}
"""What Python writes into a class by itself."""


def reached(fault: Fault, script: Script) -> bool:
    """Return whether playing `script` can come upon what `fault` breaks."""
    touched = broken(fault)
    return not touched or bool(touched & asked(script.events))


def asked(events: Iterable[Event]) -> frozenset[str]:
    """Return what of `SELDOM` playing `events` may ask an engine or a session for."""
    found = frozenset[str]()
    for event in events:
        match event:
            case Repeat():
                found |= asked(event.events)
            case Drop():
                found |= {"reset"} if event.keep is Keep.BUFFERS else set()
            case _:
                found |= ASKED.get(event.word, SAVING)
    return found


def broken(fault: Fault) -> frozenset[str]:
    """Return what of `SELDOM` a fault breaks, if it breaks nothing else; empty if there is no telling."""
    base = _base(fault)
    names = {PARTS.get(name, name) for name in _own(fault)}
    known = {name for name in names if hasattr(base, name) and name not in vars(object)} | (names & SELDOM)
    changed = (known | {name for name in names if name.startswith("__")}) - PLAIN
    return frozenset(changed) if changed <= SELDOM else frozenset()


def one_sided(fault: Fault) -> bool:
    """Return whether the uncached side is the healthy engine's, at least until something was played."""
    touched = any(name == "__init__" or name.startswith("uncached") for name in _own(fault))
    return fault.side not in (Side.UNCACHED, Side.BOTH) and not touched


def _base(fault: Fault) -> type[BrokenEngine | BrokenSession]:
    return BrokenEngine if issubclass(fault.broken, BrokenEngine) else BrokenSession


def _own(fault: Fault) -> set[str]:
    """Return the names that a broken class has of its own."""
    own = fault.broken.__mro__[: fault.broken.__mro__.index(_base(fault))]
    return {name for part in own for name in vars(part)}
