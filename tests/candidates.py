"""Small goldens and candidates of them, for tests of what people are told and decide."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import torch

from evseq.cache.identity import Identity
from evseq.geometry import Deciding, Dtype
from evseq.golden.acceptance import accept
from evseq.golden.candidate import Candidate, Change, JudgedCase, Told, Use, store
from evseq.golden.forms import Form, Full
from evseq.golden.golden import Golden
from evseq.golden.histories import TOP, Histories
from evseq.golden.root import Place, Root
from evseq.verdict.result import Check, Outcome

WEIGHTS = "3f" * 32
CASES = tuple(
    JudgedCase(id=f"crop[{arm}][reference:full]", outcome=Outcome.PASSED, dtype=Dtype.FLOAT64)
    for arm in ("left", "right")
)
USES = (
    Use(event="prefill", place="crop.evseq.yaml:8:5", rows=(("a", 0, 0), ("a", 1, 1), ("b", 0, 0))),
    Use(event="append", place="crop.evseq.yaml:9:5", rows=(("b", 1, 2),)),
)


def failed(arm: str, *, place: str = "crop.evseq.yaml:8:5", check: Check = Check.PARITY) -> JudgedCase:
    """Return a case in which a check found something."""
    told = Told(check=check, place=place, message=f"{place}: event: {check}: off")
    return JudgedCase(id=f"crop[{arm}][reference:full]", outcome=Outcome.FAILED, told=(told,))


def golden(*changes: tuple[int, int, float], script: str = "crop", form: type[Form] = Full) -> Golden:
    """Return a golden of the histories 4, 4 2, 4 3, some logits (row, id, value) changed; each may be off by 0.001."""
    logits = torch.tensor([[3.0, 1.0, 0.0, 0.0], [0.0, 2.0, 1.0, 0.0], [1.0, 0.0, 0.0, 4.0]])
    for row, entry, value in changes:
        logits[row, entry] = value
    return Golden(
        script=script,
        identity=Identity(values={"model.architecture": "Small", "weights.source": WEIGHTS}),
        histories=Histories(parents=(TOP, 0, 0), tokens=(4, 2, 3), positions=(0, 1, 1), observed=(0, 1, 2)),
        logits=form.of(logits),
        allowed=torch.full((3,), 0.001),
        greedy={},
        deciding=Deciding.PURE,
        layers=2,
    )


def propose(
    root: Root, *changes: tuple[int, int, float], at: str = "small/v1/crop", form: type[Form] = Full, **says: Any
) -> Place:
    """Write a candidate; `says` are fields of its sidecar."""
    model, revision, script = at.split("/")
    usual: dict[str, Any] = {
        "seal": "",
        "change": Change.NEW,
        "target": "reference:full",
        "made": datetime(2026, 3, 1, 9, 30, tzinfo=UTC),
        "commit": "c0ffee" * 4,
        "libraries": {"evseq": "0.1.0", "torch": "2.13.0"},
        "processor": "cpu, x86_64, AVX2",
        "weights": WEIGHTS,
        "finite": True,
        "repeats": True,
        "cases": CASES,
        "uses": USES,
    }
    candidate = Candidate(**(usual | {"model": model, "revision": revision, "script": script} | says))
    store(root, golden(*changes, script=script, form=form), candidate)
    return candidate.place


def adopt(root: Root, *changes: tuple[int, int, float], at: str = "small/v1/crop") -> Place:
    """Write a golden and its line of the ledger."""
    place = propose(root, *changes, at=at)
    accept(root, [place], reason="so it is", environment={}, today=date(2026, 3, 1))
    return place
