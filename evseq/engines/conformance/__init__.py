"""What every engine must pass, ours or yours.

In the tests of your engine:

    from evseq.engines import conformance

    def test_my_engine_conforms():
        assert conformance.check(MyLoader()) == ()

Each rule drives sessions directly with small random batches, as far as the engine's capabilities go, on each of its
cache kinds. Most compare every logit with the engine's own uncached forward.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from evseq.engines.conformance import changes, engines, feeding, pools, rows, states
from evseq.engines.conformance.bench import Bench
from evseq.engines.conformance.rule import Rule
from evseq.engines.protocol import Loader
from evseq.geometry import Dtype

__all__ = ["RULES", "Nonconformance", "Rule", "check"]

RULES: tuple[Rule, ...] = (
    engines.description,
    engines.identity,
    engines.tokenizer,
    engines.uncached,
    engines.layout,
    feeding.append,
    feeding.chunks,
    feeding.together,
    feeding.padding,
    feeding.holes,
    feeding.ragged,
    feeding.numbering,
    feeding.positions,
    feeding.neighbours,
    feeding.loud,
    rows.beam,
    rows.crop,
    rows.crop_rows,
    rows.join,
    rows.fork,
    rows.reset,
    states.export,
    states.restore,
    states.misfit,
    states.forwarded,
    states.view,
    changes.altered,
    pools.pool,
    pools.pool_keys,
    pools.pool_isolation,
)
"""Every rule, the most basic first: a breach early in the list often explains those behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nonconformance:
    """One rule an engine breaks on one cache kind, with the evidence in `message` and the next step in `help`."""

    rule: str
    cache: str
    message: str
    help: str

    def __str__(self) -> str:
        return f"{self.rule} (cache {self.cache!r}): {self.message}\n  help: {self.help}"


NOTHING_EXACT = Nonconformance(
    rule="kinds",
    cache="",
    message="no cache kind promises to be exact, so most rules have nothing to read",
    help="describe one that is, such as a cache that keeps keys and values as they were computed",
)


def check(loader: Loader, *, dtype: Dtype | None = None, rules: tuple[Rule, ...] = RULES) -> tuple[Nonconformance, ...]:
    """Return every breach of a rule, in the order of `rules`; nothing if the engine conforms.

    `dtype` is the deciding one unless given. In half precision only gross faults show. Rules that need a capability
    which the engine does not declare are left out. Of cache kinds only exact ones are read: a truth of their own, or
    none at all, is no rule's to know.
    """
    description = loader.describe()
    if not description.exact:
        return (NOTHING_EXACT,)
    options = {name: words[0] for name, words in description.options.items()}
    engine = loader.load(dtype or description.deciding.dtype, options)
    broken: list[Nonconformance] = []
    for rule in rules:
        if not rule.needs <= description.capabilities:
            continue
        for kind in description.exact if rule.every_cache else description.caches[:1]:
            # The same dice for a rule whatever ran before it: what it finds does not depend on its place.
            dice = random.Random(f"{rule.name} {kind.name}")  # noqa: S311 - tokens, no secrets
            bench = Bench(loader=loader, description=description, engine=engine, kind=kind, dice=dice)
            broken += [
                Nonconformance(rule=rule.name, cache=kind.name, message=message, help=rule.help)
                for message in _messages(rule, bench)
            ]
    return tuple(broken)


def _messages(rule: Rule, bench: Bench) -> list[str]:
    messages: list[str] = []
    try:
        # In place, so that what was found before an error is kept.
        messages.extend(rule.check(bench))
    except Exception as error:  # noqa: BLE001 - an engine under test may raise anything, and other rules must still run
        messages.append(f"raised {type(error).__name__}: {error}")
    return messages
