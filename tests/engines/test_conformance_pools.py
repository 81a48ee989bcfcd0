"""The rules for pools are silent on the reference engine and red on pools that are broken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from evseq.engines import conformance
from evseq.engines.reference.engine import ReferenceEngine
from evseq.engines.reference.loader import ReferenceLoader
from evseq.engines.registry import find
from evseq.geometry import Description, Dtype

RULES = tuple(rule for rule in conformance.RULES if rule.name.startswith("pool"))

GROWING = "(cache 'growing')"


@dataclass(frozen=True)
class Poolless:
    """An engine that says that it has a pool, and has none."""

    inner: ReferenceLoader

    def describe(self) -> Description:
        return replace(self.inner.describe(), pool=None)

    def tokenize(self, text: str) -> tuple[int, ...]:
        return self.inner.tokenize(text)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> ReferenceEngine:
        engine = self.inner.load(dtype, options)
        del engine.pool
        return engine


def test_the_reference_conforms() -> None:
    assert conformance.check(ReferenceLoader(name="window"), rules=RULES) == ()


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("pool-forwards-again", f"pool {GROWING}: draw forwarded 9 tokens"),
        ("pool-answers-whole", f"pool {GROWING}: draw: 8 of 8 columns, the last token of each row has to be fed"),
        ("pool-finds-nothing", f"pool {GROWING}: draw: 0 columns, 8 were kept in whole blocks"),
        ("pool-forgets-salt", f"pool-keys {GROWING}: draw: something came of what was kept under another salt"),
        (
            "pool-closes-block-early",
            f"pool-keys {GROWING}: draw: 8 columns, though the token at index 3 is another",
        ),
        (
            "pool-forgets-positions",
            f"pool-keys {GROWING}: draw: 8 columns, though the position at index 0 is another",
        ),
        ("pool-clears-nothing", f"pool-keys {GROWING}: draw: something is left after clear"),
    ],
)
def test_a_broken_pool_breaches_a_rule(fault: str, told: str) -> None:
    breaches = conformance.check(find(f"reference:full+{fault}"), rules=RULES)

    assert str(breaches[0]).partition("\n")[0] == told


def test_every_rule_for_pools_has_a_planted_fault() -> None:
    assert [rule.name for rule in RULES] == ["pool", "pool-keys", "pool-isolation"]


def test_sessions_of_one_pool_are_apart() -> None:
    (rule,) = (rule for rule in RULES if rule.name == "pool-isolation")

    breaches = conformance.check(find("reference:full+pool-shares-buffers"), rules=(rule,))

    assert {breach.rule for breach in breaches} == {"pool-isolation"}
    assert {breach.cache for breach in breaches} == {"fixed", "ring"}


def test_an_engine_that_declares_a_pool_has_one() -> None:
    told = [breach.message for breach in conformance.check(Poolless(ReferenceLoader(name="full")), rules=RULES[:1])]

    assert told[:2] == [
        "the description has the capability `pool` and does not say how large a block is",
        "ReferenceEngine lacks `pool`, or that a member of evseq.engines.protocol.Pool",
    ]
