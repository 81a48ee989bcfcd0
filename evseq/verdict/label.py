"""Label: how a case is called, and how to replay just it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from evseq.script.cases import CaseArms
from evseq.script.document import Script

__all__ = ["Label", "label", "name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A case's name, its target, and the command that replays it; a call where the target has no text."""

    id: str
    target: str
    replay: str


def label(script: Script, case: CaseArms, target: str, *, in_memory: bool, held: Sequence[str] = ()) -> Label:
    """Return the label of one case on one target; `held` are the flags that say to which goldens."""
    file = script.source.file
    if in_memory:
        only = {arm: (str(value),) for arm, value in case.arms.items()}
        replay = f"evseq.qualify(model, [{file!r}], settings=evseq.pipeline.Settings(only={only}))"
    else:
        arms = [word for arm, value in case.arms.items() for word in ("--arm", f"{arm}={value}")]
        replay = shlex.join(["evseq", "run", file, "--target", target, *arms, *held])
    return Label(id=name(script, case, target), target=target, replay=replay)


def name(script: Script, case: CaseArms, target: str) -> str:
    """Return the id of one case on one target."""
    return f"{script.name}[{case.id}][{target}]"
