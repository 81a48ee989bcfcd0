"""Group: all cases of one script on one target, observed against one set of references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from evseq.replay.oracle import Oracle
from evseq.replay.player import play
from evseq.replay.recording import Recording
from evseq.replay.references import References
from evseq.replay.target import Options, Target
from evseq.script.lower import Lowered
from evseq.script.steps import Feed, Load, Plan

__all__ = ["Group", "Work", "observe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What it took: leaves of the tree, forwards of the oracle, forwards that check the reference."""

    leaves: int = 0
    oracle: int = 0
    reference: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Recordings in the order of the cases, a reason where one was not supported.

    `references` are None where nothing ran, because no case is supported or because the uncached side raised `broken`.
    """

    recordings: tuple[Recording | str, ...]
    references: References | None
    work: Work
    broken: str | None = None


def observe(lowered: Lowered, *, target: Target, folder: Path) -> Group:
    """Ask the oracle about every history planned, play every plan, then ask it once more whether it still says so.

    Sealed files go to folders inside `folder`.
    """
    plans = [plan for plan in lowered.plans if isinstance(plan, Plan)]
    if not plans:
        return Group(recordings=tuple(str(reason) for reason in lowered.plans), references=None, work=Work())
    chosen = target.reference_forwards
    description = target.description
    oracle = Oracle(
        tree=lowered.tree,
        engine=target.engine,
        deciding=description.deciding,
        layers=len(description.geometry.layers),
    )
    with torch.no_grad():
        try:
            references = oracle.references(
                dict.fromkeys(plan.dtype for plan in plans),
                {node for plan in plans for node in _nodes(plan)},
            )
        except Exception as error:  # noqa: BLE001 - whatever an engine raises is an observation
            return Group(
                recordings=tuple(plan if isinstance(plan, str) else "" for plan in lowered.plans),
                references=None,
                work=Work(oracle=oracle.forwards, reference=oracle.reference_forwards),
                broken=f"{type(error).__name__}: {error}",
            )
        recordings = [
            _play(plan, target=target, folder=folder / str(number)) if isinstance(plan, Plan) else plan
            for number, plan in enumerate(lowered.plans)
        ]
        changed = oracle.changed()
    repeats = {
        (plan.dtype, plan.cache): target.repeats(plan.dtype, plan.cache, _options(plan, target)) for plan in plans
    }
    return Group(
        recordings=tuple(recordings),
        references=replace(references, repeats=repeats, changed=changed),
        work=Work(
            leaves=len(oracle.leaves),
            oracle=oracle.forwards,
            reference=oracle.reference_forwards + target.reference_forwards - chosen,
        ),
    )


def _play(plan: Plan, *, target: Target, folder: Path) -> Recording:
    folder.mkdir()
    dtype, options = plan.dtype, _options(plan, target)
    return play(
        plan,
        engine=target.engine(dtype, options),
        description=target.description,
        folder=folder,
        fresh=lambda: target.remote(dtype, options),
    )


def _options(plan: Plan, target: Target) -> Options:
    prefix = f"{target.name}."
    return {name.removeprefix(prefix): str(value) for name, value in plan.arms.items() if name.startswith(prefix)}


def _nodes(plan: Plan) -> Iterator[int]:
    for step in plan.steps:
        match step:
            case Feed():
                yield from _real(step)
            case Load(damage=damage) if damage is not None:
                yield from damage.stale
                for feed in damage.right:
                    yield from _real(feed)
            case _:
                pass


def _real(feed: Feed) -> Sequence[int]:
    return [node for row in feed.nodes for node in row if node >= 0]
