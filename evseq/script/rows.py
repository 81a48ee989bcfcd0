"""Rows: where a row's own tokens come from."""

from __future__ import annotations

import json
import re
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, assert_never

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from evseq.errors import nearest
from evseq.script.complaints import Complaints, did_you_mean, show
from evseq.script.compose import Keys, Value
from evseq.script.kinds import Number, Token
from evseq.script.wording import tell

__all__ = ["SOURCES", "Each", "Ids", "Random", "RowSource", "Text", "TextFile", "lines_of", "parse_row", "row_data"]

MAX_FILE_BYTES = 16 << 20
"""Far beyond any file of prompts; what is longer is named by mistake."""

MAX_TEXT_BYTES = 1 << 20
"""A file that is one row: about as many tokens as the longest random row has."""

_Name = Annotated[str, Field(strict=True, min_length=1)]


_CONFIG = ConfigDict(extra="forbid", defer_build=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """A row given as token ids."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    ids: Annotated[tuple[Token, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Random:
    """A row of `length` ids drawn below the vocabulary from `seed`."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    length: Number
    seed: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A row of text, tokenized once."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    text: _Name


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    """A row read whole from a file beside the script."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    file: _Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Each:
    """One case per line of a file beside the script: a text, or a JSON list of ids."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG
    each: _Name


RowSource = Ids | Random | Text | TextFile | Each

SOURCES: dict[str, type[Random | Text | TextFile | Each]] = {
    "random": Random,
    "text": Text,
    "file": TextFile,
    "each": Each,
}
"""The words that say where a row comes from; a bare list is ids."""

_ADAPTERS: dict[type, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (Ids, *SOURCES.values())}
_EXAMPLE = "{random: {length: 10, seed: 1}}"


def parse_row(name: str, data: Value, complaints: Complaints) -> RowSource | None:
    """Read one row, or complain."""
    path: Keys = ("rows", name)
    label = f"row {name!r}"
    match data:
        case list():
            ids: Ids | None = _valid(Ids, {"ids": data}, path, label, complaints)
            return ids
        case dict() if len(data) == 1 and next(iter(data)) in SOURCES:
            word, body = next(iter(data.items()))
            if word == "random":
                return _drawn(body, (*path, word), label, complaints)
            row: RowSource | None = _valid(SOURCES[word], data, path, label, complaints)
            if isinstance(row, TextFile | Each):
                _look_into(row, (*path, word), label, complaints)
            return row
        case dict() if len(data) == 1:
            word = next(iter(data))
            advice = did_you_mean(word, SOURCES, "known")
            complaints.add((*path, word), f"{label}: unknown source {word!r}", advice, key=True)
        case dict() if data:
            complaints.add(path, f"{label}: {' and '.join(map(show, data))} are several sources", "keep one of them")
        case _:
            advice = f"write a list of ids, {_EXAMPLE}, {{text: ...}}, {{file: NAME}} or {{each: NAME}}"
            complaints.add(path, f"{label} is {show(data)}, not a source of tokens", advice)
    return None


def row_data(row: RowSource) -> Value:
    """Return what an author writes for `row`."""
    match row:
        case Ids(ids=ids):
            return list(ids)
        case Random(length=length, seed=seed):
            return {"random": {"length": length, "seed": seed}}
        case Text(text=text):
            return {"text": text}
        case TextFile(file=file):
            return {"file": file}
        case Each(each=file):
            return {"each": file}
    assert_never(row)


def _valid(kind: type, data: Any, path: Keys, label: str, complaints: Complaints) -> Any:
    try:
        return _ADAPTERS[kind].validate_python(data)
    except ValidationError as error:
        tell(error, kind, data=data, path=path, label=label, example=_EXAMPLE, complaints=complaints)
    return None


def _drawn(body: Value, path: Keys, label: str, complaints: Complaints) -> Random | None:
    row: Random | None = _valid(Random, body, path, label, complaints)
    if row is not None and row.length == 0:
        complaints.add((*path, "length"), f"{label}: length is 0", "draw at least 1 token")
        return None
    return row


def _look_into(row: TextFile | Each, path: Keys, label: str, complaints: Complaints) -> None:
    """Complain of a file that is not there, not beside the script, or not what it should be."""
    name = row.file if isinstance(row, TextFile) else row.each
    folder = Path(complaints.source.file).parent
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or not name.isprintable() or "\\" in name or ":" in name:
        advice = "keep the file in the script's folder and name it from there, with / between folders"
        complaints.add(path, f"{label}: {name!r} is not inside the script's folder", advice)
        return
    try:
        found = (folder / name).resolve(strict=True)
        about = found.stat()
    except OSError:
        complaints.add(path, f"{label}: no file {name!r} beside the script", _files_like(folder, pure))
        return
    if not found.is_relative_to(folder.resolve()):
        complaints.add(path, f"{label}: {name!r} leads out of the script's folder", "copy the file into it")
    elif not stat.S_ISREG(about.st_mode):
        complaints.add(path, f"{label}: {name!r} is not a file", "name a text file")
    elif about.st_size > (most := MAX_TEXT_BYTES if isinstance(row, TextFile) else MAX_FILE_BYTES):
        message = f"{label}: {name!r} has {about.st_size} bytes, at most {most} are read"
        complaints.add(path, message, "name a shorter file")
    else:
        _read(row, found, str(folder / name), path, label, complaints)


def _read(row: TextFile | Each, found: Path, file: str, path: Keys, label: str, complaints: Complaints) -> None:
    name = found.name
    try:
        text = found.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        complaints.add(path, f"{label}: {name!r} is not UTF-8 at byte {error.start}", "save the file as UTF-8")
        return
    if not text.strip():
        complaints.add(path, f"{label}: {name!r} is empty", "put a text in, or one case per line")
    elif isinstance(row, Each):
        lines = tuple(lines_of(text))
        for number, line in enumerate(lines, start=1):
            if line.lstrip().startswith("[") and not _is_ids(line):
                message = f"{label}: {show(line)} begins like a list of ids and is none"
                complaints.add_in_file(file, lines, number, message, "write a JSON list of integers from 0: [1, 2]")


def lines_of(text: str) -> list[str]:
    """Return the lines of a text as an editor counts them: a form feed or U+2028 is part of its line."""
    return re.split(r"\r?\n", text)


def _is_ids(line: str) -> bool:
    try:
        _ADAPTERS[Ids].validate_python({"ids": json.loads(line)})
    except (ValueError, RecursionError):
        return False
    return True


def _files_like(folder: Path, name: PurePosixPath) -> str:
    try:
        there = {entry.stem: entry.name for entry in (folder / name).parent.iterdir() if entry.is_file()}
    except OSError:
        there = {}
    close = nearest(name.stem, sorted(there))
    return (
        f"did you mean '{name.with_name(there[close])}'?"
        if close
        else "name it from the script's folder, and put it there"
    )
