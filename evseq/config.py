"""Config: the settings that hold, and who says each.

A value is the default, unless `[tool.evseq]` of the nearest `pyproject.toml` says another, unless `EVSEQ_NAME` of the
environment does, unless a flag does. The last one that speaks is taken whole; nothing is merged.

```toml
[tool.evseq]
target = ["reference:window", "small"]
arm = {dtype = ["float64", "float32"]}

[tool.evseq.targets.small]
target = "transformers:models/small"
revision = "2025-06"
golden = "required"
```
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evseq.engines import registry
from evseq.errors import TargetError, UsageError, nearest
from evseq.golden.root import Root, label_of
from evseq.golden.store import Store, platform_cache
from evseq.golden.terms import FormWord, TargetTerms, Terms
from evseq.project import TARGETS, NamedTarget, Project, nearest_project
from evseq.settings import ON_PURPOSE, PREFIX, SETTINGS, TRACEBACK, Setting

__all__ = ["Config", "Origin", "configure"]

DEFAULT = "default"
"""The word for an origin that is nobody."""

SWITCHED = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
"""How the environment writes a switch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who says a value: a word such as `default`, or a key of a project, its line looked up when shown."""

    word: str = ""
    project: Project | None = None
    key: tuple[str, ...] = ()

    @property
    def rank(self) -> int:
        """How near it is to the call: of two that speak, the nearer one is taken."""
        if self.project is not None:
            return 1
        return 0 if self.word == DEFAULT else 2 if self.word.startswith(PREFIX) else 3

    def __str__(self) -> str:
        return self.word if self.project is None else self.project.place(*self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting's value, and its origin by name. `targets` are the named ones of the project.

    `goldens` that are a text are a URL.
    `folder` is the project's, or where there is none the one that was asked about.
    """

    target: tuple[str, ...]
    arms: str
    arm: Mapping[str, tuple[str, ...]]
    threads: int
    workers: int
    scheduler: str | None
    jsonl: Path | None
    record: Path | None
    known: Path | None
    goldens: Path | str | None
    revision: str | None
    require_goldens: bool
    golden_form: FormWord
    golden_timeout: float
    cache: Path | None
    targets: Mapping[str, NamedTarget]
    folder: Path
    origins: Mapping[str, Origin]

    @property
    def standing(self) -> bool:
        """Whether the targets are those of every run here, and none that somebody asks for in this one."""
        origin = self.origins["target"]
        return origin.project is not None or origin.word == DEFAULT

    @property
    def cluster(self) -> str | None:
        """The scheduler whose workers share the scripts; none where somebody nearer says how many processes here do."""
        nearer = self.origins["workers"].rank > self.origins["scheduler"].rank
        return None if nearer else self.scheduler

    def open_names(self) -> tuple[str, ...]:
        """Return the chosen targets, each name of the project replaced by what it stands for."""
        return tuple(self.opened(name) for name in self.target)

    def opened(self, name: str) -> str:
        """Return what `name` stands for: a target of the project, or itself."""
        return self.targets[name].target if name in self.targets else name

    def terms(self, *, update: bool = False, witness: bool = False) -> Terms:
        """Return how a run treats goldens. Raises TargetError where an engine named alone is none."""
        return Terms(
            root=self.goldens if isinstance(self.goldens, Path) else self.folder / "goldens",
            store=self._store(),
            project=self.folder,
            revision=self.revision,
            require=self.require_goldens,
            update=update,
            witness=witness,
            form=self.golden_form,
            targets=self._target_terms(),
        )

    def root(self) -> Root:
        """Return the project's goldens, their folder as a person here writes it."""
        folder = self.goldens if isinstance(self.goldens, Path) else self.folder / "goldens"
        here = Path.cwd()
        return Root(folder=folder.relative_to(here) if folder.is_relative_to(here) else folder, store=self._store())

    def cache_folder(self) -> Path:
        """Return the folder of what can be fetched again."""
        return self.cache or platform_cache(os.environ)

    def _store(self) -> Store | None:
        if not isinstance(self.goldens, str):
            return None
        return Store(url=self.goldens, cache=self.cache_folder(), timeout=self.golden_timeout)

    def _target_terms(self) -> Mapping[str, TargetTerms]:
        """Return the terms by target text; where an engine alone is named, those of each configuration of it."""
        terms: dict[str, TargetTerms] = {}
        for name, named in sorted(self.targets.items(), key=lambda item: ":" not in item[1].target):  # single ones win
            for text in (named.target,) if ":" in named.target else self._configurations(name):
                model = name if text == named.target else label_of(f"{name}-{text.partition(':')[2]}")
                terms.setdefault(text, TargetTerms(model=model, revision=named.revision, need=named.golden))
        return terms

    def _configurations(self, name: str) -> tuple[str, ...]:
        try:
            return registry.targets(self.targets[name].target)
        except TargetError as error:
            raise TargetError(f"{self.origins[f'{TARGETS}.{name}']}: {TARGETS}.{name}: {error}") from None


