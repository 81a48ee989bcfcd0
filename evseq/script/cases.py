"""Cases: which arms of a script run on a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evseq.errors import UsageError
from evseq.geometry import Capability, Description
from evseq.script.arms import BUILT_IN, Arm, Selection, expand, parse_arm
from evseq.script.complaints import Complaints
from evseq.script.compose import Value
from evseq.script.document import Script
from evseq.script.picks import EVERY, Pick
from evseq.script.rows import Each
from evseq.script.source import NOWHERE
from evseq.script.texts import each_lines

__all__ = ["CaseArms", "all_arms", "cases", "lacking", "pick"]

IDLE = ("dtype", "cache", "positions")
"""Arms that no script can be wrong about without a target."""

SHAPES = ("padding", "chunk")
"""Arms that a script can be wrong about, without a target, only by their number words or where `capacity` is an arm."""

LEAST_WINDOW = 2
"""A window that holds the query alone has no past, so that `window-1` tokens are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseArms:
    """One combination of arm values, with the words by which it is shown."""

    arms: Mapping[str, int | str]

    @property
    def id(self) -> str:
        """The values joined by dashes, as pytest would."""
        return "-".join(str(value) for value in self.arms.values())


def cases(
    script: Script,
    description: Description | None,
    *,
    engine: str = "",
    mode: str = "pairwise",
    only: Mapping[str, Sequence[str]] | None = None,
) -> tuple[CaseArms, ...]:
    """Return the combinations of `script` on a target, the first being every arm's first value.

    `engine` is the target's engine, whose own options keep their namespace; other engines' collapse. Without a
    description, arms collapse too about which a script cannot be wrong then. `only` keeps an arm's named values; an arm
    of evseq or of an engine that the script does not have is added, any other left out. An arm without values gives no
    cases. Of a script with picks those are the cases, whatever the mode; an arm in `only` has all of its named values.
    Raises UsageError for an added value that is none.
    """
    offered = _offered(script, description, engine, only or {})
    if not all(offered.values()):
        return ()
    if not script.picks:
        return tuple(CaseArms(arms=combination) for combination in expand(offered, mode=mode))
    firsts = _firsts(offered, description)
    chosen = [
        {
            name: values if name in (only or {}) else pick.values(name, values, firsts[name])
            for name, values in offered.items()
        }
        for pick in script.picks
    ]
    combinations = [combination for values in chosen for combination in expand(values, mode=Selection.ALL)]
    return tuple(CaseArms(arms=dict(arms)) for arms in dict.fromkeys(tuple(each.items()) for each in combinations))


def pick(script: Script, case: CaseArms, description: Description, *, engine: str) -> Pick:
    """Return the pick with the fewest cases on a target that `case` of `script` is one of."""
    offered = _offered(script, description, engine, {})
    firsts = _firsts(offered, description)
    told = {name: str(case.arms[name]) for name in offered if str(case.arms[name]) != firsts[name]}
    if "cache" in told and script.arms["cache"].values == (EVERY,):
        told["cache"] = EVERY
    return Pick(script=script.name, arms=told)


def _firsts(offered: Mapping[str, Sequence[int | str]], description: Description | None) -> Mapping[str, str]:
    """Return the value of each arm that a pick need not say."""
    deciding = {"dtype": str(description.deciding.dtype)} if description else {}
    return {name: str(values[0]) for name, values in offered.items()} | deciding


def _offered(
    script: Script, description: Description | None, engine: str, only: Mapping[str, Sequence[str]]
) -> dict[str, tuple[int | str, ...]]:
    """Return the values of each arm on a target, as far as `only` keeps them."""
    arms = dict(all_arms(script))
    for name, values in only.items():
        if name in arms:
            arms[name] = _kept(arms[name], values)
        elif name in BUILT_IN or "." in name:
            arms[name] = _added(name, values)
    idle = _idle(script) if description is None else frozenset()
    found = {name: _values(name, arm, description, engine) for name, arm in arms.items() if name not in idle}
    return {name: values for name, values in found.items() if values is not None}


def lacking(script: Script, description: Description) -> str | None:
    """Return why a target cannot play `script` at all, or None."""
    window = description.geometry.window
    for need in script.needs:
        if need == "window" and window is None:
            return "needs a windowed layer"
        if need == "window" and window is not None and window < LEAST_WINDOW:
            return f"needs a window of at least {LEAST_WINDOW}"
        if need == "full" and window is not None:
            return "needs a decoder without windows"
        if need not in ("window", "full") and Capability(need) not in description.capabilities:
            return f"needs {need}"
    return None


def all_arms(script: Script) -> list[tuple[str, Arm]]:
    """Return the arms of a script by name; a row with a case per line is one, of the numbers of its lines."""
    lines = [
        (name, Arm(values=tuple(range(1, len(each_lines(script, source.each)) + 1))))
        for name, source in script.rows.items()
        if isinstance(source, Each)
    ]
    return [*script.arms.items(), *lines]


def _kept(arm: Arm, values: Sequence[str]) -> Arm:
    if arm.values == (EVERY,):
        return Arm(values=tuple(values), when=arm.when)
    return Arm(values=tuple(value for value in arm.values if str(value) in values), when=arm.when)


def _added(name: str, values: Sequence[str]) -> Arm:
    complaints = Complaints(NOWHERE)
    arm = parse_arm(name, [int(value) if value.isdecimal() else value for value in values], complaints)
    if complaints.problems or arm is None:
        raise UsageError("\n".join(f"{problem.message}\n  help: {problem.help}" for problem in complaints.problems))
    return arm


def _idle(script: Script) -> frozenset[str]:
    """Return the arms about which this script cannot be wrong as long as no target is named."""
    shapes = {name for name in SHAPES if name in script.arms}
    data = script.source.data
    if shapes and isinstance(data, dict) and "capacity" not in script.arms:
        values = " ".join(str(value) for arm in script.arms.values() for value in arm.values)
        parts: list[Value] = [data.get("rows"), data.get("events"), values]
        return frozenset({*IDLE, *(name for name in shapes if not _mentioned(name, parts))})
    return frozenset(IDLE)


def _mentioned(word: str, data: Value) -> bool:
    """Return whether a text in `data` holds `word`, or a key is that word."""
    if isinstance(data, str | dict) and word in data:
        return True
    parts = data if isinstance(data, list) else data.values() if isinstance(data, dict) else ()
    return any(_mentioned(word, part) for part in parts)


def _values(name: str, arm: Arm, description: Description | None, engine: str) -> tuple[int | str, ...] | None:
    namespace, dot, _ = name.rpartition(".")
    if dot and (description is None or namespace != engine):
        return None
    if description is None:
        return arm.values
    every = name == "cache" and arm.values == (EVERY,)
    values = tuple(kind.name for kind in description.exact) if every else arm.values
    return values if all(Capability(need) in description.capabilities for need in arm.when) else values[:1]
