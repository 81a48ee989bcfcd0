"""Trial: a session driven together with the slots its rows must hold, every logit compared with the uncached forward.

What conformance is made of. It counts slots, positions and bytes on its own, from the words of the protocol.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from evseq.engines.protocol import Batch, Engine, Loader, Probe, Session
from evseq.geometry import (
    CacheKind,
    Capability,
    Deciding,
    Description,
    Dtype,
    Layout,
    PositionRule,
    Positions,
    WindowCounts,
)
from evseq.history import MASKED, Path

__all__ = ["Bench", "Column", "Trial"]

Column = Sequence[int | None]
"""What one row is fed: token ids, None for a masked slot."""

FACTOR = 64 * 6
"""Epsilons that two right forwards may be apart, per root of layers: 64 for a `pure` engine, times κ = 6."""

LONGEST = 24
"""Windows up to this are crossed; longer ones would make the forwards of a check slow."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One engine on the stand with one of its cache kinds, and the dice."""

    loader: Loader
    description: Description
    engine: Engine
    kind: CacheKind
    dice: random.Random

    @property
    def rows(self) -> int:
        """Rows of a usual batch."""
        return 3 if self.can(Capability.BATCH) else 1

    @cached_property
    def span(self) -> int:
        """A row length that crosses the smallest window, if it is short enough to be crossed."""
        window = self.description.geometry.window
        return window + 2 if window is not None and window <= LONGEST else 7

    @property
    def croppable(self) -> int | None:
        """A row length that the crop rules can start from, staying below 6 columns where a passed window forbids it."""
        window = self.description.geometry.window
        if self.kind.crops_past_window or window is None:
            return self.span
        return 4 if window > 4 else None  # noqa: PLR2004 - one column more is fed before the first cut

    @property
    def positions(self) -> Positions:
        """Who numbers tokens in a usual trial."""
        return Positions.GIVEN if self.can(Capability.POSITIONS) else Positions.ENGINE

    def can(self, capability: Capability) -> bool:
        """Tell whether the engine declares a capability."""
        return capability in self.description.capabilities

    def tokens(self, count: int) -> list[int]:
        """Roll `count` token ids."""
        return [self.dice.randrange(self.description.geometry.vocab) for _ in range(count)]

    def batch(self, length: int) -> list[list[int]]:
        """Roll a row of `length` ids for each row of a usual batch."""
        return [self.tokens(length) for _ in range(self.rows)]

    def layout(self, *, capacity: int | None = None, depth: int = 0, positions: Positions | None = None) -> Layout:
        """Return a layout with room for what any rule feeds."""
        return Layout(
            rows=self.rows,
            capacity=4 * self.span if capacity is None else capacity,
            depth=depth,
            cache=self.kind.name,
            positions=positions or self.positions,
        )

    def open(self, layout: Layout | None = None) -> Trial:
        """Open a session and stand beside it."""
        layout = layout or self.layout()
        return Trial(bench=self, session=self.engine.open(layout), layout=layout)

    def filled(self, layout: Layout | None = None) -> Trial:
        """Open a session and feed rows, padded on the left if the engine can take it."""
        trial = self.open(layout)
        pads = (0, 2, 1) if self.can(Capability.PADDING) else (0, 0, 0)
        trial.feed([[*[None] * pad, *self.tokens(self.span - pad)] for pad in pads[: self.rows]], prefill=True)
        return trial

    @cached_property
    def repeats(self) -> bool:
        """Whether the engine gives the same bits for the same steps; only then is a copy held to the bit."""
        prompt, fed = self.batch(3), self.batch(1)
        logits: list[Tensor] = []
        for _ in range(2):
            trial = self.open()
            trial.feed(prompt, prefill=True)
            trial.feed(fed)
            logits.append(trial.logits)
        return torch.equal(logits[0], logits[1])

    def allowed(self, expected: Float[Tensor, "*column vocab"]) -> float:
        """Return how far two right forwards may be apart."""
        dtype, scale = self.engine.dtype, float(expected.abs().max())
        layers = math.sqrt(len(self.description.geometry.layers))
        if dtype is Dtype.FLOAT64 and self.description.deciding is Deciding.MIXED:
            return FACTOR * Dtype.FLOAT32.epsilon * layers * scale
        if dtype in (Dtype.FLOAT64, Dtype.FLOAT32):
            return FACTOR * dtype.epsilon * layers * scale
        return 6 * dtype.epsilon * layers * scale  # half precision has no digits to spare: this sees gross faults only


