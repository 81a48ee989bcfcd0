"""The tokens rows own, once arms, geometry and tokenizer are known; symbolic where they are not."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from evseq.script.document import Script
from evseq.script.number import NumberError, evaluate
from evseq.script.rows import Each, Ids, Random, RowSource, Text, TextFile, lines_of

__all__ = [
    "NOMINAL_LENGTH",
    "NOMINAL_VOCAB",
    "Greedy",
    "RowText",
    "Tokenize",
    "each_line",
    "each_lines",
    "is_ids",
    "row_texts",
]

NOMINAL_LENGTH = 8
"""Length assumed for a row, and value assumed for a number, that only a target can tell."""

NOMINAL_VOCAB = 64
"""Vocabulary assumed without a target: the reference engine's."""

_SYMBOLS = -(1 << 40)
"""The first symbol of a row; far below those that stand for greedy ids."""

Tokenize = Callable[[str], tuple[int, ...]]

Greedy = Callable[[tuple[int, ...]], int]
"""From the tokens of a row to the id the deciding dtype would choose next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowText:
    """A row's own tokens, symbols where they are not known. Where `exact` is False their number is only nominal.

    `text` is given for text rows.
    """

    tokens: tuple[int, ...]
    exact: bool = True
    text: str | None = None

    @property
    def words(self) -> dict[str, int | None]:
        """The number word `length` where the whole text is meant."""
        return {"length": len(self.tokens) if self.exact else None}


def row_texts(
    script: Script,
    arms: Mapping[str, int | str],
    *,
    words: Mapping[str, int | None],
    vocab: int | None,
    tokenize: Tokenize | None,
) -> dict[str, RowText]:
    """Return every row's tokens; `words` are the number words of the case.

    Without `vocab` or `tokenize`, tokens that depend on them are symbols. Raises NumberError for a length that has no
    value here, or is 0.
    """
    return {
        name: _row_text(script, name, source, arms, words=words, vocab=vocab, tokenize=tokenize)
        for name, source in script.rows.items()
    }


def _row_text(
    script: Script,
    name: str,
    source: RowSource,
    arms: Mapping[str, int | str],
    *,
    words: Mapping[str, int | None],
    vocab: int | None,
    tokenize: Tokenize | None,
) -> RowText:
    match source:
        case Ids(ids=ids):
            return RowText(tokens=ids)
        case Random(length=length, seed=seed):
            count = _number(length, ("rows", name, "random", "length"), words=words, arms=arms)
            key = _number(seed, ("rows", name, "random", "seed"), words=words, arms=arms)
            if count == 0:
                message = f"row {name!r}: length is 0 here"
                raise NumberError(message, "draw at least 1 token", ("rows", name, "random", "length"))
            if count is None or key is None or vocab is None:
                return RowText(tokens=_symbols(count or NOMINAL_LENGTH), exact=count is not None)
            return RowText(tokens=_drawn(count, seed=key, vocab=vocab))
        case Text(text=text):
            return _tokenized(text, tokenize)
        case TextFile(file=file):
            return _tokenized(_row_file(script, file).read_text(encoding="utf-8"), tokenize)
        case Each():
            line = each_line(script, source, arms[name])
            return RowText(tokens=tuple(json.loads(line))) if is_ids(line) else _tokenized(line, tokenize)
    assert_never(source)


def _number(
    number: int | str, path: tuple[str, ...], *, words: Mapping[str, int | None], arms: Mapping[str, int | str]
) -> int | None:
    try:
        return evaluate(number, words=words, arms=arms)
    except NumberError as error:
        raise NumberError(f"row {path[1]!r}: {error}", error.help, path) from error


def each_lines(script: Script, file: str) -> list[str]:
    """Return the non-empty lines of an `each` file: one case each."""
    text = _row_file(script, file).read_bytes().decode("utf-8")
    return [line for line in lines_of(text) if line.strip()]


def each_line(script: Script, row: Each, number: int | str) -> str:
    """Return the line of an `each` file that is this case's; they count from 1."""
    return each_lines(script, row.each)[int(number) - 1]


def is_ids(line: str) -> bool:
    """Tell whether a line of an `each` file is a list of ids; otherwise it is a text."""
    return line.lstrip().startswith("[")


def _row_file(script: Script, file: str) -> Path:
    return Path(script.source.file).parent / file


def _tokenized(text: str, tokenize: Tokenize | None) -> RowText:
    if tokenize is None:
        return RowText(tokens=_symbols(NOMINAL_LENGTH), exact=False, text=text)
    return RowText(tokens=tokenize(text), text=text)


def _symbols(count: int) -> tuple[int, ...]:
    """Return tokens nobody knows yet: none is equal to an id, to MASKED or to a chosen one."""
    return tuple(range(_SYMBOLS, _SYMBOLS - count, -1))


@functools.lru_cache(maxsize=256)
def _drawn(count: int, *, seed: int, vocab: int) -> tuple[int, ...]:
    """Draw ids from SHA-256, so that a seed means the same row on every machine and Python version."""
    stream = (hashlib.sha256(f"evseq random row {seed} {index}".encode()).digest() for index in range(count))
    return tuple(int.from_bytes(word[:8], "big") % vocab for word in stream)
