"""Target: the text behind `transformers:`, taken apart."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from evseq.cache.state import Scalar
from evseq.errors import TargetError, nearest

__all__ = ["Target", "parse"]

NEW = "new/"
"""A target that begins so is built from its model type; a folder of that name is written `./new/…`."""

FOLDER_WORDS = ("attention", "revision")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A folder, or the model type of a new model with the settings that differ from the tiny defaults."""

    folder: Path | None = None
    model_type: str | None = None
    settings: dict[str, Scalar]
    attention: str | None = None


def parse(rest: str) -> Target:
    """Take `PATH?attention=…&revision=…` or `new/NAME?key=value&…` apart. Raise `TargetError` for anything else."""
    name, mark, query = rest.partition("?")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if mark else []
    except ValueError as error:
        raise TargetError(f"transformers:{rest}: {error}\n  help: write ?key=value&key=value") from None
    words = dict(pairs)
    if len(words) != len(pairs):
        twice = next(key for key, _ in pairs if [word for word, _ in pairs].count(key) > 1)
        raise TargetError(f"transformers:{rest}: {twice!r} is said twice\n  help: say it once")
    attention = words.pop("attention", None)
    if name.startswith(NEW):
        settings = {key: _value(text) for key, text in words.items()}
        return Target(model_type=name.removeprefix(NEW), settings=settings, attention=attention)
    revision = words.pop("revision", None)
    for key in words:
        hint = f"did you mean {close!r}? " if (close := nearest(key, FOLDER_WORDS)) else ""
        raise TargetError(
            f"transformers:{rest}: {key!r} is no option of a folder\n  help: {hint}known are {', '.join(FOLDER_WORDS)}"
        )
    return Target(folder=_folder(name, revision), settings={}, attention=attention)


def _folder(name: str, revision: str | None) -> Path:
    """Return the folder with the weights: `name`, or a revision in it where it is a hub cache's folder of one model."""
    folder = Path(name).expanduser()
    snapshots = folder / "snapshots"
    if not name or not folder.is_dir():
        raise TargetError(
            f"transformers:{name}: no such folder\n"
            "  help: name a folder with config.json and *.safetensors, or new/NAME; nothing is downloaded"
        )
    if not snapshots.is_dir():
        if revision is not None:
            raise TargetError(
                f"transformers:{name}?revision={revision}: this folder has no snapshots\n"
                "  help: leave revision out, or name the model's folder in a hub cache"
            )
        return folder
    word = revision or "main"
    ref = folder / "refs" / word
    found = snapshots / (ref.read_text(encoding="utf-8").strip() if ref.is_file() else word)
    if not found.is_dir():
        known = ", ".join(sorted(path.name for path in snapshots.iterdir())) or "none"
        raise TargetError(f"transformers:{name}: no revision {word!r}\n  help: revisions here are {known}")
    return found


def _value(text: str) -> Scalar:
    """Return a setting as JSON reads it, or as the word it is."""
    try:
        value: Scalar = json.loads(text)
    except json.JSONDecodeError:
        return text
    return value