@dataclass(slots=True, kw_only=True)
class Trial:
    """A session, the slots its rows must hold, and what was wrong so far.

    `rows` are tokens and positions slot by slot, a masked slot being (MASKED, 0). `logits` are those of the last feed.
    A forked trial shares `complaints` with its parent.
    """

    bench: Bench
    session: Session
    layout: Layout
    rows: list[list[tuple[int, int]]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    logits: Tensor = field(default_factory=lambda: torch.empty(0))

    def feed(self, columns: Sequence[Column], *, prefill: bool = False, jump: int = 0) -> None:
        """Feed one column sequence per row in one forward and compare each token's logits; `jump` moves positions."""
        self.rows = self.rows or [[] for _ in columns]
        before = len(self.rows[0])
        for row, fed in zip(self.rows, columns, strict=True):
            for token in fed:
                row.append((MASKED, 0) if token is None else (token, self._position(row) + jump))
        new = [row[before:] for row in self.rows]
        tokens = torch.tensor([[token for token, _ in row] for row in new])  # row column
        mask = tokens != MASKED  # row column
        given = torch.tensor([[position for _, position in row] for row in new])  # row column
        batch = Batch(
            tokens=tokens.where(mask, 0),
            mask=mask,
            positions=given if self.layout.positions is Positions.GIVEN else None,
        )
        self.logits = (self.session.prefill if prefill else self.session.append)(batch)
        shape = (*tokens.shape, self.bench.description.geometry.vocab)
        if tuple(self.logits.shape) != shape:
            self.complaints.append(f"logits have shape {tuple(self.logits.shape)}, not {shape}")
            return
        for number in range(len(self.rows)):
            self._compare(number, before)

    def step(self, times: int = 1) -> None:
        """Feed every row a random token, `times` times."""
        for _ in range(times):
            self.feed([self.bench.tokens(1) for _ in self.rows])

    def _position(self, row: list[tuple[int, int]]) -> int:
        """Return the position the next token of `row` gets without a jump."""
        if self.layout.positions is Positions.ENGINE and (
            self.bench.description.geometry.position_rule is PositionRule.SLOT
        ):
            return len(row)
        return max((position + 1 for token, position in row if token != MASKED), default=0)

    def _compare(self, number: int, before: int) -> None:
        row = self.rows[number]
        if all(token == MASKED for token, _ in row[before:]):
            return
        expected = self.bench.engine.uncached(path(row))[before:]  # column vocab
        for column, (token, _) in enumerate(row[before:]):
            if token == MASKED:
                continue
            apart = (self.logits[number, column] - expected[column]).abs()  # vocab
            allowed = self.bench.allowed(expected[column])
            if not float(apart.max()) <= allowed:  # a NaN is not within anything
                index = sum(token != MASKED for token, _ in row[: before + column])
                self.complaints.append(
                    f"row {number}, token {index}: logits are {float(apart.max()):.1e} from the uncached forward at "
                    f"vocabulary {int(apart.argmax())}, allowed {allowed:.1e}"
                )
                return

    def select(self, parents: Sequence[int]) -> None:
        """Permute the rows."""
        self.session.select(parents)
        self.rows = [list(self.rows[parent]) for parent in parents]

    def crop(self, lengths: Sequence[int]) -> None:
        """Cut the rows: columns behind the last kept token go, dropped tokens before it become masked slots."""
        self.session.crop(lengths)
        ends = []
        for row, length in zip(self.rows, lengths, strict=True):
            held = [slot for slot, (token, _) in enumerate(row) if token != MASKED]
            for slot in held[length:]:
                row[slot] = (MASKED, 0)
            ends.append(held[length - 1] + 1 if length else 0)
        for row in self.rows:
            del row[max(ends) :]

    def fork(self) -> Trial:
        """Return a trial of a forked session."""
        return replace(self, session=self.session.fork(), rows=[list(row) for row in self.rows])

    def beside(self, session: Session) -> Trial:
        """Return a trial of `session`, which must hold what this one holds."""
        return replace(self, session=session, rows=[list(row) for row in self.rows])

    def probe(self) -> None:
        """Compare the session's probe with what the rows must hold."""
        actual, expected = self.session.probe(), self.expected()
        for name in Probe.__dataclass_fields__:
            if getattr(actual, name) != getattr(expected, name):
                self.complaints.append(f"probe: {name} is {getattr(actual, name)}, not {getattr(expected, name)}")

    def expected(self) -> Probe:
        """Count what a probe must read now."""
        geometry = self.bench.description.geometry
        width = len(self.rows[0])
        held = [[(slot, at) for slot, (token, at) in enumerate(row) if token != MASKED] for row in self.rows]
        next_positions = tuple(self._position(row) for row in self.rows)
        slots = geometry.window_counts is WindowCounts.SLOTS

        def visible(number: int, window: int | None) -> int:
            here = width if slots else next_positions[number]
            places = [slot if slots else at for slot, at in held[number]]
            return sum(window is None or here - place < window for place in places)

        return Probe(
            lengths=tuple(len(row) for row in held),
            next_positions=next_positions,
            visible=tuple(
                tuple(visible(number, layer.window) for number in range(len(self.rows))) for layer in geometry.layers
            ),
            cache_bytes=sum(
                2
                * len(self.rows)
                * self.bench.kind.slots(layer, fed=width, layout=self.layout)
                * layer.kv_heads
                * layer.head_dim
                * self.bench.engine.dtype.itemsize
                for layer in geometry.layers
            ),
        )


def path(row: Sequence[tuple[int, int]]) -> Path:
    """Return the slots of a row as the uncached forward wants them."""
    return Path(tokens=tuple(token for token, _ in row), positions=tuple(position for _, position in row))
