"""Engines with a reuse rule of their own, right and wrong, opened as `planted.rules:NAME`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evseq.cache.guard import Admitted, Refused, admit
from evseq.cache.identity import Identity
from evseq.engines.protocol import Rule
from evseq.engines.reference import loader as healthy
from evseq.engines.reference.engine import ReferenceEngine
from evseq.geometry import Description, Dtype

BLOCK = 2
"""Tokens that are reused together."""

FOLLOWING = ("prefix.tokens", "prefix.mask", "position.ids", "cache.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruled:
    """The loader of an engine with a rule."""

    rule: Rule

    def describe(self) -> Description:
        return healthy("full").describe()

    def tokenize(self, text: str) -> tuple[int, ...]:
        return healthy("full").tokenize(text)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> RuledEngine:
        return RuledEngine(engine=healthy("full").load(dtype, options), reuse=self.rule)


@dataclass(slots=True, kw_only=True)
class RuledEngine:
    """The healthy engine in everything but who decides on reuse."""

    engine: ReferenceEngine
    reuse: Rule

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def _common(one: Any, two: Any) -> int:
    pairs = zip(one, two, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one), len(two)))


def _blocks(more: int, *, whole: bool = True) -> Rule:
    """Return a rule that reuses whole blocks of equal first tokens, and so many tokens more."""

    def rule(recorded: Identity, asked: Identity) -> Admitted | Refused:
        verdict = admit(recorded, asked)
        if isinstance(verdict, Admitted):
            return verdict if whole else _part(recorded, asked, more)
        if any(not one.field.startswith(FOLLOWING) for one in verdict.differences):
            return verdict
        return _part(recorded, asked, more)

    return rule


def _part(recorded: Identity, asked: Identity, more: int) -> Admitted:
    held: Any = recorded.values["prefix.tokens"]
    claimed: Any = asked.values["prefix.tokens"]
    pairs = zip(held, claimed, strict=True)
    return Admitted(tokens={row: _common(old, new) // BLOCK * BLOCK + more for (row, old), (_, new) in pairs})


def _blind_to(*fields: str) -> Rule:
    """Return a rule that does not look at some fields."""

    def rule(recorded: Identity, asked: Identity) -> Admitted | Refused:
        seen = [
            Identity(values={name: value for name, value in side.values.items() if not name.startswith(fields)})
            for side in (recorded, asked)
        ]
        verdict = admit(*seen)
        if isinstance(verdict, Admitted):
            return verdict
        kept = tuple(one for one in verdict.differences if not one.field.startswith(fields))
        return Refused(differences=kept) if kept else Admitted()

    return rule


def _target(rule: Rule) -> Callable[[], Ruled]:
    return lambda: Ruled(rule=rule)


blocks = _target(_blocks(0))
short_blocks = _target(_blocks(0, whole=False))
one_too_many = _target(_blocks(2))
blind_to_weights = _target(_blind_to("weights."))
blind_to_salt = _target(_blind_to("salt"))
blind_to_mask = _target(_blind_to("prefix.", "position.", "cache."))
blind_to_tokenizer = _target(_blind_to("tokenizer."))
