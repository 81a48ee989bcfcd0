"""Trial: a session driven together with the slots its rows must hold, every logit compared with the uncached forward.

What conformance is made of. It counts slots, positions and bytes on its own, from the words of the protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from evseq.engines.conformance.bench import Bench
from evseq.engines.protocol import Batch, Joining, Probe, Session
from evseq.geometry import Capability, Layer, Layout, PositionRule, Positions, WindowCounts
from evseq.history import MASKED, Path

__all__ = ["Column", "Trial", "path", "repeats"]

Column = Sequence[int | None]
"""What one row is fed: token ids, None for a masked slot."""


@dataclass(slots=True, kw_only=True)
class Trial:
    """A session, the slots its rows must hold, and what was wrong so far.

    `rows` are tokens and positions slot by slot, a masked slot being (MASKED, 0). `logits` are those of the last feed.
    A token's logits stay `unjudged`, by row and slot, until its row is cut or moved: one uncached forward judges all.
    A forked trial shares `complaints` with its parent, and is judged apart from it.
    """

    bench: Bench
    session: Session
    layout: Layout
    rows: list[list[tuple[int, int]]] = field(default_factory=list)
    logits: Tensor = field(default_factory=lambda: torch.empty(0))
    unjudged: dict[int, dict[int, Tensor]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    @classmethod
    def opened(cls, bench: Bench, layout: Layout | None = None) -> Trial:
        """Open a session and stand beside it."""
        layout = layout or bench.layout()
        return cls(bench=bench, session=bench.engine.open(layout), layout=layout)

    @classmethod
    def filled(cls, bench: Bench, layout: Layout | None = None) -> Trial:
        """Open a session and feed rows, padded on the left if the engine can take it."""
        trial = cls.opened(bench, layout)
        pads = (0, 2, 1) if bench.can(Capability.PADDING) else (0, 0, 0)
        rows = [[*[None] * pad, *bench.tokens(bench.span - pad)] for pad in pads[: bench.rows]]
        trial.feed(rows, prefill=True)
        return trial

    def feed(self, columns: Sequence[Column], *, prefill: bool = False, jump: int = 0) -> None:
        """Feed one column sequence per row in one forward; `jump` moves positions."""
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
        for row, column in mask.nonzero().tolist():
            self.unjudged.setdefault(row, {})[before + column] = self.logits[row, column].clone()

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

    def found(self) -> list[str]:
        """Judge what is unjudged; return everything that was wrong so far."""
        for number, seen in self.unjudged.items():
            row = self.rows[number]
            expected = self.bench.engine.uncached(path(row))  # slot vocab
            wrong = (self._wrong(number, slot, actual, expected[slot]) for slot, actual in sorted(seen.items()))
            self.complaints += list(filter(None, wrong))[:1]  # what follows a wrong token tells nothing new
        self.unjudged.clear()
        return self.complaints

    def _wrong(
        self, number: int, slot: int, actual: Float[Tensor, " vocab"], expected: Float[Tensor, " vocab"]
    ) -> str | None:
        apart, allowed = (actual - expected).abs(), self.bench.allowed(expected)
        if float(apart.max()) <= allowed:  # a NaN is not within anything
            return None
        index = sum(token != MASKED for token, _ in self.rows[number][:slot])
        return (
            f"row {number}, token {index}: logits are {float(apart.max()):.1e} from the uncached forward at vocabulary "
            f"{int(apart.argmax())}, allowed {allowed:.1e}"
        )

    def select(self, parents: Sequence[int]) -> None:
        """Permute the rows."""
        self.found()
        self.session.select(parents)
        self.rows = [list(self.rows[parent]) for parent in parents]

    def join(self, other: Trial) -> None:
        """Take over the rows of another trial; the narrower side gets masked slots in front."""
        self.found()
        self.complaints += other.found()
        assert isinstance(self.session, Joining)
        before = self.bench.engine.forwarded
        self.session.join(other.session)
        if self.bench.engine.forwarded != before:
            self.complaints.append(f"join forwarded {self.bench.engine.forwarded - before} tokens")
        width = max(len(self.rows[0]), len(other.rows[0]))
        self.rows = [[(MASKED, 0)] * (width - len(row)) + row for row in (*self.rows, *other.rows)]

    def crop(self, lengths: Sequence[int]) -> None:
        """Cut the rows: columns behind the last kept token go, dropped tokens before it become masked slots."""
        self.found()
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
        return self.twin(self.session.fork())

    def twin(self, session: Session) -> Trial:
        """Return a trial of `session`, which must hold what this one holds."""
        return replace(self, session=session, rows=[list(row) for row in self.rows], unjudged={})

    def reset(self) -> None:
        """Forget all rows."""
        self.found()
        self.session.reset()
        self.rows = []

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

        def visible(number: int, layer: Layer) -> int:
            here = width if slots else next_positions[number]
            places = [slot if slots else at for slot, at in held[number]]
            return sum(layer.sees(place, here=here, first=places[0]) for place in places)

        return Probe(
            lengths=tuple(len(row) for row in held),
            next_positions=next_positions,
            visible=tuple(
                tuple(visible(number, layer) for number in range(len(self.rows))) for layer in geometry.layers
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


def repeats(bench: Bench) -> bool:
    """Tell whether the engine gives the same bits for the same steps; only then is a copy held to the bit."""
    prompt, fed = bench.batch(3), bench.batch(1)
    logits: list[Tensor] = []
    for _ in range(2):
        trial = Trial.opened(bench)
        trial.feed(prompt, prefill=True)
        trial.feed(fed)
        logits.append(trial.logits)
    return torch.equal(logits[0], logits[1])


def path(row: Sequence[tuple[int, int]]) -> Path:
    """Return the slots of a row as the uncached forward wants them."""
    return Path(tokens=tuple(token for token, _ in row), positions=tuple(position for _, position in row))
