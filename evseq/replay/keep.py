"""Keep: what was observed of one script on one target in a sealed file, to be judged again without the model."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from evseq.cache.damage import FactsDamaged, PlannedOtherwise
from evseq.cache.identity import NOTHING, Difference, Identity
from evseq.cache.sealed import SealedKind, open_sealed, seal
from evseq.errors import ScriptError
from evseq.geometry import Deciding, Description, Dtype
from evseq.replay.facts import describing, fitting, typed
from evseq.replay.group import Group, Work
from evseq.replay.recording import Altered, Asked, Damaged, Drawn, Failure, Fed, Forced, Moved, Probed, Recording
from evseq.replay.references import References
from evseq.replay.target import Target
from evseq.script.cases import CaseArms
from evseq.script.document import Script, parse
from evseq.script.lower import Lowered, lower
from evseq.script.source import parse_yaml
from evseq.script.steps import Plan

__all__ = ["Kept", "keep", "kept"]

_DESCRIPTION = TypeAdapter(Description)
_PROBED = TypeAdapter(Probed)
_FED = [part.name for part in fields(Fed) if part.name != "logits"]
_FORCED = ("logits", "truth", "afresh")
FACTS = "facts"
"""The tensor that holds everything but logits, as JSON."""

_NOTHING = {"nothing": True}
"""How NOTHING is written: no value of an identity is such a mapping."""


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
    tensors = _tables(references, "")
    for name, declared in group.declared.items():
        tensors |= _tables(declared, f"declared.{name}.")
    cases = []
    for number, recording in enumerate(group.recordings):
        if not isinstance(recording, Recording):
            cases.append({"unsupported": recording})
            continue
        observed, logits = _facts(recording)
        cases.append(observed)
        tensors |= {f"case.{number}.{name}": tensor for name, tensor in logits.items()}
    facts = {
        "script": script.source.text,
        "file": script.source.file,
        "target": target.text,
        "in_memory": target.in_memory,
        "description": _described(target.description),
        "arms": [dict(case.arms) for case in chosen],
        "tokenized": [[text, list(ids)] for text, ids in target.used.tokenized.items()],
        "chosen": [[list(tokens), token] for tokens, token in {**target.used.chosen, **(forced or {})}.items()],
        "references": _said(references),
        "declared": {name: _said(declared) for name, declared in group.declared.items()},
        "threads": target.fresh.threads,
        "plans": _digest([case if isinstance(case, str) or case is None else case.plan for case in group.recordings]),
        "work": asdict(group.work),
        "golden": golden,
        "cases": cases,
    }
    # A tensor and not a scalar of the header, whose length is limited: a long script has megabytes of facts.
    tensors[FACTS] = torch.frombuffer(bytearray(json.dumps(facts, default=_plain).encode()), dtype=torch.uint8)
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
        recordings=tuple(_recordings(lowered, held["cases"], tensors)),
        references=_references(held["references"], tensors, ""),
        declared={name: _references(facts, tensors, f"declared.{name}.") for name, facts in held["declared"].items()},
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


def _tables(references: References, prefix: str) -> dict[str, Tensor]:
    tensors = {f"{prefix}truth": references.truth, f"{prefix}scale": references.scale}
    for dtype, err in references.err.items():
        tensors |= {f"{prefix}err.{dtype}": err, f"{prefix}finite.{dtype}": references.finite[dtype]}
    return tensors if references.loss is None else tensors | {f"{prefix}loss": references.loss}


def _said(references: References) -> dict[str, Any]:
    return {
        "nodes": list(references.nodes),
        "deciding": references.deciding.value,
        "dependent": references.dependent,
        "causal_gap": references.causal_gap,
        "layers": references.layers,
        "changed": {dtype.value: told for dtype, told in references.changed.items()},
    }


def _facts(recording: Recording) -> tuple[dict[str, Any], dict[str, Tensor]]:
    facts = {
        "fed": [{name: getattr(fed, name) for name in _FED} for fed in recording.fed],
        "probed": [asdict(probed) for probed in recording.probed],
        "asked": [asdict(asked) for asked in recording.asked],
        "drawn": [asdict(drawn) for drawn in recording.drawn],
        "damaged": [asdict(damaged) for damaged in recording.damaged],
        "altered": [asdict(altered) for altered in recording.altered],
        "forced": [{"step": forced.step, "raised": forced.raised} for forced in recording.forced],
        "moved": [asdict(moved) for moved in recording.moved],
        "failures": [asdict(failure) for failure in recording.failures],
        "peak_cache_bytes": recording.peak_cache_bytes,
        "repeats": recording.repeats,
        "shown": recording.shown,
        "alone": recording.alone,
        "skipped": recording.skipped,
        "seconds": recording.seconds,
    }
    logits = {f"fed.{number}": fed.logits for number, fed in enumerate(recording.fed)}
    logits |= {f"solo.{lineage}": alone for lineage, alone in recording.solo.items()}
    for number, forced in enumerate(recording.forced):
        parts = {part: getattr(forced, part) for part in _FORCED}
        logits |= {f"forced.{number}.{part}": tensor for part, tensor in parts.items() if tensor is not None}
    return facts, logits


def _recordings(lowered: Lowered, cases: list[dict[str, Any]], tensors: Mapping[str, Tensor]) -> list[Recording | str]:
    recordings: list[Recording | str] = []
    for number, (plan, facts) in enumerate(zip(lowered.plans, cases, strict=True)):
        if isinstance(plan, str):
            recordings.append(plan)
            continue
        recordings.append(
            Recording(
                plan=plan,
                fed=[
                    Fed(**_tupled(fed), logits=tensors[f"case.{number}.fed.{place}"])
                    for place, fed in enumerate(facts["fed"])
                ],
                probed=[_PROBED.validate_python(probed) for probed in facts["probed"]],
                asked=[_asked(asked) for asked in facts["asked"]],
                forced=[
                    _forced(told, tensors, f"case.{number}.forced.{place}")
                    for place, told in enumerate(facts["forced"])
                ],
                altered=[Altered(**altered) for altered in facts["altered"]],
                drawn=[Drawn(**_tupled(drawn)) for drawn in facts["drawn"]],
                damaged=[Damaged(**damaged) for damaged in facts["damaged"]],
                moved=[Moved(**moved) for moved in facts["moved"]],
                failures=[Failure(**failure) for failure in facts["failures"]],
                peak_cache_bytes=facts["peak_cache_bytes"],
                repeats=facts["repeats"],
                shown=facts["shown"],
                solo=_under(tensors, f"case.{number}.solo."),
                alone=facts["alone"],
                skipped=facts["skipped"],
                seconds=facts["seconds"],
            )
        )
    return recordings


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[int, Tensor]:
    return {int(name.removeprefix(prefix)): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _references(facts: Mapping[str, Any], tensors: Mapping[str, Tensor], prefix: str) -> References:
    begin = f"{prefix}err."
    dtypes = [Dtype(name.removeprefix(begin)) for name in tensors if name.startswith(begin)]
    return References(
        nodes=tuple(facts["nodes"]),
        truth=tensors[f"{prefix}truth"],
        scale=tensors[f"{prefix}scale"],
        err={dtype: tensors[f"{begin}{dtype}"] for dtype in dtypes},
        finite={dtype: tensors[f"{prefix}finite.{dtype}"] for dtype in dtypes},
        loss=tensors.get(f"{prefix}loss"),
        deciding=Deciding(facts["deciding"]),
        dependent=facts["dependent"],
        causal_gap=facts["causal_gap"],
        layers=facts["layers"],
        changed={Dtype(dtype): told for dtype, told in facts["changed"].items()},
    )


def _forced(told: dict[str, Any], tensors: Mapping[str, Tensor], name: str) -> Forced:
    parts: dict[str, Any] = {part: tensors.get(f"{name}.{part}") for part in _FORCED}
    return Forced(**told, **parts)


def _asked(facts: dict[str, Any]) -> Asked:
    differences = tuple(
        Difference(
            field=told["field"],
            row=told["row"],
            index=told["index"],
            key=told["key"],
            recorded=NOTHING if told["recorded"] == _NOTHING else told["recorded"],
            now=NOTHING if told["now"] == _NOTHING else told["now"],
        )
        for told in facts["differences"]
    )
    return Asked(**{**facts, "differences": differences})


def _tupled(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}


def _plain(value: object) -> object:
    if value is NOTHING:
        return _NOTHING
    raise TypeError(f"{type(value).__name__} is no fact")
