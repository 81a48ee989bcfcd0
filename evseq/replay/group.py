"""Group: all cases of one script on one target, observed against one set of references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from evseq.cache.damage import NotWritable
from evseq.errors import TargetError
from evseq.geometry import Capability, Dtype, Promise
from evseq.history import Tree
from evseq.replay.opening import RAISED, UnusableError, told
from evseq.replay.oracle import Oracle
from evseq.replay.player import play
from evseq.replay.recording import Failure, Recording
from evseq.replay.references import References
from evseq.replay.solo import solo
from evseq.replay.target import Options, Target
from evseq.script.lower import Lowered
from evseq.script.steps import Draw, Feed, Load, Plan

__all__ = ["Group", "Work", "engine_options", "observe", "planned_nodes", "truths", "unreferenced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What it took: leaves of the tree, forwards of the oracle, forwards that check the reference.

    `once` are more of these, by what for: a run makes them once for all its scripts.
    """

    leaves: int = 0
    oracle: int = 0
    reference: int = 0
    once: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Recordings in the order of the cases, a reason where one was not supported, None where there was no reference.

    `references` are None where nothing ran, because no case is supported or because the uncached side is `broken`.
    `declared` are those of each cache kind that is held to an uncached forward under its own policy. `tree` has the
    histories that all of it is about.
    """

    recordings: tuple[Recording | str | None, ...]
    references: References | None
    work: Work
    broken: str | None = None
    tree: Tree | None = None
    declared: Mapping[str, References] = field(default_factory=dict)

    def held_to(self, plan: Plan) -> References | None:
        """Return what the observations of a plan are held to."""
        return self.declared.get(plan.cache, self.references)


def unreferenced(lowered: Lowered, broken: str, *, work: Work | None = None) -> Group:
    """Return the group of cases that have nothing to be compared with."""
    recordings = tuple(plan if isinstance(plan, str) else None for plan in lowered.plans)
    return Group(recordings=recordings, references=None, work=work or Work(), broken=broken)


def observe(lowered: Lowered, *, target: Target, folder: Path) -> Group:
    """Ask the oracle about every history planned, play every plan, then ask it once more whether it still says so.

    Sealed files go to folders inside `folder`.
    """
    plans = [plan for plan in lowered.plans if isinstance(plan, Plan)]
    if not plans:
        return Group(recordings=tuple(str(reason) for reason in lowered.plans), references=None, work=Work())
    oracles = {None: _oracle(lowered.tree, target)} | {
        name: _oracle(lowered.tree, target, cache=name) for name in _declaring(plans, target)
    }
    with torch.no_grad():
        try:
            references = _asked(oracles[None], plans)
            declared = {
                name: _lost(_asked(oracle, [plan for plan in plans if plan.cache == name]), references, target, name)
                for name, oracle in oracles.items()
                if name is not None
            }
        except UnusableError as error:
            return unreferenced(lowered, str(error), work=_work(oracles, target))
        recordings = [
            _play(plan, target=target, folder=folder / str(number)) if isinstance(plan, Plan) else plan
            for number, plan in enumerate(lowered.plans)
        ]
        changed = {name: oracle.changed() for name, oracle in oracles.items()}
    return Group(
        recordings=tuple(recordings),
        references=replace(references, changed=changed[None]),
        declared={name: replace(found, changed=changed[name]) for name, found in declared.items()},
        tree=lowered.tree,
        work=_work(oracles, target),
    )


def truths(lowered: Lowered, target: Target) -> References | None:
    """Return truth for every history of every plan, in the deciding dtype; None where no plan is supported.

    Raises UnusableError where the engine cannot be loaded or its uncached side fails.
    """
    nodes = {node for plan in lowered.plans if isinstance(plan, Plan) for node in planned_nodes(plan)}
    if not nodes:
        return None
    with torch.no_grad():
        return _oracle(lowered.tree, target).references((), nodes)


def _declaring(plans: Sequence[Plan], target: Target) -> list[str]:
    """Return the cache kinds of `plans` that are held to an uncached forward under their own policy."""
    masked = {kind.name for kind in target.description.caches if kind.promise is Promise.MASKED}
    return list(dict.fromkeys(plan.cache for plan in plans if plan.cache in masked))


def _asked(oracle: Oracle, plans: Sequence[Plan]) -> References:
    dtypes: dict[Dtype, None] = dict.fromkeys(plan.dtype for plan in plans)
    return oracle.references(dtypes, {node for plan in plans for node in planned_nodes(plan)})


def _lost(under: References, plain: References, target: Target, cache: str) -> References:
    """Add how far truth under a policy is from the model's own, where the policy rounds numbers."""
    kind = target.description.cache(cache)
    if kind is None or not kind.quantisation:
        return under
    return replace(under, loss=(under.truth - plain.truth[plain.places(under.nodes)]).abs().amax(-1))


