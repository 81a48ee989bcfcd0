"""Every rule of the conformance suite is silent on the reference engine and red on a fault planted for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from evseq.cache.state import CacheState, Scalar
from evseq.engines import conformance, protocol
from evseq.engines.conformance import Nonconformance, Rule
from evseq.engines.protocol import Batch, CacheView, LayerView, Probe
from evseq.engines.reference.config import NAMES
from evseq.engines.reference.engine import ReferenceEngine
from evseq.engines.reference.loader import ReferenceLoader
from evseq.engines.reference.session import ReferenceSession
from evseq.errors import EngineError
from evseq.geometry import Capability, Description, Dtype, Layout
from evseq.history import Path

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


@dataclass(frozen=True)
class Loader:
    """The reference with a faulty session or engine."""

    name: str = "full"
    session: type[ReferenceSession] = ReferenceSession
    engine: type[Engine] | None = None

    def describe(self) -> Description:
        return ReferenceLoader(name=self.name).describe()

    def tokenize(self, text: str) -> tuple[int, ...]:
        return ReferenceLoader(name=self.name).tokenize(text)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Engine:
        made = self.engine or Engine
        return made(ReferenceLoader(name=self.name).load(dtype, options), self.session)


class Engine:
    """The reference engine, opening sessions of another class."""

    def __init__(self, healthy: ReferenceEngine, session: type[ReferenceSession]) -> None:
        self.healthy = healthy
        self.session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self.healthy, name)

    def identity(self) -> Mapping[str, Scalar]:
        return self.healthy.identity()

    def tokenize(self, text: str) -> tuple[int, ...]:
        return self.healthy.tokenize(text)

    def uncached(self, path: Path) -> Tensor:
        return self.healthy.uncached(path)

    def open(self, layout: Layout) -> ReferenceSession:
        opened = self.healthy.open(layout)
        return self.session(decoder=opened.decoder, layout=opened.layout, storages=opened.storages)


class Session(ReferenceSession):
    """A session whose feeding can be tampered with in one place."""

    def prefill(self, batch: Batch) -> Tensor:
        return super().prefill(self.tampered(batch))

    def append(self, batch: Batch) -> Tensor:
        return super().append(self.tampered(batch))

    def tampered(self, batch: Batch) -> Batch:
        return batch


DESCRIBED = itertools.count()


class ChangingDescription(Loader):
    def describe(self) -> Description:
        described = super().describe()
        return replace(described, dtypes=described.dtypes + described.dtypes[: next(DESCRIBED)])


class PutsBackAlmost(Engine):
    @contextmanager
    def altered(self, field: str, operand: Mapping[str, Any]) -> Iterator[str | None]:
        with self.healthy.altered(field, operand) as key:
            yield key
        self.healthy.decoder.head.weight[0, 0] += 1e-3


class ChangesNothing(Engine):
    def altered(self, field: str, operand: Mapping[str, Any]) -> AbstractContextManager[str | None]:
        return nullcontext()


class IdentityLacksTokenizer(Engine):
    def identity(self) -> Mapping[str, Scalar]:
        return {name: value for name, value in super().identity().items() if name != "tokenizer.merges"}


class IdentityWithSecrets(Engine):
    def identity(self) -> Mapping[str, Scalar]:
        return {**super().identity(), "model.path": "here"}


class IdentityOfNothing(Engine):
    def identity(self) -> Mapping[str, Scalar]:
        return {**super().identity(), "weights.live": {}}


class IdentityOfFloat32(Engine):
    def identity(self) -> Mapping[str, Scalar]:
        return {**super().identity(), "numeric.dtype": "float32"}


class IdentityElsewhere(Engine):
    def identity(self) -> Mapping[str, Scalar]:
        return {**super().identity(), "numeric.device": "cuda"}


class IdentityCountsForwards(Engine):
    def identity(self) -> Mapping[str, Scalar]:
        return {**super().identity(), "model.adapters": [self.forwarded]}


class IdentityOfTensors(Engine):
    def identity(self) -> Mapping[str, Scalar]:
        return {**super().identity(), "model.adapters": torch.zeros(1)}  # type: ignore[dict-item]


class TokensBeyondVocabulary(Loader):
    def tokenize(self, text: str) -> tuple[int, ...]:
        return (64,) * len(text)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Engine:
        engine = super().load(dtype, options)
        engine.tokenize = self.tokenize  # type: ignore[method-assign]
        return engine


class OtherTokenizer(Loader):
    def tokenize(self, text: str) -> tuple[int, ...]:
        return super().tokenize(text)[::-1]


class UncachedLooksAhead(Engine):
    def uncached(self, path: Path) -> Tensor:
        logits: Tensor = super().uncached(path)
        return logits + logits.mean(dim=0)


class UncachedOfLastTokenOnly(Engine):
    def uncached(self, path: Path) -> Tensor:
        return super().uncached(path)[-1:]


class UncachedDrifts(Engine):
    def uncached(self, path: Path) -> Tensor:
        return super().uncached(path) + 1e-9 * int(self.forwarded)


class UncachedSeesOnlyItself(Engine):
    def uncached(self, path: Path) -> Tensor:
        alone = [Path(tokens=(token,), positions=(0,)) for token in path.tokens]
        return torch.stack([Engine.uncached(self, one)[0] for one in alone])


class UncachedAttendsToPads(Engine):
    def uncached(self, path: Path) -> Tensor:
        return super().uncached(replace(path, tokens=tuple(max(token, 0) for token in path.tokens)))


class TakesAnyLayout(Engine):
    def open(self, layout: Layout) -> ReferenceSession:
        return super().open(replace(layout, cache="growing"))


class WindowTooWide(Session):
    def append(self, batch: Batch) -> Tensor:
        config = self.decoder.config
        layers = tuple(replace(layer, window=layer.window and layer.window + 1) for layer in config.layers)
        self.decoder.config = replace(config, layers=layers)
        logits = super().append(batch)
        self.decoder.config = config
        return logits


class EveryPrefillStartsAtZero(ReferenceSession):
    def prefill(self, batch: Batch) -> Tensor:
        return super().prefill(replace(batch, positions=batch.mask.cumsum(dim=1) - 1))


class TogetherAtOnePosition(ReferenceSession):
    def append(self, batch: Batch) -> Tensor:
        assert batch.positions is not None
        return super().append(replace(batch, positions=batch.positions[:, :1].expand_as(batch.positions)))


class IgnoresMask(Session):
    def tampered(self, batch: Batch) -> Batch:
        return replace(batch, mask=torch.ones_like(batch.mask))


class HolesTakePositions(Session):
    def tampered(self, batch: Batch) -> Batch:
        width = self.storages[0].positions.shape[1]
        return replace(batch, positions=(torch.arange(batch.mask.shape[1]) + width).expand_as(batch.tokens))


class UnfedRowsTakeToken(ReferenceSession):
    def append(self, batch: Batch) -> Tensor:
        return super().append(replace(batch, mask=torch.ones_like(batch.mask)))


class NumbersFromOne(Session):
    def tampered(self, batch: Batch) -> Batch:
        return batch if batch.positions is not None else replace(batch, positions=batch.mask.cumsum(dim=1))


class IgnoresPositions(Session):
    def tampered(self, batch: Batch) -> Batch:
        return replace(batch, positions=None)


class OneCacheForAll(Engine):
    def open(self, layout: Layout) -> ReferenceSession:
        opened = super().open(layout)
        opened.storages = self.__dict__.setdefault(f"storages {layout}", opened.storages)
        return opened


class OverwritesWhenFull(Session):
    def append(self, batch: Batch) -> Tensor:
        if int(self.storages[0].lengths().max()) == self.layout.capacity:
            self.storages[0].crop(self.storages[0].lengths() - 1)
        return super().append(batch)


class BeamLeavesValues(ReferenceSession):
    def select(self, parents: Sequence[int]) -> None:
        values = [storage.values for storage in self.storages]
        super().select(parents)
        for storage, left in zip(self.storages, values, strict=True):
            storage.values = left[[0] * len(parents)]


class CannotCrop(ReferenceSession):
    def crop(self, lengths: Sequence[int]) -> None:
        raise NotImplementedError("crop")


class OneLayerNotCropped(ReferenceSession):
    def crop(self, lengths: Sequence[int]) -> None:
        kept = self.storages[1].copy()
        super().crop(lengths)
        self.storages[1] = kept


class CropsAllRowsAlike(ReferenceSession):
    def crop(self, lengths: Sequence[int]) -> None:
        super().crop([min(lengths)] * len(lengths))


class JoinSeesPads(ReferenceSession):
    def join(self, other: protocol.Session) -> None:
        rows = self.rows or 0
        super().join(other)
        for storage in self.storages:
            storage.positions[rows:, :6] = 0


class JoinForwards(ReferenceSession):
    def join(self, other: protocol.Session) -> None:
        super().join(other)
        self.decoder.embedding(torch.zeros(3, 2, dtype=torch.long))


class CannotJoin(ReferenceSession):
    join = None  # type: ignore[assignment]


class ForkShares(ReferenceSession):
    def fork(self) -> ReferenceSession:
        return type(self)(decoder=self.decoder, layout=self.layout, storages=self.storages, rows=self.rows)


class ForkLosesToken(ReferenceSession):
    def fork(self) -> ReferenceSession:
        twin = super().fork()
        twin.storages[1].positions[:, -1] = -1
        return twin


class ResetForgetsNothing(ReferenceSession):
    def reset(self) -> None:
        self.rows = self.rows


class ExportShares(ReferenceSession):
    def export(self) -> CacheState:
        state = super().export()
        held = {
            f"layer.{number}.{part}": tensor
            for number, storage in enumerate(self.storages)
            for part, tensor in storage.parts().items()
        }
        return replace(state, tensors=held)


class RestoreDropsLast(ReferenceSession):
    def restore(self, state: CacheState) -> None:
        super().restore(state)
        super().crop([length - 1 for length in self.storages[0].lengths().tolist()])


class RestoreForwards(ReferenceSession):
    def restore(self, state: CacheState) -> None:
        super().restore(state)
        self.decoder.embedding(torch.zeros(2, 9, dtype=torch.int64))


class RoundsOnSave(ReferenceSession):
    def export(self) -> CacheState:
        state = super().export()
        return replace(state, tensors={name: rounded(tensor) for name, tensor in state.tensors.items()})


class RestoreTakesHalf(ReferenceSession):
    def restore(self, state: CacheState) -> None:
        try:
            super().restore(state)
        except EngineError:
            self.storages[1] = self.storages[1].restored(state, "layer.1")
            self.rows = self.layout.rows
            raise


class RestoreTakesAnyKind(ReferenceSession):
    def restore(self, state: CacheState) -> None:
        super().restore(replace(state, kind=self.layout.cache))


class CountsNothing(Engine):
    forwarded = 0


class ViewShowsMasked(ReferenceSession):
    def view(self) -> CacheView:
        layers = super().view().layers
        return CacheView(
            layers=tuple(
                LayerView(keys=layer.keys, values=layer.values, positions=layer.positions.abs()) for layer in layers
            )
        )


class ProbeForgetsOneHead(ReferenceSession):
    def probe(self) -> Probe:
        probe = super().probe()
        return replace(probe, cache_bytes=probe.cache_bytes // 2)


def rounded(tensor: Tensor) -> Tensor:
    return tensor.half().to(tensor.dtype) if tensor.is_floating_point() else tensor


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
