"""Every rule of the conformance suite is silent on the reference engine and red on a fault planted for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from evseq.engines import conformance
from evseq.engines.conformance import Nonconformance, Rule
from evseq.engines.reference.config import NAMES
from evseq.engines.reference.loader import ReferenceLoader
from evseq.geometry import Capability, Description, Dtype
from planted.nonconforming import (
    ChangesNothing,
    ChangingDescription,
    CountsNothing,
    IdentityCountsForwards,
    IdentityElsewhere,
    IdentityLacksTokenizer,
    IdentityOfFloat32,
    IdentityOfNothing,
    IdentityOfTensors,
    IdentityWithSecrets,
    Loader,
    OneCacheForAll,
    OtherTokenizer,
    PutsBackAlmost,
    TakesAnyLayout,
    TokensBeyondVocabulary,
    UncachedAttendsToPads,
    UncachedDrifts,
    UncachedLooksAhead,
    UncachedOfLastTokenOnly,
    UncachedSeesOnlyItself,
)
from planted.nonconforming_sessions import (
    BeamLeavesValues,
    CannotCrop,
    CannotJoin,
    CropsAllRowsAlike,
    EveryPrefillStartsAtZero,
    ExportShares,
    ForkLosesToken,
    ForkShares,
    HolesTakePositions,
    IgnoresMask,
    IgnoresPositions,
    JoinForwards,
    JoinSeesPads,
    NumbersFromOne,
    OneLayerNotCropped,
    OverwritesWhenFull,
    ProbeForgetsOneHead,
    ResetForgetsNothing,
    RestoreDropsLast,
    RestoreForwards,
    RestoreTakesAnyKind,
    RestoreTakesHalf,
    RoundsOnSave,
    TogetherAtOnePosition,
    UnfedRowsTakeToken,
    ViewShowsMasked,
    WindowTooWide,
)

BY_NAME = {rule.name: rule for rule in conformance.RULES}


# Single precision differs in rounding only, which one configuration with every kind of layer shows.
@pytest.mark.parametrize(("name", "dtype"), [*((name, Dtype.FLOAT64) for name in NAMES), ("window", Dtype.FLOAT32)])
def test_the_reference_conforms_on_every_cache_kind(name: str, dtype: Dtype) -> None:
    assert conformance.check(ReferenceLoader(name=name), dtype=dtype) == ()


def test_rules_have_names_of_their_own() -> None:
    assert len(BY_NAME) == len(conformance.RULES)


def test_a_rule_is_left_out_without_its_capability() -> None:
    class Shy(Loader):
        def describe(self) -> Description:
            described = super().describe()
            return replace(described, capabilities=described.capabilities - {Capability.BEAM})

    assert conformance.check(Shy(session=BeamLeavesValues), rules=(BY_NAME["beam"],)) == ()


def test_an_engine_without_an_exact_cache_kind_does_not_conform_unread() -> None:
    class Inexact(Loader):
        def describe(self) -> Description:
            described = super().describe()
            kinds = tuple(kind for kind in described.caches if kind not in described.exact)
            return replace(described, caches=kinds)

    assert [breach.rule for breach in conformance.check(Inexact())] == ["kinds"]


def test_a_breach_names_rule_cache_evidence_and_next_step() -> None:
    breach = breaches("layout", Loader(engine=TakesAnyLayout))[0]
    assert str(breach) == (
        "layout (cache 'growing'): open took a layout with cache 'no-such-kind'\n"
        "  help: Raise EngineError for a cache kind that the description does not list."
    )


def test_an_engine_that_crashes_is_reported_and_not_raised() -> None:
    breach = breaches("crop", Loader(session=CannotCrop))[0]
    assert breach.message == "raised NotImplementedError: crop"


def breaches(rule: str, loader: Loader) -> tuple[Nonconformance, ...]:
    return conformance.check(loader, rules=(BY_NAME[rule],))


FAULTS: tuple[tuple[str, Callable[[], Loader], str], ...] = (
    ("description", ChangingDescription, "two descriptions of one loader differ"),
    ("identity", lambda: Loader(engine=IdentityLacksTokenizer), "identity: tokenizer.merges is missing"),
    ("tokenizer", OtherTokenizer, "the engine reads 'one row, two beams' as "),
    ("uncached", lambda: Loader(engine=UncachedLooksAhead), "later tokens move the logits of earlier ones"),
    ("identity", lambda: Loader(engine=IdentityWithSecrets), "identity: model.path is not a field of the model"),
    ("identity", lambda: Loader(engine=IdentityOfNothing), "identity: weights.live names no tensor"),
    (
        "identity",
        lambda: Loader(engine=IdentityOfFloat32),
        "identity: numeric.dtype is 'float32', the engine runs in float64",
    ),
    (
        "identity",
        lambda: Loader(engine=IdentityElsewhere),
        "identity: numeric.device is 'cuda', described is 'cpu'",
    ),
    (
        "identity",
        lambda: Loader(engine=IdentityCountsForwards),
        "identity: model.adapters changed though nothing but a prefill happened",
    ),
    ("identity", lambda: Loader(engine=IdentityOfTensors), "raised TypeError: model.adapters: Tensor is not one of "),
    ("tokenizer", TokensBeyondVocabulary, "'one row, two beams' became (64, 64, "),
    (
        "uncached",
        lambda: Loader(engine=UncachedOfLastTokenOnly),
        "uncached logits are not finite numbers of shape (7, 64)",
    ),
    ("uncached", lambda: Loader(engine=UncachedDrifts), "two uncached forwards of one path differ"),
    (
        "uncached",
        lambda: Loader(engine=UncachedSeesOnlyItself),
        "another first token does not move the second token's ",
    ),
    ("uncached", lambda: Loader(engine=UncachedAttendsToPads), "a masked slot in front moves the logits"),
    ("layout", lambda: Loader(engine=TakesAnyLayout), "open took a layout with cache 'no-such-kind'"),
    ("append", lambda: Loader(name="window", session=WindowTooWide), "row 0, token 6: logits are "),
    ("append", lambda: Loader(session=ProbeForgetsOneHead), "probe: cache_bytes is 4608, not 9216"),
    ("chunks", lambda: Loader(session=EveryPrefillStartsAtZero), "row 0, token 2: logits are "),
    ("together", lambda: Loader(session=TogetherAtOnePosition), "row 0, token 7: logits are "),
    ("padding", lambda: Loader(session=IgnoresMask), "padded on the left: row 1, token 0: logits are "),
    ("holes", lambda: Loader(session=HolesTakePositions), "row 0, token 1: logits are "),
    ("ragged", lambda: Loader(session=UnfedRowsTakeToken), "probe: lengths is (8, 6, 7), not (7, 6, 7)"),
    ("numbering", lambda: Loader(name="learned", session=NumbersFromOne), "row 0, token 0: logits are "),
    ("positions", lambda: Loader(session=IgnoresPositions), "row 0, token 1: logits are "),
    ("neighbours", lambda: Loader(engine=OneCacheForAll), "probe: lengths is (13, 11, 12), not (10, 8, 9)"),
    ("loud", lambda: Loader(session=OverwritesWhenFull), "beyond the capacity: row 0, token 7: logits are "),
    ("beam", lambda: Loader(session=BeamLeavesValues), "row 0, token 6: logits are "),
    ("crop", lambda: Loader(session=OneLayerNotCropped), "row 0, token 6: logits are "),
    ("crop-rows", lambda: Loader(session=CropsAllRowsAlike), "probe: lengths is (5, 5, 5), not (7, 5, 6)"),
    (
        "join",
        lambda: Loader(session=JoinSeesPads),
        "2 columns beside 8: probe: lengths is (8, 8, 8, 8, 8, 8), not (8, 8, 8, 2, 2, 2)",
    ),
    ("join", lambda: Loader(session=JoinForwards), "2 columns beside 8: join forwarded 6 tokens"),
    ("join", lambda: Loader(session=CannotJoin), "CannotJoin has no `join`, and the capability is declared"),
    ("fork", lambda: Loader(session=ForkShares), "two forks fed alike differ"),
    ("fork", lambda: Loader(session=ForkLosesToken), "row 0, token 7: logits are "),
    ("reset", lambda: Loader(session=ResetForgetsNothing), "row 0, token 0: logits are "),
    ("export", lambda: Loader(session=ExportShares), "export: layer.0.keys was moved by a later step"),
    ("restore", lambda: Loader(session=RestoreForwards), "restore forwarded 18 tokens"),
    ("restore", lambda: Loader(session=RestoreDropsLast), "a restored cache continues "),
    ("restore", lambda: Loader(session=RoundsOnSave), "a restored cache continues "),
    ("misfit", lambda: Loader(session=RestoreTakesHalf), "after a refused restore: "),
    ("misfit", lambda: Loader(session=RestoreTakesAnyKind), "restore took a state of another kind"),
    ("forwarded", lambda: Loader(engine=CountsNothing), "12 tokens went through the embedding, forwarded counts 0"),
    ("altered", lambda: Loader(engine=PutsBackAlmost), "altered: model.architecture was not put back as it had been"),
    ("altered", lambda: Loader(engine=ChangesNothing), "altered: weights.live is what it was"),
    ("view", lambda: Loader(session=ViewShowsMasked), "view: row 1 of layer 0 holds 8 tokens, the probe says 6, "),
)


@pytest.mark.parametrize(("rule", "faulty", "message"), FAULTS)
def test_a_planted_fault_turns_its_rule_red(rule: str, faulty: Callable[[], Loader], message: str) -> None:
    messages = [breach.message for breach in breaches(rule, faulty())]
    assert [line for line in messages if line.startswith(message)], messages


# Those of pools have theirs in test_conformance_pools.py.
@pytest.mark.parametrize(
    "rule", [rule for rule in conformance.RULES if Capability.POOL not in rule.needs], ids=lambda rule: rule.name
)
def test_every_rule_has_a_planted_fault(rule: Rule) -> None:
    assert rule.name in {name for name, _, _ in FAULTS}
