"""Group: all cases of one script on one target, observed against one set of references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from evseq.errors import TargetError
from evseq.geometry import Capability
from evseq.history import Tree
from evseq.replay.opening import RAISED, UnusableError, told
from evseq.replay.oracle import Oracle
from evseq.replay.player import play
from evseq.replay.recording import Failure, Recording
from evseq.replay.references import References
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
    `tree` has the histories that all of it is about.
    """

    recordings: tuple[Recording | str | None, ...]
    references: References | None
    work: Work
    broken: str | None = None
    tree: Tree | None = None


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
    oracle = _oracle(lowered.tree, target)
    with torch.no_grad():
        try:
            references = oracle.references(
                dict.fromkeys(plan.dtype for plan in plans),
                {node for plan in plans for node in planned_nodes(plan)},
            )
        except UnusableError as error:
            return unreferenced(lowered, str(error), work=_work(oracle, target))
        recordings = [
            _play(plan, target=target, folder=folder / str(number)) if isinstance(plan, Plan) else plan
            for number, plan in enumerate(lowered.plans)
        ]
        changed = oracle.changed()
    return Group(
        recordings=tuple(recordings),
        references=replace(references, changed=changed),
        tree=lowered.tree,
        work=_work(oracle, target),
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


def _oracle(tree: Tree, target: Target) -> Oracle:
    description = target.description
    return Oracle(
        tree=tree,
        engine=target.engine,
        deciding=description.deciding,
        layers=len(description.geometry.layers),
        vocab=description.geometry.vocab,
        pads=Capability.PADDING in description.capabilities,
    )


def _work(oracle: Oracle, target: Target) -> Work:
    return Work(
        leaves=len(oracle.leaves),
        oracle=oracle.forwards,
        reference=oracle.reference_forwards,
        once=dict(target.used.forwards),
    )


def _play(plan: Plan, *, target: Target, folder: Path) -> Recording:
    folder.mkdir()
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