def _oracle(tree: Tree, target: Target, *, cache: str | None = None) -> Oracle:
    description = target.description
    return Oracle(
        tree=tree,
        engine=target.engine,
        deciding=description.deciding,
        layers=len(description.geometry.layers),
        vocab=description.geometry.vocab,
        pads=Capability.PADDING in description.capabilities,
        cache=cache,
        known=target.known,
    )


def _work(oracles: Mapping[str | None, Oracle], target: Target) -> Work:
    return Work(
        leaves=len(oracles[None].leaves),
        oracle=sum(oracle.forwards for oracle in oracles.values()),
        reference=sum(oracle.reference_forwards for oracle in oracles.values()),
        once=dict(target.used.forwards),
    )


def _play(plan: Plan, *, target: Target, folder: Path) -> Recording:
    try:
        folder.mkdir()
    except OSError as error:
        raise NotWritable(folder, f"cannot be written: {error.strerror or error}") from error
    dtype, options = plan.dtype, engine_options(plan, target)
    try:
        engine = target.engine(dtype, options)
        wrong = None if engine.dtype == dtype else f"the engine runs in {engine.dtype}, asked for was {dtype}"
    except UnusableError as error:  # under these options; under its defaults it is what the references come from
        wrong = str(error)
    except TargetError:
        raise
    except RAISED as error:
        wrong = told(error)
    if wrong is not None:
        return Recording(plan=plan, failures=[Failure(step=0, session=plan.steps[0].session, error=wrong)])
    recording = play(
        plan,
        engine=engine,
        description=target.description,
        folder=folder,
        fresh=lambda: target.remote(dtype, options),
    )
    recording.repeats = target.repeats(dtype, plan.cache, options)
    kind = target.description.cache(plan.cache)
    if kind is not None and kind.promise is Promise.LOSSY:
        try:
            observed = {fed.lineage for fed in recording.fed}
            recording.solo = solo(plan, observed, engine=engine, vocab=target.description.geometry.vocab)
        except RAISED as error:
            recording.alone = told(error)
    return recording


def engine_options(plan: Plan, target: Target) -> Options:
    """Return what a plan's arms say of the engine's own options."""
    prefix = f"{target.name}."
    return {name.removeprefix(prefix): str(value) for name, value in plan.arms.items() if name.startswith(prefix)}


def planned_nodes(plan: Plan) -> Iterator[int]:
    """Return the nodes whose histories a plan feeds, or forces a cache of."""
    for step in plan.steps:
        match step:
            case Feed():
                yield from _real(step)
            case Load(damage=damage):
                yield from damage.stale if damage is not None else ()
                for feed in (*step.feeds, *(damage.right if damage is not None else ())):
                    yield from _real(feed)
            case Draw(refused=None):
                yield from _real(step.whole)
            case _:
                pass


def _real(feed: Feed) -> Sequence[int]:
    return [node for row in feed.nodes for node in row if node >= 0]
