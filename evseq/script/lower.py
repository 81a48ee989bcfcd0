"""Lower: all cases of a script become plans that share one tree of histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evseq.errors import Problem, ScriptError
from evseq.geometry import Capability, Description, Positions
from evseq.history import Tree
from evseq.script.cases import CaseArms, cases, lacking
from evseq.script.document import Script
from evseq.script.number import NumberError, number_words
from evseq.script.plan import plan
from evseq.script.rows import Each, Text, TextFile
from evseq.script.steps import Plan
from evseq.script.support import unsupported
from evseq.script.texts import Greedy, Tokenize, each_line, is_ids, row_texts

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
    problems: list[Problem] = []
    for case in chosen:
        try:
            plans.append(_lower(script, case, tree, description=description, tokenize=tokenize, greedy=greedy))
        except ScriptError as error:
            # Arms differ in numbers, not in what is wrong: the first case to tell of a place says enough.
            told = {problem.place for problem in problems}
            problems += [problem for problem in error.problems if problem.place not in told]
    if problems:
        raise ScriptError(problems)
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
        reason = lacking(script, description) or _untold(script, case, description)
        if reason:
            return reason
    geometry = description.geometry if description else None
    arms = dict(case.arms) if description is None else _completed(case, description)
    window, vocab = (geometry.window, geometry.vocab) if geometry else (None, None)
    block = description.pool.block if description and description.pool else None
    try:
        words = number_words(arms, window=window, symbolic=geometry is None, block=block)
        texts = row_texts(script, arms, words=words, vocab=vocab, tokenize=tokenize)
    except NumberError as error:
        raise ScriptError([_problem(script, arms, error)]) from error
    planned = plan(script, arms, words=words, texts=texts, tree=tree, description=description, greedy=greedy)
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


def _untold(script: Script, case: CaseArms, description: Description) -> str | None:
    if Capability.TEXT in description.capabilities:
        return None
    worded = any(
        isinstance(row, Text | TextFile)
        or (isinstance(row, Each) and not is_ids(each_line(script, row, case.arms[name])))
        for name, row in script.rows.items()
    )
    return "needs a tokenizer" if worded else None


def _problem(script: Script, arms: Mapping[str, int | str], error: NumberError) -> Problem:
    """Return what is wrong with a number in `rows` or `arms`, at that number."""
    section, name, *_ = path = error.path
    if section == "arms":
        arm = script.arms.get(str(name))
        value = arms[str(name)]
        path = (*path, "values", arm.values.index(value)) if arm and value in arm.values else path
    place = script.place(path)
    excerpt = script.source.excerpt(place)
    return Problem(place=place, message=str(error), help=error.help, excerpt=excerpt)