def configure(
    flags: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Config:
    """Return the settings that hold in `folder` (here, if not given); flags that are None or empty say nothing.

    Raises UsageError for a value that does not fit, for a key of `[tool.evseq]` or a variable `EVSEQ_...` nobody
    knows, and for a file that is no TOML.
    """
    folder = folder or Path.cwd()
    project = nearest_project(folder)
    _refuse_unknown(environment)
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for name, setting in SETTINGS.items():
        value, origins[name] = setting.default, Origin(word=DEFAULT)
        if project and name in project.table:
            origins[name] = Origin(project=project, key=(name,))
            value = _rooted(project, _read(setting, project.table[name], origins[name]))
        if text := environment.get(setting.variable):
            origins[name] = Origin(word=setting.variable)
            value = _read(setting, _written(setting, text), origins[name])
        if (flag := (flags or {}).get(setting.attribute)) not in (None, ()):
            origins[name] = Origin(word=f"--{name}")
            value = _read(setting, flag, origins[name])
        values[setting.attribute] = value
    targets = project.targets() if project else {}
    for name in targets:
        assert project is not None
        origins[f"{TARGETS}.{name}"] = Origin(project=project, key=(TARGETS, name))
        for key in ("revision", "golden"):
            said = Origin(project=project, key=(TARGETS, name, key))
            origins[f"{TARGETS}.{name}.{key}"] = said if key in project.table[TARGETS][name] else Origin(word=DEFAULT)
    return Config(**values, targets=targets, folder=project.file.parent if project else folder, origins=origins)


def _refuse_unknown(environment: Mapping[str, str]) -> None:
    known = [*(setting.variable for setting in SETTINGS.values()), TRACEBACK]
    flags = {f"{PREFIX}{flag.replace('-', '_').upper()}": flag for flag in ON_PURPOSE}
    for name in sorted(environment):
        if name in flags:
            raise UsageError(f"{name}: no variable stands for this flag\n  help: say --{flags[name]} each time")
        if name.startswith(PREFIX) and name not in known:
            close = nearest(name.removeprefix(PREFIX), [other.removeprefix(PREFIX) for other in known])
            hint = f"did you mean {PREFIX}{close}?" if close else f"known are {', '.join(known)}"
            raise UsageError(f"{name}: no setting has this variable\n  help: {hint}")


def _read(setting: Setting, raw: Any, origin: Origin) -> Any:
    try:
        return setting.read(raw)
    except ValueError as error:
        place = f"{origin}: {setting.name}" if origin.project else str(origin)
        raise UsageError(f"{place}: {error}") from None


def _written(setting: Setting, text: str) -> Any:
    """Return what a variable's text says, as a file would say it."""
    if setting.switch:
        return SWITCHED.get(text.lower(), text)
    if not setting.many:
        return text
    try:
        return tuple(shlex.split(text))
    except ValueError:
        raise UsageError(f"{setting.variable}: {text!r} leaves a quote open\n  help: close it") from None


def _rooted(project: Project, value: Any) -> Any:
    """Return a path relative to the file that says it, anything else as it is."""
    return project.file.parent / value if isinstance(value, Path) else value
