"""Judging: what was observed of one script, held to references and goldens case by case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evseq.part import ScriptResult
from evseq.script.cases import CaseArms
from evseq.script.document import Script
from evseq.verdict.label import Label
from evseq.verdict.result import Case, Forwards

if TYPE_CHECKING:
    from evseq.geometry import Description
    from evseq.replay.group import Group
    from evseq.verdict.standard import Accepted, Missing

__all__ = ["observed_cases"]


def observed_cases(
    script: Script,
    labels: Sequence[Label],
    description: Description,
    chosen: Sequence[CaseArms],
    group: Group,
    *,
    golden: Accepted | Missing | None = None,
) -> ScriptResult:
    """Judge what was observed of one script, case by case, against references and what was accepted."""
    from evseq.verdict.cause import explained
    from evseq.verdict.evidence import Evidence
    from evseq.verdict.judge import judge
    from evseq.verdict.unjudged import unreferenced, unsupported

    ended: list[Case] = []
    for called, case, observed in zip(labels, chosen, group.recordings, strict=True):
        if observed is None:
            ended.append(unreferenced(script, case, called, str(group.broken)))
        elif isinstance(observed, str) or (references := group.held_to(observed.plan)) is None:
            ended.append(unsupported(script, case, called, str(observed)))
        else:
            evidence = Evidence(
                recording=observed,
                references=references,
                plain=group.references,
                script=script,
                description=description,
                golden=golden,
            )
            ended.append(judge(evidence, called))
    told = explained(ended)
    work = group.work
    forwards = Forwards(leaves=work.leaves, oracle=work.oracle, reference=work.reference, once=work.once)
    return ScriptResult(cases=told, forwards=forwards)
