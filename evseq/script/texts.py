"""The tokens rows own, once arms, geometry and tokenizer are known; symbolic where they are not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from evseq.script.document import Script
from evseq.script.number import NumberError, evaluate
from evseq.script.rows import Each, Ids, Random, RowSource, Text, TextFile

__all__ = ["NOMINAL_LENGTH", "NOMINAL_VOCAB", "Greedy", "RowText", "Tokenize", "row_texts"]

NOMINAL_LENGTH = 8
"""Length assumed for a row, and value assumed for a number, that only a target can tell."""

NOMINAL_VOCAB = 64
"""Vocabulary assumed without a target: the reference engine's."""

Tokenize = Callable[[str], tuple[int, ...]]

Greedy = Callable[[tuple[int, ...]], int]
"""From the tokens of a row to the id the deciding dtype would choose next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowText:
    """A row's own tokens. Where `exact` is False their number is only nominal; `text` is given for text rows."""

    tokens: tuple[int, ...]
    exact: bool = True
    text: str | None = None


def row_texts(
    script: Script,
    arms: Mapping[str, int | str],
    *,
    window: int | None,
    vocab: int | None,
    tokenize: Tokenize | None,
) -> dict[str, RowText]:
    """Return every row's tokens. Raises NumberError for a length that has no value here."""
    return {
        name: _row_text(script, name, source, arms, window=window, vocab=vocab, tokenize=tokenize)
        for name, source in script.rows.items()
    }


def _row_text(
    script: Script,
    name: str,
    source: RowSource,
    arms: Mapping[str, int | str],
    *,
    window: int | None,
    vocab: int | None,
    tokenize: Tokenize | None,
) -> RowText:
    match source:
        case Ids(ids=ids):
            return RowText(tokens=ids)
        case Random(length=length, seed=seed):
            words = {"window": window} if window is not None or vocab is None else {}
            path = ("rows", name, "random")
            count = _number(length, words=words, arms=arms, path=(*path, "length"))
            key = _number(seed, words={}, arms=arms, path=(*path, "seed"))
            ids = _draw(count or NOMINAL_LENGTH, seed=key or 0, vocab=vocab or NOMINAL_VOCAB)
            return RowText(tokens=ids, exact=count is not None)
        case Text(text=text):
            return _tokenized(text, tokenize)
        case TextFile(file=file):
            return _tokenized(_beside(script, file).read_text(encoding="utf-8"), tokenize)
        case Each(each=file):
            line = each_lines(script, file)[int(arms[name]) - 1]
            if line.lstrip().startswith("["):
                return RowText(tokens=tuple(json.loads(line)))
            return _tokenized(line, tokenize)
    assert_never(source)


def _number(
    number: int | str, *, words: Mapping[str, int | None], arms: Mapping[str, int | str], path: tuple[str, ...]
) -> int | None:
    try:
        return evaluate(number, words=words, arms=arms)
    except NumberError as error:
        raise NumberError(str(error), error.help, path) from error


def each_lines(script: Script, file: str) -> list[str]:
    """Return the non-empty lines of an `each` file: one case each."""
    return [line for line in _beside(script, file).read_text(encoding="utf-8").splitlines() if line.strip()]


def _beside(script: Script, file: str) -> Path:
    return Path(script.source.file).parent / file


def _tokenized(text: str, tokenize: Tokenize | None) -> RowText:
    if tokenize is None:
        symbols = tuple(byte % NOMINAL_VOCAB for byte in text.encode()[:NOMINAL_LENGTH])
        return RowText(tokens=symbols, exact=False, text=text)
    return RowText(tokens=tokenize(text), text=text)


def _draw(count: int, *, seed: int, vocab: int) -> tuple[int, ...]:
    """Draw ids from SHA-256, so that a seed means the same row on every machine and Python version."""
    stream = (hashlib.sha256(f"evseq random row {seed} {index}".encode()).digest() for index in range(count))
    return tuple(int.from_bytes(word[:8], "big") % vocab for word in stream)
