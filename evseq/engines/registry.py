"""The registry of engines: a target text becomes a loader. Importing this module imports no inference library.

An engine is an entry point of group `evseq.engines`. It names an object, usually a module, with
`configurations() -> tuple[str, ...]`, what the engine's name alone stands for, and `loader(rest) -> Loader`, which gets
what follows `NAME:`.

`TARGET+NAME` is a target with a fault planted in it, to prove that a check can fail. Faults are mappings by name, found
as entry points of group `evseq.faults`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from evseq.errors import EvseqError, TargetError, nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

    from evseq.engines.protocol import Loader

__all__ = ["Family", "entry_points", "find", "healthy", "targets"]

GROUP = "evseq.engines"

FAULTS = "evseq.faults"

PLANTED = re.compile(r"(?P<target>.+)\+(?P<fault>[a-z][a-z0-9-]*)")
"""A target with a fault. What follows the last plus of a number such as 1e+5 is no name."""

FAILURES = (Exception, SystemExit)
"""What foreign code may raise. A module that ends the process has failed too; only interrupts end a run."""

METHODS = ("describe", "tokenize", "load")
"""What a loader can do; see `evseq.engines.protocol.Loader`."""


@runtime_checkable
class Family(Protocol):
    """What an entry point names: all targets of one engine."""

    def configurations(self) -> tuple[str, ...]:
        """Return what the engine's name alone stands for; empty if it must be told what to load."""
        ...

    def loader(self, rest: str) -> Loader:
        """Return the loader of `NAME:rest`. Raise `TargetError` for what does not exist."""
        ...


@runtime_checkable
class Plantable(Protocol):
    """A fault, as an entry point of group `evseq.faults` has it by name."""

    def plant(self, loader: Loader, *, target: str) -> Loader:
        """Return a loader of broken engines. Raise `TargetError`, addressed to `target`, where it could not show."""
        ...


def entry_points(*, group: str) -> EntryPoints:
    """Return what is installed under the name of a group."""
    # Imported when it is asked: it takes a third of what `evseq --help` needs, which asks nothing.
    from importlib.metadata import entry_points as installed

    return installed(group=group)


def targets(text: str) -> tuple[str, ...]:
    """Return the single targets `text` stands for: itself, or each configuration of an engine named alone."""
    name, colon, _ = text.partition(":")
    if colon:
        return (text,)
    if planted := PLANTED.fullmatch(name):
        return tuple(f"{single}+{planted['fault']}" for single in targets(planted["target"]))
    entries = _engines()
    if name not in entries:
        raise _unknown(text, entries)
    family = _family(text, entries[name])
    try:
        configurations = family.configurations()
    except EvseqError:
        raise
    except FAILURES as error:
        raise _failed(text, "naming its configurations", error) from error
    if not configurations:
        raise TargetError(f"{text}: this engine must be told what to load\n  help: write '{text}:WHAT'")
    return tuple(f"{name}:{configuration}" for configuration in configurations)


def find(text: str) -> Loader:
    """Return the loader of one target: `NAME:REST` or `MODULE:ATTRIBUTE`, and `+FAULT` behind either.

    Raise `TargetError` if there is none. A folder that has a plus in its name is a folder.
    """
    if planted := _planted(text):
        return _faulty(text, planted["target"], planted["fault"])
    name, colon, rest = text.partition(":")
    entries = _engines()
    if not colon:
        raise _one_wanted(text) if name in entries else _unknown(text, entries)
    if name not in entries:
        return _imported(text, name, rest, entries)
    family = _family(text, entries[name])
    try:
        return family.loader(rest)
    except ModuleNotFoundError as error:
        raise _extra(text, entries[name], error) from error
    except EvseqError:
        raise
    except FAILURES as error:
        raise _failed(text, "finding its loader", error) from error


def healthy(text: str) -> str:
    """Return a target without the faults planted in it."""
    planted = _planted(text)
    return text if planted is None else healthy(planted["target"])


def _planted(text: str) -> re.Match[str] | None:
    planted = PLANTED.fullmatch(text)
    return None if planted is None or Path(text.partition(":")[2]).expanduser().exists() else planted


