"""A stand for the engine: rows fed to a session and to the uncached forward alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest
import torch
from jaxtyping import Float
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from evseq.engines.protocol import Batch
from evseq.engines.transformers import loader
from evseq.engines.transformers.engine import TransformersEngine
from evseq.engines.transformers.session import TransformersSession
from evseq.geometry import Dtype, Layout, PositionRule, Positions
from evseq.history import MASKED, Path


@dataclass(slots=True)
class Replay:
    """A session, the path of each of its rows, and what every fed token gave.

    Columns are written as text, one line per row: `x` is the row's next token, `.` a masked slot.
    """

    session: TransformersSession
    seeds: list[int]
    paths: list[list[tuple[int, int]]]
    seen: list[tuple[list[tuple[int, int]], Float[Tensor, "column vocab"]]] = field(default_factory=list)

    def feed(self, *lines: str) -> Float[Tensor, "row column vocab"]:
        before = len(self.paths[0])
        for row, line in enumerate(lines):
            for mark in line:
                self.paths[row].append(self.slot(row) if mark == "x" else (MASKED, 0))
        fed = torch.tensor([path[before:] for path in self.paths])  # row column 2
        mask = fed[..., 0] != MASKED
        given = fed[..., 1] if self.session.layout.positions is Positions.GIVEN else None
        batch = Batch(tokens=fed[..., 0].where(mask, 0), mask=mask, positions=given)
        logits = self.session.append(batch) if before else self.session.prefill(batch)
        self.seen += [(list(path), rows) for path, rows in zip(self.paths, logits, strict=True)]
        return logits

    @property
    def worst(self) -> float:
        """The largest deviation of any fed token; one forward serves every path that begins another."""
        worst = 0.0
        full: tuple[list[tuple[int, int]], Tensor] = ([], torch.empty(0))
        for path, logits in sorted(self.seen, key=lambda one: one[0], reverse=True):
            if full[0][: len(path)] != path:
                tokens, positions = zip(*path, strict=True)
                full = (path, self.session.engine.uncached(Path(tokens=tokens, positions=positions)))
            fed = range(len(path) - len(logits), len(path))
            real = [column for column, index in enumerate(fed) if path[index][0] != MASKED]
            deviation = (logits - full[1][fed.start : fed.stop])[real].abs().nan_to_num(nan=torch.inf)
            worst = max([worst, *deviation.flatten().tolist()])
        return worst

    def slot(self, row: int) -> tuple[int, int]:
        path = self.paths[row]
        count = sum(token != MASKED for token, _ in path)
        rule = self.session.engine.description.geometry.position_rule
        by_slot = self.session.layout.positions is Positions.ENGINE and rule is PositionRule.SLOT
        return 3 + (61 * self.seeds[row] + 37 * count + 5 * count * count) % 250, len(path) if by_slot else count

    def select(self, *parents: int) -> None:
        self.session.select(parents)
        self.seeds = [self.seeds[parent] for parent in parents]
        self.paths = [list(self.paths[parent]) for parent in parents]

    def crop(self, *lengths: int) -> None:
        self.session.crop(lengths)
        for path, length in zip(self.paths, lengths, strict=True):
            real = [index for index, (token, _) in enumerate(path) if token != MASKED]
            for index in real[length:]:
                path[index] = (MASKED, 0)
        reach = max(index + 1 for path in self.paths for index, (token, _) in enumerate(path) if token != MASKED)
        for path in self.paths:
            del path[reach:]

    def fork(self) -> Replay:
        return replace(self, session=self.session.fork(), seeds=list(self.seeds), paths=list(map(list, self.paths)))


@pytest.fixture(scope="session")
def engine() -> Callable[..., TransformersEngine]:
    """Load a target, once for all tests."""

    @cache
    def load(target: str, dtype: Dtype = Dtype.FLOAT64, attention: str = "eager") -> TransformersEngine:
        found = loader(target).load(dtype, {"attention": attention})
        assert isinstance(found, TransformersEngine)
        return found

    return load


@pytest.fixture(scope="session")
def replay(engine: Callable[..., TransformersEngine]) -> Callable[..., Any]:
    """Open a session of a target under a layout, with its paths."""

    def opened(target: str, layout: Layout, **loading: Any) -> Replay:
        rows = range(layout.rows)
        return Replay(engine(target, **loading).open(layout), list(rows), [[] for _ in rows])

    return opened


@pytest.fixture(scope="session")
def layout() -> Callable[..., Layout]:
    """Make a layout of three rows."""

    def made(kind: str, **others: Any) -> Layout:
        return Layout(**{"rows": 3, "capacity": 40, "depth": 0, "cache": kind, **others})

    return made


@pytest.fixture(scope="session")
def column() -> Callable[..., Batch]:
    """Make one column of the same token and position for every row."""

    def made(token: int, *, rows: int, position: int) -> Batch:
        return Batch(
            tokens=torch.full((rows, 1), token),
            mask=torch.ones((rows, 1), dtype=torch.bool),
            positions=torch.full((rows, 1), position),
        )

    return made


@pytest.fixture(scope="session")
def tokenizer() -> Callable[..., PreTrainedTokenizerFast]:
    """Make a tokenizer of seven pieces."""

    def made(*merges: tuple[str, str]) -> PreTrainedTokenizerFast:
        vocabulary = {"<s>": 0, "a": 1, "b": 2, "c": 3, "ab": 4, "abc": 5, "bc": 6}
        backend = Tokenizer(models.BPE(vocab=vocabulary, merges=list(merges)))
        backend.pre_tokenizer = pre_tokenizers.Whitespace()
        return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>")

    return made
