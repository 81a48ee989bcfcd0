"""Facts: what a recording says besides logits, held to its types and to the plan it says it was made under.

A recording is judged wherever it is carried to, so it is read as anybody's file: nothing in it reaches a check that the
player could not have written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

import torch
from pydantic import BaseModel, ConfigDict, create_model
from torch import Tensor

from evseq.cache.canonical import canonical
from evseq.cache.fields import FIELDS
from evseq.cache.identity import Difference
from evseq.geometry import Deciding, Description, Dtype, Promise
from evseq.replay.group import Group, Work, planned_nodes
from evseq.replay.recording import Asked, Fed, Forced, Probed, Recording
from evseq.replay.references import References
from evseq.script.steps import Draw, Feed, Load, LoadDamaged, Plan, Step

__all__ = ["describing", "fitting", "typed"]

TENSORS = frozenset({"logits", "truth", "afresh"})
"""Fields of what was observed that are tensors of the file and no facts."""

WIDEST = 1 << 63
"""No count of a recording is as large; what is larger is no float either."""


def typed(text: bytes) -> dict[str, Any]:
    """Return the facts that `text`, a JSON object, says. Raises ValueError for another form, a key said twice too."""
    facts = _Facts.model_validate(json.loads(text.decode(), object_pairs_hook=_once, parse_int=_count))
    if facts.golden is not None:
        canonical(facts.golden.identity)
    return facts.model_dump()


def describing(description: Description) -> None:
    """Raise ValueError for what no engine is: a plan takes the first cache kind and value of an option."""
    geometry, pool = description.geometry, description.pool
    _expect(description.caches, "description: no cache kind")
    _expect(all(description.options.values()), "description: an option without a value")
    _expect(description.deciding.dtype in description.dtypes, "description: cannot run in the dtype that decides")
    _expect(geometry.layers and geometry.vocab > 0, "description: no layer, or no token")
    _expect(pool is None or min(pool.block, pool.blocks) > 0, "description: an empty pool")


def fitting(group: Group, description: Description) -> None:
    """Raise ValueError where something observed is at no place of its plan, or a tensor has another shape."""
    assert group.references is not None
    for references in (group.references, *group.declared.values()):
        _fits_tables(references, description.geometry.vocab)
    for number, recording in enumerate(group.recordings):
        if isinstance(recording, Recording):
            declared = group.declared.get(recording.plan.cache)
            try:
                for references in (group.references, *([declared] if declared is not None else [])):
                    _fits_references(recording, references)
                _fits(recording, description)
            except ValueError as error:
                raise ValueError(f"case {number}: {error}") from None


def _fits_tables(references: References, vocab: int) -> None:
    nodes = len(references.nodes)
    rows = {"scale": references.scale} | {f"err.{dtype}": err for dtype, err in references.err.items()}
    rows |= {"loss": references.loss} if references.loss is not None else {}
    _expect(sorted(set(references.nodes)) == list(references.nodes) and nodes, "nodes: not ascending")
    _shaped("truth", references.truth, (nodes, vocab), torch.float64)
    for name, tensor in rows.items():
        _shaped(name, tensor, (nodes,), torch.float64)
    for dtype, finite in references.finite.items():
        _shaped(f"finite.{dtype}", finite, (nodes,), torch.bool)


def _fits_references(recording: Recording, references: References) -> None:
    dtypes = {recording.dtype, references.deciding.dtype}
    _expect(set(references.nodes) >= set(planned_nodes(recording.plan)), "nodes: without histories of the plan")
    _expect(dtypes <= references.finite.keys() & references.err.keys(), "references: without its dtype")


def _fits(recording: Recording, description: Description) -> None:
    plan, vocab = recording.plan, description.geometry.vocab
    for kind in fields(Recording):
        for one in getattr(recording, kind.name) if kind.name in _OBSERVED else ():
            _expect(0 <= one.step < len(plan.steps), f"{kind.name}: step {one.step} of {len(plan.steps)}")
    for fed in recording.fed:
        _expect(_planned(fed, plan), f"fed: not what step {fed.step} feeds")
        _shaped("fed", fed.logits, (len(fed.nodes), vocab), None)
    for probed in recording.probed:
        _expect(_awaited(probed, plan), f"probed: not what step {probed.step} must read")
    for asked in recording.asked:
        _expect(isinstance(plan.steps[asked.step], Load), f"asked: step {asked.step} asks for nothing")
        _expect(
            all(one.row is None or one.field in FIELDS for one in asked.differences), "asked: rows of an unknown field"
        )
    for drawn in recording.drawn:
        draw = plan.steps[drawn.step]
        if not isinstance(draw, Draw) or len(drawn.tokens) != len(draw.bounds):
            raise ValueError(f"drawn: not what step {drawn.step} draws")
    cache = description.cache(plan.cache)
    if cache is not None and cache.promise is Promise.LOSSY and recording.alone is None:
        for fed in recording.fed:
            _expect(fed.lineage in recording.solo, f"solo: nothing of step {fed.step}")
            _shaped("solo", recording.solo[fed.lineage], (len(fed.nodes), vocab), None)
    for forced in recording.forced:
        _fits_forced(forced, plan, vocab)
    for damaged in recording.damaged:
        _expect(isinstance(plan.steps[damaged.step], LoadDamaged), f"damaged: step {damaged.step} damages nothing")


def _fits_forced(forced: Forced, plan: Plan, vocab: int) -> None:
    step = plan.steps[forced.step]
    if not isinstance(step, Load) or step.damage is None:
        raise ValueError(f"forced: step {forced.step} forces nothing")
    for name in sorted(TENSORS):
        tensor = getattr(forced, name)
        if tensor is not None:
            _shaped(f"forced.{name}", tensor, (len(step.damage.right[-1].rows), vocab), None)


def _planned(fed: Fed, plan: Plan) -> bool:
    """Return whether a forward is one of its step, or what is left of one where the rest was reused."""
    step = plan.steps[fed.step]
    feeds = _feeds(step)
    if not len(fed.rows) == len(fed.indices) == len(fed.nodes):
        return False
    observed = set(zip(fed.rows, fed.indices, fed.nodes, strict=True))
    return any(
        (feed.session, feed.event, feed.lineage) == (fed.session, fed.event, fed.lineage)
        and (feed.prefill or not fed.prefill)
        and observed <= _real(feed)
        and (not isinstance(step, Feed) or len(observed) == len(_real(feed)) == len(fed.nodes))
        for feed in feeds
    )


def _feeds(step: Step) -> tuple[Feed, ...]:
    match step:
        case Feed():
            return (step,)
        case Load(feeds=feeds):
            return feeds
        case Draw(whole=whole):
            return (whole,)
        case _:
            return ()


def _real(feed: Feed) -> set[tuple[str, int, int]]:
    return {
        (row, index, node)
        for row, indices, nodes in zip(feed.rows, feed.indices, feed.nodes, strict=True)
        for index, node in zip(indices, nodes, strict=True)
        if node >= 0
    }


def _awaited(probed: Probed, plan: Plan) -> bool:
    step = plan.steps[probed.step]
    states = [getattr(step, "after", None), getattr(step, "state", None)]
    states += [feed.after for feed in _feeds(step)]
    return (
        probed.expected in states
        and len(probed.rows) == len(probed.expected.lengths) > 0
        and 0 <= probed.group < len(plan.layouts)
    )


def _shaped(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype | None) -> None:
    if tuple(tensor.shape) != shape or not (tensor.is_floating_point() if dtype is None else tensor.dtype == dtype):
        raise ValueError(f"{name}: {tensor.dtype} {tuple(tensor.shape)}, expected {dtype or 'floats'} {shape}")


def _expect(holds: object, told: str) -> None:
    if not holds:
        raise ValueError(told)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    said = dict(pairs)
    if len(said) != len(pairs):
        raise ValueError("a key is said twice")
    return said


def _count(digits: str) -> int:
    number = int(digits)
    if not -WIDEST < number < WIDEST:
        raise ValueError("a number beyond 64 bits")
    return number


# -- the types, which are those of what is recorded --------------------------------------------------------------------


def _form(kind: type, **others: Any) -> type[BaseModel]:
    """Return the form of one dataclass as JSON, its tensors left out; `others` are fields of another form there."""
    hints = get_type_hints(kind)
    forms: dict[str, Any] = {
        part.name: (others.get(part.name, hints[part.name]), ... if part.default is MISSING else part.default)
        for part in fields(kind)
        if part.name not in TENSORS
    }
    return create_model(f"{kind.__name__}Facts", __config__=ConfigDict(extra="forbid"), **forms)


_ASKED = _form(Asked, differences=tuple[_form(Difference, recorded=Any, now=Any), ...])  # type: ignore[misc]

_APART = {"fed": list[_form(Fed)], "forced": list[_form(Forced)], "asked": list[_ASKED]}  # type: ignore[misc,valid-type]

_HINTS = {name: hint for name, hint in get_type_hints(Recording).items() if name not in ("plan", "solo")}

_OBSERVED = frozenset(name for name, hint in _HINTS.items() if getattr(hint, "__origin__", None) is list)

_CASE = create_model(
    "CaseFacts",
    __config__=ConfigDict(extra="forbid"),
    **{name: (_APART.get(name, hint), ...) for name, hint in _HINTS.items()},  # type: ignore[call-overload]
)


class _Unsupported(BaseModel):
    model_config = ConfigDict(extra="forbid")

    unsupported: str | None


class _References(BaseModel):
    nodes: list[int]
    deciding: Deciding
    dependent: bool
    causal_gap: float
    layers: int
    changed: dict[Dtype, str]


class _Golden(BaseModel):
    model: str
    revision: str
    identity: dict[str, Any]
    required: bool


class _Facts(BaseModel):
    script: str
    file: str
    target: str
    in_memory: bool
    description: Mapping[str, Any]  # read by its own adapter
    arms: list[dict[str, int | str]]
    tokenized: list[tuple[str, list[int]]]
    chosen: list[tuple[list[int], int]]
    references: _References
    declared: dict[str, _References]
    threads: int
    plans: str
    work: Work
    golden: _Golden | None
    cases: list[_Unsupported | _CASE]
