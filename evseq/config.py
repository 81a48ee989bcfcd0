"""Config: the settings that hold, and who says each.

A value is the default, unless `[tool.evseq]` of the nearest `pyproject.toml` says another, unless `EVSEQ_NAME` of the
environment does, unless a flag does. The last one that speaks is taken whole; nothing is merged.

```toml
[tool.evseq]
target = ["reference:window", "small"]
arm = {dtype = ["float64", "float32"]}

[tool.evseq.targets.small]
target = "transformers:models/small"
```
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evseq.errors import UsageError, nearest
from evseq.settings import SETTINGS, Setting

__all__ = ["Config", "Origin", "configure"]

SECTION = ("tool", "evseq")
TARGETS = "targets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who says a value: a word such as `default`, or a key of a `pyproject.toml`, its line looked up when shown."""

    word: str = ""
    project: Path | None = None
    key: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.word if self.project is None else f"{self.project}:{_line(self.project, self.key)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting's value, and its origin by name. `targets` are the named ones of the project."""

    target: tuple[str, ...]
    arms: str
    arm: Mapping[str, tuple[str, ...]]
    threads: int
    jsonl: Path | None
    record: Path | None
    targets: Mapping[str, str]
    origins: Mapping[str, Origin]

    def open_names(self) -> tuple[str, ...]:
        """Return the chosen targets, each name of the project replaced by what it stands for."""
        return tuple(self.targets.get(name, name) for name in self.target)


def configure(
    flags: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Config:
    """Return the settings that hold in `folder` (here, if not given); flags that are None or empty say nothing.

    Raises UsageError for a value that does not fit, a key of `[tool.evseq]` nobody knows, a file that is no TOML.
    """
    project = _nearest_project(folder or Path.cwd())
    table = _section(project) if project else {}
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for name, setting in SETTINGS.items():
        values[name], origins[name] = setting.default, Origin(word="default")
        if project and name in table:
            origins[name] = Origin(project=project, key=(*SECTION, name))
            values[name] = _beside(project, _read(setting, table[name], origins[name]))
        if text := environment.get(setting.variable):
            origins[name] = Origin(word=setting.variable)
            values[name] = _read(setting, _split(setting, text), origins[name])
        if (flag := (flags or {}).get(name)) not in (None, ()):
            origins[name] = Origin(word=f"--{name}")
            values[name] = _read(setting, flag, origins[name])
    targets = _named_targets(project, table) if project else {}
    for name in targets:
        origins[f"{TARGETS}.{name}"] = Origin(project=project, key=(*SECTION, TARGETS, name))
    return Config(**values, targets=targets, origins=origins)


def _read(setting: Setting, raw: Any, origin: Origin) -> Any:
    try:
        return setting.read(raw)
    except ValueError as error:
        place = f"{origin}: {setting.name}" if origin.project else str(origin)
        raise UsageError(f"{place}: {error}") from None


def _split(setting: Setting, text: str) -> Any:
    if not setting.many:
        return text
    try:
        return tuple(shlex.split(text))
    except ValueError:
        raise UsageError(f"{setting.variable}: {text!r} leaves a quote open\n  help: close it") from None


def _beside(project: Path, value: Any) -> Any:
    """Return a path relative to the file that says it, anything else as it is."""
    return project.parent / value if isinstance(value, Path) else value


def _nearest_project(folder: Path) -> Path | None:
    folder = folder.absolute()
    return next((file for up in (folder, *folder.parents) if (file := up / "pyproject.toml").is_file()), None)


def _section(project: Path) -> dict[str, Any]:
    try:
        whole = tomllib.loads(project.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{project}: no TOML: {error}") from None
    except OSError as error:
        raise UsageError(f"{project}: cannot be read: {error.strerror}") from None
    tool = whole.get(SECTION[0], {})
    table = tool.get(SECTION[1], {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise UsageError(f"{project}:{_line(project, SECTION)}: tool.evseq: {table!r} is no table")
    _refuse_unknown(project, SECTION, table, (*SETTINGS, TARGETS))
    return table


def _named_targets(project: Path, table: Mapping[str, Any]) -> dict[str, str]:
    named = {}
    declared = table.get(TARGETS, {})
    if not isinstance(declared, dict):
        where = f"{project}:{_line(project, (*SECTION, TARGETS))}"
        raise UsageError(f"{where}: targets: {declared!r} is no table\n  help: write [tool.evseq.targets.NAME]")
    for name, entry in declared.items():
        key = (*SECTION, TARGETS, name)
        if not isinstance(entry, dict) or not isinstance(entry.get("target"), str):
            raise UsageError(
                f"{project}:{_line(project, key)}: {TARGETS}.{name}: {entry!r} names no target\n"
                f'  help: write target = "ENGINE:REST" under [{".".join(key)}]'
            )
        _refuse_unknown(project, key, entry, ("target",))
        named[name] = entry["target"]
    return named


def _refuse_unknown(project: Path, above: tuple[str, ...], table: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in table:
        if key not in known:
            close = nearest(key, known)
            hint = f"did you mean {close!r}?" if close else f"known are {', '.join(known)}"
            where = f"{project}:{_line(project, (*above, key))}: [{'.'.join(above)}]"
            raise UsageError(f"{where}: unknown key {key!r}\n  help: {hint}")


def _line(project: Path, key: tuple[str, ...]) -> int:
    """Return the line on which the statement begins that brings `key`, a path through the tables of the file.

    tomllib keeps no lines, but a file cut between two statements parses: the statement is the one after which the key
    is there.
    """
    lines = project.read_text(encoding="utf-8").splitlines(keepends=True)
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
