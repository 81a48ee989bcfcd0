"""Lower: all cases of a script become plans that share one tree of histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evseq.errors import Place, Problem, ScriptError
from evseq.geometry import Capability, Description, Positions
from evseq.history import Tree
from evseq.script.cases import CaseArms, cases, lacking
from evseq.script.document import Script
from evseq.script.number import NumberError
from evseq.script.plan import plan
from evseq.script.rows import Each, Text, TextFile
from evseq.script.steps import Plan
from evseq.script.support import unsupported
from evseq.script.texts import Greedy, Tokenize, row_texts

__all__ = ["Lowered", "check", "lower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """The plans of a script's cases, in their order; a reason in place of a plan the target cannot play."""

    tree: Tree
    plans: tuple[Plan | str, ...]


def lower(
    script: Script,
    chosen: Sequence[CaseArms],
    *,
    description: Description | None = None,
    tokenize: Tokenize | None = None,
    greedy: Greedy | None = None,
) -> Lowered:
    """Plan every case. Raises ScriptError with the problems of all of them."""
    tree = Tree()
    plans: list[Plan | str] = []
    problems: dict[Place, Problem] = {}
    for case in chosen:
        try:
            plans.append(_lower(script, case, tree, description=description, tokenize=tokenize, greedy=greedy))
        except ScriptError as error:
            # Arms differ in numbers, not in what is wrong: the first telling of a place is enough.
            problems = {problem.place: problem for problem in error.problems} | problems
    if problems:
        raise ScriptError(problems.values())
    return Lowered(tree=tree, plans=tuple(plans))


def check(
    script: Script,
    description: Description | None = None,
    *,
    engine: str = "",
    mode: str = "pairwise",
    tokenize: Tokenize | None = None,
) -> None:
    """Check every case of `script` without a model, symbolically without a description. Raises ScriptError."""
    lower(script, cases(script, description, engine=engine, mode=mode), description=description, tokenize=tokenize)


def _lower(
    script: Script,
    case: CaseArms,
    tree: Tree,
    *,
    description: Description | None,
    tokenize: Tokenize | None,
    greedy: Greedy | None,
) -> Plan | str:
    if description is not None:
        reason = lacking(script, description) or _untold(script, description)
        if reason:
            return reason
    geometry = description.geometry if description else None
    arms = dict(case.arms) if description is None else _completed(case, description)
    try:
        texts = row_texts(
            script,
            arms,
            window=geometry.window if geometry else None,
            vocab=geometry.vocab if geometry else None,
            tokenize=tokenize,
        )
    except NumberError as error:
        raise ScriptError([_row_problem(script, error)]) from error
    planned = plan(script, arms, texts=texts, tree=tree, description=description, greedy=greedy)
    return (description and unsupported(planned, description)) or planned


def _completed(case: CaseArms, description: Description) -> dict[str, int | str]:
    """Give every built-in arm a value: the deciding dtype, the engine's first cache kind, positions as it can."""
    given = Capability.POSITIONS in description.capabilities
    return {
        "dtype": description.deciding.dtype.value,
        "cache": description.caches[0].name,
        "positions": (Positions.GIVEN if given else Positions.ENGINE).value,
        **case.arms,
    }


def _untold(script: Script, description: Description) -> str | None:
    worded = any(isinstance(row, Text | TextFile | Each) for row in script.rows.values())
    return "needs a tokenizer" if worded and Capability.TEXT not in description.capabilities else None


def _row_problem(script: Script, error: NumberError) -> Problem:
    place = script.place(error.path)
    return Problem(place=place, message=f"rows: {error}", help=error.help, excerpt=script.source.excerpt(place))