def _faulty(text: str, target: str, name: str) -> Loader:
    loader = find(target)
    known: dict[str, Plantable] = {}
    for entry in entry_points(group=FAULTS):
        try:
            faults: Mapping[str, Plantable] = entry.load()
        except FAILURES as error:
            raise _failed(text, f"importing {entry.value!r}", error) from error
        known |= faults
    if name not in known:
        close = nearest(name, known)
        hint = f"did you mean '{target}+{close}'? " if close else ""
        raise TargetError(f"{text}: no fault {name!r}\n  help: {hint}all are listed in evseq.faults.catalogue.FAULTS")
    try:
        return known[name].plant(loader, target=text)
    except EvseqError:
        raise
    except FAILURES as error:
        raise _failed(text, f"planting {name!r}", error) from error


def _engines() -> dict[str, EntryPoint]:
    """Return the installed engines by name."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _family(text: str, entry: EntryPoint) -> Family:
    try:
        family: Family = entry.load()
    except ModuleNotFoundError as error:
        raise _extra(text, entry, error) from error
    except FAILURES as error:
        raise _failed(text, f"importing {entry.value!r}", error) from error
    return family


def _imported(text: str, module_name: str, attribute: str, entries: dict[str, EntryPoint]) -> Loader:
    """Return the loader `attribute` of a module is, or gives when called."""
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise TargetError(
                f"{text}: module {module_name!r} needs {error.name!r}, which is not installed\n  help: install it"
            ) from error
        raise _unknown(text, entries) from error
    except FAILURES as error:
        raise TargetError(
            f"{text}: importing {module_name!r} failed: {type(error).__name__}: {error}\n"
            f"  help: make 'python -c \"import {module_name}\"' work first"
        ) from error
    if not hasattr(module, attribute):
        close = nearest(attribute, [name for name in vars(module) if not name.startswith("_")])
        hint = f"did you mean '{module_name}:{close}'?" if close else "name a loader, or what returns one"
        raise TargetError(f"{text}: module {module_name!r} has no attribute {attribute!r}\n  help: {hint}")
    return _loader(text, getattr(module, attribute))


def _loader(text: str, found: Any) -> Loader:
    if callable(found) and (isinstance(found, type) or _lacks(found)):
        try:
            found = found()
        except EvseqError:
            raise
        except FAILURES as error:
            raise TargetError(
                f"{text}: calling it failed: {type(error).__name__}: {error}\n"
                "  help: it must be a loader, or return one when called without arguments"
            ) from error
    lacks = _lacks(found)
    if lacks:
        raise TargetError(
            f"{text}: {type(found).__name__} is no loader, it has no {' and no '.join(lacks)}\n"
            "  help: write the methods of evseq.engines.protocol.Loader"
        )
    loader: Loader = found
    return loader


def _lacks(found: Any) -> list[str]:
    return [method for method in METHODS if not callable(getattr(found, method, None))]


def _one_wanted(text: str) -> TargetError:
    named = targets(text)
    return TargetError(
        f"{text}: stands for {len(named)} targets, one is wanted\n  help: choose one of {', '.join(named)}"
    )


def _unknown(text: str, entries: dict[str, EntryPoint]) -> TargetError:
    name, colon, rest = text.partition(":")
    close = nearest(name, entries) if "." not in name else None  # a dotted name is no misspelt engine
    hint = f"did you mean '{close}{colon}{rest}'? " if close else ""
    what = f"no engine or module {name!r}" if colon else f"no engine {name!r}"
    return TargetError(
        f"{text}: {what}\n"
        f"  help: {hint}engines are {', '.join(sorted(entries)) or 'not installed'}; "
        "your own is MODULE:ATTRIBUTE with the module's folder on PYTHONPATH"
    )


def _failed(text: str, doing: str, error: BaseException) -> TargetError:
    return TargetError(
        f"{text}: {doing} failed: {type(error).__name__}: {error}\n"
        "  help: update the package that provides this engine, or tell its authors"
    )


def _extra(text: str, entry: EntryPoint, error: ModuleNotFoundError) -> TargetError:
    """Say which package is missing. An engine of evseq's own has an extra of its name."""
    own = entry.value.split(":")[0].split(".")[0] == "evseq"
    command = f"pip install 'evseq[{entry.name}]'" if own else f"install the package that provides {error.name!r}"
    return TargetError(f"{text}: module {error.name!r} is not installed\n  help: {command}")
