"""Keep: what was observed of one script on one target in a sealed file, to be judged again without the model."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from evseq.cache.damage import FactsDamaged, PlannedOtherwise
from evseq.cache.identity import Identity
from evseq.cache.sealed import SealedKind, open_sealed, seal
from evseq.errors import ScriptError
from evseq.geometry import Description
from evseq.replay.facts import describing, fitting, typed
from evseq.replay.group import Group, Work
from evseq.replay.plain import cases_of, plain, recordings, references_of, said, tables
from evseq.replay.target import Target
from evseq.script.cases import CaseArms
from evseq.script.document import Script, parse
from evseq.script.lower import lower
from evseq.script.source import parse_yaml
from evseq.script.steps import Plan

__all__ = ["Kept", "keep", "kept"]

_DESCRIPTION = TypeAdapter(Description)
FACTS = "facts"
"""The tensor that holds everything but logits, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a file holds: all that judging needs. `golden` finds the goldens it was held to, whatever stands there."""

    script: Script
    target: str
    description: Description
    chosen: tuple[CaseArms, ...]
    group: Group
    in_memory: bool
    threads: int
    golden: Mapping[str, Any] | None


def keep(
    path: Path,
    *,
    script: Script,
    target: Target,
    chosen: Sequence[CaseArms],
    group: Group,
    golden: Mapping[str, Any] | None = None,
    forced: Mapping[tuple[int, ...], int] | None = None,
) -> None:
    """Write one group. Where there was nothing to compare with, an older file of that name is removed.

    `forced` are greedy ids that were not the model's own choice. The plans are not written, only their digest: they
    follow from script, arms, description, tokens and choices.
    """
    references = group.references
    if references is None:
        path.unlink(missing_ok=True)
        return
    tensors = tables(references, "")
    for name, declared in group.declared.items():
        tensors |= tables(declared, f"declared.{name}.")
    cases, logits = cases_of(group)
    tensors |= logits
    facts = {
        "script": script.source.text,
        "file": script.source.file,
        "target": target.text,
        "in_memory": target.in_memory,
        "description": _described(target.description),
        "arms": [dict(case.arms) for case in chosen],
        "tokenized": [[text, list(ids)] for text, ids in target.used.tokenized.items()],
        "chosen": [[list(tokens), token] for tokens, token in {**target.used.chosen, **(forced or {})}.items()],
        "references": said(references),
        "declared": {name: said(declared) for name, declared in group.declared.items()},
        "threads": target.fresh.threads,
        "plans": _digest([case if isinstance(case, str) or case is None else case.plan for case in group.recordings]),
        "work": asdict(group.work),
        "golden": golden,
        "cases": cases,
    }
    # A tensor and not a scalar of the header, whose length is limited: a long script has megabytes of facts.
    tensors[FACTS] = torch.frombuffer(bytearray(json.dumps(facts, default=plain).encode()), dtype=torch.uint8)
    with contextlib.suppress(OSError):  # what is wrong with the folder is told when the file is written
        path.parent.mkdir(parents=True, exist_ok=True)
    seal(path, kind=SealedKind.RECORDING, identity=Identity(values={}), tensors=tensors, scalars={})


def kept(path: Path) -> Kept:
    """Read one group back. Raises CacheError for a damaged file, and where its script is planned otherwise by now."""
    sealed = open_sealed(path, kind=SealedKind.RECORDING)
    try:
        held = typed(sealed.tensors[FACTS].numpy().tobytes())
        return _kept(path, held, sealed.tensors)
    except (KeyError, OSError, RecursionError, TypeError, ValueError, ScriptError) as error:
        raise FactsDamaged(path, f"facts: not what this evseq writes: {type(error).__name__}: {error}") from error


def _kept(path: Path, held: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Kept:
    script = parse(parse_yaml(held["script"], file=held["file"]))
    description = _DESCRIPTION.validate_python(held["description"])
    describing(description)
    chosen = tuple(CaseArms(arms=arms) for arms in held["arms"])
    tokenized = {text: tuple(ids) for text, ids in held["tokenized"]}
    choices = {tuple(tokens): token for tokens, token in held["chosen"]}
    lowered = lower(script, chosen, description=description, tokenize=tokenized.__getitem__, greedy=choices.__getitem__)
    if _digest(lowered.plans) != held["plans"]:
        told = "plans: this evseq, or a text beside the script, gives the script other steps than were recorded"
        raise PlannedOtherwise(path, told)
    group = Group(
        recordings=tuple(recordings(lowered, held["cases"], tensors)),
        references=references_of(held["references"], tensors, ""),
        declared={name: references_of(facts, tensors, f"declared.{name}.") for name, facts in held["declared"].items()},
        work=Work(**held["work"]),
        tree=lowered.tree,
    )
    fitting(group, description)
    return Kept(
        script=script,
        target=held["target"],
        description=description,
        chosen=chosen,
        group=group,
        in_memory=held["in_memory"],
        threads=held["threads"],
        golden=held["golden"],
    )


def _described(description: Description) -> dict[str, Any]:
    """Return a description as JSON has it, its set in an order that is the same in every process."""
    told: dict[str, Any] = _DESCRIPTION.dump_python(description, mode="json")
    return {**told, "capabilities": sorted(told["capabilities"])}


def _digest(plans: Iterable[Plan | str | None]) -> str:
    """Return SHA-256 of everything a plan does; sets are left out, whose order differs between processes."""
    steps = [(plan.steps, plan.layouts, sorted(plan.loud)) if isinstance(plan, Plan) else plan for plan in plans]
    return hashlib.sha256(repr(steps).encode()).hexdigest()
