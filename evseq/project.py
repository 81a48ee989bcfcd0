"""Project: the nearest `pyproject.toml`, what its `[tool.evseq]` says, and on which line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from evseq.engines.registry import GROUP, entry_points
from evseq.errors import UsageError, nearest
from evseq.golden.terms import Need
from evseq.settings import ON_PURPOSE, SETTINGS, label, word

__all__ = ["TARGETS", "NamedTarget", "Project", "nearest_project"]

SECTION = ("tool", "evseq")
TARGETS = "targets"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTarget:
    """What `[tool.evseq.targets.NAME]` says: a target, and the goldens it is held to."""

    target: str
    revision: str | None = None
    golden: Need = Need.OPTIONAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """One `pyproject.toml`; `table` is its `[tool.evseq]`."""

    file: Path
    table: Mapping[str, Any]

    def place(self, *key: str) -> str:
        """Return `file:line` of the statement that brings `key`, a path below `[tool.evseq]`."""
        return f"{self.file}:{_line(self.file, (*SECTION, *key))}"

    def targets(self) -> dict[str, NamedTarget]:
        """Return the named targets. Raises UsageError for what does not fit."""
        declared = self.table.get(TARGETS, {})
        if not isinstance(declared, dict):
            self._refuse((TARGETS,), f"targets: {declared!r} is no table\n  help: write [tool.evseq.targets.NAME]")
        named: dict[str, NamedTarget] = {}
        for name, entry in declared.items():
            found = self._target(name, entry)
            # Goldens are found by the target's text, so a text has one name.
            if twin := next((other for other, known in named.items() if known.target == found.target), None):
                told = f"{TARGETS}.{name}: {found.target!r} is {TARGETS}.{twin} already\n  help: keep one of the names"
                self._refuse((TARGETS, name), told)
            named[name] = found
        return named

    def _target(self, name: str, entry: Any) -> NamedTarget:
        key = (TARGETS, name)
        try:
            label(name)  # the folder its goldens lie in
        except ValueError as error:
            self._refuse(key, f"{TARGETS}: {error}")
        if name in entry_points(group=GROUP).names:
            self._refuse(key, f"{TARGETS}.{name}: an engine has this name\n  help: the target needs another")
        if isinstance(entry, dict):
            _refuse_unknown(self, key, entry, ("target", "revision", "golden"))
        if not isinstance(entry, dict) or not isinstance(entry.get("target"), str):
            section = ".".join((*SECTION, *key))
            help = f'write target = "ENGINE:REST" under [{section}]'
            self._refuse(key, f"{TARGETS}.{name}: {entry!r} names no target\n  help: {help}")
        revision, golden = entry.get("revision"), entry.get("golden", Need.OPTIONAL)
        try:
            revision = revision if revision is None else label(revision)
        except ValueError as error:
            self._refuse((*key, "revision"), f"revision: {error}")
        try:
            golden = Need(word(golden, words=tuple(Need), wrong="does not say whether a golden must be there"))
        except ValueError as error:
            self._refuse((*key, "golden"), f"golden: {error}")
        return NamedTarget(target=entry["target"], revision=revision, golden=golden)

    def _refuse(self, key: tuple[str, ...], told: str) -> NoReturn:
        raise UsageError(f"{self.place(*key)}: {told}")


def nearest_project(folder: Path) -> Project | None:
    """Return the project `folder` belongs to, or None.

    Raises UsageError for a file that is no TOML, and for a key of `[tool.evseq]` nobody knows.
    """
    folder = folder.absolute()
    file = next((file for up in (folder, *folder.parents) if (file := up / "pyproject.toml").is_file()), None)
    if file is None:
        return None
    try:
        whole = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: no TOML: {error}\n  help: mend the file at that place") from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}\n  help: check its permissions") from None
    tool = whole.get(SECTION[0], {})
    table = tool.get(SECTION[1], {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        told = f"{file}:{_line(file, SECTION)}: tool.evseq: {table!r} is no table"
        raise UsageError(f"{told}\n  help: write [tool.evseq] and settings under it")
    project = Project(file=file, table=table)
    _refuse_unknown(project, (), table, (*SETTINGS, TARGETS))
    return project


def _refuse_unknown(project: Project, above: tuple[str, ...], table: Iterable[str], known: tuple[str, ...]) -> None:
    section = f"[{'.'.join((*SECTION, *above))}]"
    for key in table:
        if key in known:
            continue
        if key in ON_PURPOSE and not above:
            raise UsageError(f"{project.place(key)}: {section}: {key!r} is no setting\n  help: say --{key} each time")
        close = nearest(key, known)
        hint = f"did you mean {close!r}?" if close else f"known are {', '.join(known)}"
        raise UsageError(f"{project.place(*above, key)}: {section}: unknown key {key!r}\n  help: {hint}")


def _line(file: Path, key: tuple[str, ...]) -> int:
    """Return the line on which the statement begins that brings `key`, a path through the tables of the file.

    tomllib keeps no lines, but a file cut between two statements parses: the statement is the one after which the key
    is there.
    """
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    begins = 1
    for count in range(len(lines) + 1):
        try:
            found: Any = tomllib.loads("".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue
        for part in key:
            found = found.get(part) if isinstance(found, dict) else None
        if found is not None:
            return begins
        begins = count + 1
    return begins
