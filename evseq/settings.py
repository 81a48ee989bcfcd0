"""The settings a person may choose: one declared table for the command line, the configuration and the plugin."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from evseq.errors import nearest
from evseq.golden.store import TIMEOUT, store_url
from evseq.golden.terms import FormWord

__all__ = ["ON_PURPOSE", "PREFIX", "SETTINGS", "TRACEBACK", "UPDATE", "Setting", "label", "word"]

MOST_THREADS = 1024
"""Beyond any machine's cores; a number above it is a slip."""

MOST_SECONDS = 86400
"""A day; who waits longer has no timeout."""

MOST_WORKERS = 64
"""Each is a process with torch and the models in it."""

SELECTIONS = ("pairwise", "all")
"""Ways to choose combinations of arm values."""

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""A label names a folder on every system."""

ADDRESS = re.compile(r"(?:tcp|tls|ws|wss|ucx)://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
"""A protocol that Dask speaks, a host or its number, a port."""

ON_PURPOSE = ("update-goldens", "update-witness")
"""Flags that no file and no environment may stand for: what they write changes on purpose only."""

UPDATE = "Write candidates of goldens for `evseq golden review`; a run that wrote any fails."
"""What the first of them does."""

PREFIX = "EVSEQ_"
"""How every variable of ours begins."""

TRACEBACK = "EVSEQ_TRACEBACK"
"""The variable that is no setting: it shows where an internal error arose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One thing a person may choose. `read` makes a value of what was written, or raises ValueError saying what fits.

    Where `many`, a flag may be repeated and the environment separates by blanks, quoted as in a shell. A `switch` is a
    flag without a value.
    """

    name: str
    default: Any
    read: Callable[[Any], Any]
    help: str
    metavar: str = ""
    short: str = ""
    many: bool = False
    switch: bool = False

    @property
    def attribute(self) -> str:
        """The name as Python writes it."""
        return self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"{PREFIX}{self.attribute.upper()}"

    def show(self, value: Any) -> str:
        """Write a value as a flag would take it; `-` stands for none."""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, Mapping):
            value = [f"{name}={','.join(values)}" for name, values in value.items()]
        if isinstance(value, (list, tuple)):
            value = " ".join(shlex.quote(part) for part in value)
        return "-" if value in (None, "") else str(value)


def label(raw: Any) -> str:
    """Return a label, or raise ValueError saying what fits. A ledger lies beside revisions, under its own name."""
    if not isinstance(raw, str) or not LABEL.fullmatch(raw) or raw.upper() == "LEDGER.YAML":
        raise ValueError(
            f"{raw!r} is no label\n"
            "  help: use at most 64 letters, digits, '.', '_' and '-', the first a letter or a digit"
        )
    return raw


def _names(raw: Any) -> tuple[str, ...]:
    names = (raw,) if isinstance(raw, str) else raw
    if not names or not isinstance(names, (list, tuple)) or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"{raw!r} names no target\n  help: write a text such as 'reference:window', or a list of them")
    return tuple(names)


def _filters(raw: Any) -> Mapping[str, tuple[str, ...]]:
    """Read `{name: value}`, `{name: [value, ...]}`, or texts `name=value,value`; values of one name add up."""
    help = "write name=value,value with values of that arm, as in dtype=float64,float32"
    kept: dict[str, tuple[str, ...]] = {}
    if isinstance(raw, Mapping):
        for name, values in raw.items():
            each = values if isinstance(values, list) else [values]
            if not each or not all(type(value) is int or (isinstance(value, str) and value) for value in each):
                raise ValueError(f"{name} = {values!r} keeps no value of an arm\n  help: {help}")
            kept[name] = tuple(part for value in each for part in str(value).split(","))
        return kept
    for text in (raw,) if isinstance(raw, str) else raw if isinstance(raw, (list, tuple)) else [raw]:
        name, equals, values = text.partition("=") if isinstance(text, str) else ("", "", "")
        if not name or not equals or not all(values.split(",")):
            raise ValueError(f"{text!r} keeps no value of an arm\n  help: {help}")
        kept[name] = (*kept.get(name, ()), *values.split(","))
    return kept


def word(raw: Any, *, words: Sequence[str], wrong: str) -> str:
    """Return `raw` where it is one of `words`, or raise ValueError with the nearest."""
    if raw in words:
        return str(raw)
    close = nearest(raw, map(str, words)) if isinstance(raw, str) else None
    hint = f"did you mean {close!r}?" if close else f"use {', '.join(words[:-1])} or {words[-1]}"
    raise ValueError(f"{raw!r} {wrong}\n  help: {hint}")


def _form(raw: Any) -> FormWord:
    return FormWord(word(raw, words=tuple(FormWord), wrong="is no form of goldens"))


def _switch(raw: Any) -> bool:
    if raw is not True and raw is not False:
        raise ValueError(f"{raw!r} is neither true nor false\n  help: say one of them")
    return bool(raw)


def _count(raw: Any, *, what: str, most: int, why: str) -> int:
    if isinstance(raw, str) and raw.isdecimal() and raw.isascii():
        raw = int(raw)
    if type(raw) is not int or not 1 <= raw <= most:
        raise ValueError(f"{raw!r} is no number of {what}\n  help: use a whole number from 1 to {most}; {why}")
    return raw


def _path(raw: Any) -> Path:
    if not isinstance(raw, (str, Path)) or not str(raw):
        raise ValueError(f"{raw!r} is no path\n  help: write a text")
    return Path(raw)


def _goldens(raw: Any) -> Path | str:
    """Return a folder, or a text that is a URL."""
    return (store_url(raw) if isinstance(raw, str) else None) or _path(raw)


def _address(raw: Any) -> str:
    if not isinstance(raw, str) or not ADDRESS.fullmatch(raw):
        raise ValueError(f"{raw!r} is no scheduler's address\n  help: write tcp://HOST:PORT, as `dask scheduler` says")
    return raw


def _seconds(raw: Any) -> float:
    try:
        read = float(raw) if isinstance(raw, (int, float, str)) and not isinstance(raw, bool) else 0
    except ValueError:
        read = 0
    if not 0 < read <= MOST_SECONDS:
        raise ValueError(f"{raw!r} is no time to wait\n  help: use seconds, more than 0 and at most {MOST_SECONDS}")
    return read


SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        setting.name: setting
        for setting in (
            Setting(
                name="target",
                default=("reference",),
                read=_names,
                metavar="TARGET",
                many=True,
                help="Replay on this target, such as reference:window, transformers:FOLDER, or a name under "
                "[tool.evseq.targets]. An engine's bare name means all its configurations.",
            ),
            Setting(
                name="arms",
                default="pairwise",
                read=partial(word, words=SELECTIONS, wrong="selects no cases"),
                metavar="pairwise|all",
                help="Which combinations of arm values become cases: enough that every two values meet, "
                "or the product.",
            ),
            Setting(
                name="arm",
                default=MappingProxyType({}),
                read=_filters,
                metavar="NAME=VALUE,...",
                many=True,
                help="Keep only these values of an arm, as in dtype=float64,float32.",
            ),
            Setting(
                name="threads",
                default=1,
                read=partial(_count, what="threads", most=MOST_THREADS, why="1 repeats best"),
                metavar="N",
                help="Threads of torch. One repeats to the last bit; two on busy cores may be far slower.",
            ),
            Setting(
                name="workers",
                default=1,
                read=partial(_count, what="workers", most=MOST_WORKERS, why="a core each is plenty"),
                metavar="N",
                short="n",
                help="Processes that share the scripts, each with the models it needs. Times aside, what is told and "
                "written is the same for any number.",
            ),
            Setting(
                name="scheduler",
                default=None,
                read=_address,
                metavar="ADDRESS",
                help="Have the workers of the Dask cluster with this scheduler share the scripts of run and qualify, "
                "in place of -n, unless that is said nearer. They must see the same folders. What is told and written "
                "is the same.",
            ),
            Setting(
                name="jsonl",
                default=None,
                read=_path,
                metavar="FILE",
                help="Also write the run as JSON lines: one line for the run, each case and each script, a summary.",
            ),
            Setting(
                name="record",
                default=None,
                read=_path,
                metavar="FOLDER",
                help="Keep what was observed, so that `evseq judge` can judge it again without the model.",
            ),
            Setting(
                name="known",
                default=None,
                read=_path,
                metavar="FILE",
                help="Take known failures from this file. Left out, it is `known.yaml` in each script's folder.",
            ),
            Setting(
                name="goldens",
                default=None,
                read=_goldens,
                metavar="FOLDER|URL",
                help="Keep goldens in this folder, or their bytes at a URL that fsspec opens, such as "
                "s3://bucket/evseq. Left out, and for all else, it is `goldens` beside pyproject.toml.",
            ),
            Setting(
                name="revision",
                default=None,
                read=label,
                metavar="LABEL",
                help="Hold the opened model, which must be that revision's, to the goldens of this label.",
            ),
            Setting(
                name="require-goldens",
                default=False,
                read=_switch,
                switch=True,
                help="Fail every case that has no golden, whatever its target says.",
            ),
            Setting(
                name="golden-form",
                default=FormWord.AUTO,
                read=_form,
                metavar="auto|full|compact",
                help="How much of each row of logits a new golden keeps; `auto` goes by the size of the vocabulary.",
            ),
            Setting(
                name="golden-timeout",
                default=float(TIMEOUT),
                read=_seconds,
                metavar="SECONDS",
                help="Give a URL of goldens up once no byte came for so long.",
            ),
            Setting(
                name="cache",
                default=None,
                read=_path,
                metavar="FOLDER",
                help="Keep what a URL of goldens gave here. Left out, it is `evseq` in the user's cache folder.",
            ),
        )
    }
)
"""Every setting by name, in the order in which `evseq config` shows them."""
