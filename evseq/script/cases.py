"""Cases: which arms of a script run on a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evseq.geometry import Capability, Description
from evseq.script.arms import expand
from evseq.script.document import Arm, Script
from evseq.script.rows import Each
from evseq.script.texts import each_lines

__all__ = ["CaseArms", "cases", "lacking"]

STATIC = ("dtype", "cache")
"""Arms that change nothing a plan computes without a target."""


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
    description, arms that cannot change a plan collapse too. `only` keeps an arm's named values (an arm the script does
    not have is added); an arm left without values gives no cases.
    """
    arms = dict(_all_arms(script))
    for name, values in (only or {}).items():
        arms[name] = _kept(arms.get(name), values)
    offered = {name: _values(name, arm, description, engine) for name, arm in arms.items()}
    chosen = {name: values for name, values in offered.items() if values is not None}
    if not all(chosen.values()):
        return ()
    return tuple(CaseArms(arms=combination) for combination in expand(chosen, mode=mode))


def lacking(script: Script, description: Description) -> str | None:
    """Return why a target cannot play `script` at all, or None."""
    for need in script.needs:
        window = description.geometry.window
        if need == "window" and window is None:
            return "needs a windowed layer"
        if need == "full" and window is not None:
            return "needs a decoder without windows"
        if need not in ("window", "full") and Capability(need) not in description.capabilities:
            return f"needs {need}"
    return None


def _all_arms(script: Script) -> list[tuple[str, Arm]]:
    lines = [
        (name, Arm(values=tuple(range(1, len(each_lines(script, source.each)) + 1))))
        for name, source in script.rows.items()
        if isinstance(source, Each)
    ]
    return [*script.arms.items(), *lines]


def _kept(arm: Arm | None, values: Sequence[str]) -> Arm:
    if arm is None or arm.values == ("all",):
        return Arm(values=tuple(values))
    return Arm(values=tuple(value for value in arm.values if str(value) in values), when=arm.when)


def _values(name: str, arm: Arm, description: Description | None, engine: str) -> tuple[int | str, ...] | None:
    namespace, dot, option = name.partition(".")
    if description is None:
        return None if dot or name in STATIC else arm.values
    if dot:
        if namespace != engine:
            return None
        offered = description.options.get(option, ())
        return tuple(value for value in arm.values if str(value) in offered) or None
    if name == "cache" and arm.values == ("all",):
        return tuple(kind.name for kind in description.caches)
    if not all(Capability(need) in description.capabilities for need in arm.when):
        return arm.values[:1]
    return arm.values
