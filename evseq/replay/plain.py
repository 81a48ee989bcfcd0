"""Plain: recordings and references as plain data and named tensors, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from pydantic import TypeAdapter
from torch import Tensor

from evseq.cache.identity import NOTHING, Difference
from evseq.geometry import Deciding, Dtype
from evseq.replay.group import Group
from evseq.replay.recording import Altered, Asked, Damaged, Drawn, Failure, Fed, Forced, Moved, Probed, Recording
from evseq.replay.references import References
from evseq.script.lower import Lowered

__all__ = ["cases_of", "plain", "recordings", "references_of", "said", "tables"]

_PROBED = TypeAdapter(Probed)
_FED = [part.name for part in fields(Fed) if part.name != "logits"]
_FORCED = ("logits", "truth", "afresh")

_NOTHING = {"nothing": True}
"""How NOTHING is written: no value of an identity is such a mapping."""


def tables(references: References, prefix: str) -> dict[str, Tensor]:
    """Return the tensors of references by names that begin with `prefix`; `references_of` takes them from there."""
    tensors = {f"{prefix}truth": references.truth, f"{prefix}scale": references.scale}
    for dtype, err in references.err.items():
        tensors |= {f"{prefix}err.{dtype}": err, f"{prefix}finite.{dtype}": references.finite[dtype]}
    return tensors if references.loss is None else tensors | {f"{prefix}loss": references.loss}


def said(references: References) -> dict[str, Any]:
    """Return what references hold besides tensors."""
    return {
        "nodes": list(references.nodes),
        "deciding": references.deciding.value,
        "dependent": references.dependent,
        "causal_gap": references.causal_gap,
        "layers": references.layers,
        "changed": {dtype.value: told for dtype, told in references.changed.items()},
    }


def cases_of(group: Group) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """Return the facts of each case, and the logits of all by names that tell whose they are."""
    cases: list[dict[str, Any]] = []
    tensors: dict[str, Tensor] = {}
    for number, recording in enumerate(group.recordings):
        if not isinstance(recording, Recording):
            cases.append({"unsupported": recording})
            continue
        observed, logits = _facts(recording)
        cases.append(observed)
        tensors |= {f"case.{number}.{name}": tensor for name, tensor in logits.items()}
    return cases, tensors


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


def recordings(lowered: Lowered, cases: list[dict[str, Any]], tensors: Mapping[str, Tensor]) -> list[Recording | str]:
    """Return what was observed in each case, or why it was not played: the inverse of `cases_of`."""
    found: list[Recording | str] = []
    for number, (plan, facts) in enumerate(zip(lowered.plans, cases, strict=True)):
        if isinstance(plan, str):
            found.append(plan)
            continue
        found.append(
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
    return found


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[int, Tensor]:
    return {int(name.removeprefix(prefix)): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def references_of(facts: Mapping[str, Any], tensors: Mapping[str, Tensor], prefix: str) -> References:
    """Return references: the inverse of `said` and `tables`."""
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


def plain(value: object) -> object:
    """Return how JSON says a value that it has no form for."""
    if value is NOTHING:
        return _NOTHING
    raise TypeError(f"{type(value).__name__} is no fact")
