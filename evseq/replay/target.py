"""An opened target: its description, and its engines by dtype and options, each loaded once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch

from evseq.engines.protocol import Batch, Engine, Loader
from evseq.errors import TargetError
from evseq.geometry import Capability, Description, Dtype, Layout, Positions
from evseq.history import Path
from evseq.replay.contents import same_bits
from evseq.replay.fresh import Fresh, RemoteEngine
from evseq.replay.opening import RAISED, UnusableError, described, tokenized, told
from evseq.replay.oracle import Known
from evseq.replay.uncached import uncached

__all__ = ["Options", "Target", "Used"]

Options = Mapping[str, str]
"""The engine's own options by name, without namespace."""


@dataclass(kw_only=True)
class Used:
    """What one script asked of a target that is answered once a run, whatever was asked before and by whom.

    `forwards` counts those that an answer takes, by what they are made for: a run makes them once.
    """

    chosen: dict[tuple[int, ...], int] = field(default_factory=dict)  # greedy ids by what stands before them
    tokenized: dict[str, tuple[int, ...]] = field(default_factory=dict)
    forwards: dict[str, int] = field(default_factory=dict)


@dataclass(kw_only=True)
class Target:
    """What is tested. `fresh` is shared by every target of a run; `used` is what the script being played asked for.

    A target `in_memory` has no text that another process could open it by. `known` is what its oracles need not ask.
    """

    text: str
    loader: Loader
    fresh: Fresh
    in_memory: bool = False
    known: Known | None = None
    used: Used = field(default_factory=Used)
    _chosen: dict[tuple[int, ...], int] = field(default_factory=dict)
    _tokenized: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _engines: dict[tuple[Dtype, tuple[tuple[str, str], ...]], Engine] = field(default_factory=dict)
    _unusable: dict[tuple[Dtype, tuple[tuple[str, str], ...]], str] = field(default_factory=dict)
    _repeats: dict[tuple[Dtype, str, tuple[tuple[str, str], ...]], bool] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The engine's name, which is the namespace of its options."""
        return self.text.partition(":")[0]

    @cached_property
    def description(self) -> Description:
        """Read from configuration; no weights are loaded for it. Raises TargetError where the loader fails."""
        read = described(self.text, self.loader)
        return replace(read, capabilities=read.capabilities - {Capability.FRESH}) if self.in_memory else read

    def begin(self) -> None:
        """Take note that another script plays: nothing is used yet, what is known stays known."""
        self.used = Used()

    @property
    def tokenize(self) -> Callable[[str], tuple[int, ...]] | None:
        """The loader's tokenizer, if it has one; each text is tokenized once."""
        return self._tokenize if Capability.TEXT in self.description.capabilities else None

    def _tokenize(self, text: str) -> tuple[int, ...]:
        if text not in self._tokenized:
            self._tokenized[text] = tokenized(self.text, self.loader, text)
        self.used.tokenized[text] = self._tokenized[text]
        return self._tokenized[text]

    def engine(self, dtype: Dtype, options: Options | None = None) -> Engine:
        """Return the engine in `dtype` under `options`. Raises UnusableError where it cannot be loaded, tried once.

        Raises TargetError where its loader does: weights that are not there.
        """
        # Named or left out, a default is one engine: what the oracle asks is what plays.
        chosen = {name: values[0] for name, values in self.description.options.items()} | dict(options or {})
        key = (dtype, tuple(sorted(chosen.items())))
        if key not in self._engines and key not in self._unusable:
            try:
                self._engines[key] = self.loader.load(dtype, chosen)
            except TargetError:  # what the target lacks is for its owner to mend and no fault of the engine
                raise
            except RAISED as error:
                under = "".join(f" with {name}={value}" for name, value in key[1])
                self._unusable[key] = f"loading {self.text} in {dtype}{under} raised {told(error)}"
        if key in self._unusable:
            raise UnusableError(self._unusable[key])
        return self._engines[key]

    def renew(self) -> None:
        """Let go of the engines: what is asked for next is loaded anew and knows of nothing that ran before."""
        self._engines.clear()

    def remote(self, dtype: Dtype, options: Options) -> RemoteEngine:
        """Return the same engine in a process that never saw a session of this one."""
        return self.fresh.engine(self.text, dtype, options)

    def greedy(self, tokens: tuple[int, ...]) -> int:
        """Choose the id after `tokens` in the deciding dtype, uncached, positions from 0; once per prefix.

        Raises UnusableError where the engine cannot be loaded or its uncached side fails.
        """
        if tokens not in self._chosen:
            engine = self.engine(self.description.deciding.dtype)
            path = Path(tokens=tokens, positions=tuple(range(len(tokens))))
            with torch.no_grad():
                logits = uncached(engine, path, vocab=self.description.geometry.vocab)
            self._chosen[tokens] = int(logits[-1].argmax())
        self.used.chosen[tokens] = self._chosen[tokens]
        self.used.forwards[f"greedy {_short((self.text, tokens))}"] = 1
        return self._chosen[tokens]

    def repeats(self, dtype: Dtype, cache: str, options: Options) -> bool:
        """Measure whether two sessions given the same steps give the same bits; once per engine and cache kind."""
        key = (dtype, cache, tuple(sorted(options.items())))
        if key not in self._repeats:
            engine = self.engine(dtype, options)
            try:
                once, again = (self._short_replay(engine, cache) for _ in range(2))
            except RAISED:  # an engine that cannot do this much shows it in its cases
                self._repeats[key] = False
            else:
                self._repeats[key] = all(same_bits(*pair) for pair in zip(once, again, strict=True))
        self.used.forwards[f"repeats {_short((self.text, key))}"] = 4  # a prefill and a step, twice
        return self._repeats[key]

    def _short_replay(self, engine: Engine, cache: str) -> list[torch.Tensor]:
        given = Capability.POSITIONS in self.description.capabilities
        rule = Positions.GIVEN if given else Positions.ENGINE
        tokens = (torch.arange(4) * 7 % self.description.geometry.vocab)[None]  # row column
        positions = torch.arange(4)[None] if given else None  # row column
        session = engine.open(Layout(rows=1, capacity=4, depth=0, cache=cache, positions=rule))
        with torch.no_grad():
            return [
                feed(
                    Batch(
                        tokens=tokens[:, part],
                        mask=torch.ones_like(tokens[:, part], dtype=torch.bool),
                        positions=None if positions is None else positions[:, part],
                    )
                ).clone()
                for feed, part in ((session.prefill, slice(0, 3)), (session.append, slice(3, 4)))
            ]


def _short(key: object) -> str:
    """Return a short name of what was asked, the same in every process."""
    return hashlib.sha256(repr(key).encode()).hexdigest()[:16]
