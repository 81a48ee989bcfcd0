"""Picks: some cases of a script, told so that they mean something on every target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["EVERY", "Pick", "read_pick"]

EVERY = "all"
"""Every value of an arm that the target takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """Cases of a script: each arm at its first value, and the dtype that decides, unless `arms` says another.

    `all` stands for every value. An engine has its own names for its cache kinds, so where a script leaves them to the
    target a pick is of the first or of all.
    """

    script: str
    arms: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([self.script, *(f"{name}={value}" for name, value in self.arms.items())])

    def holds(self, other: Pick) -> bool:
        """Return whether every case of another pick is one of this."""
        names = {*self.arms, *other.arms}
        return self.script == other.script and all(
            self.arms.get(name) in (EVERY, other.arms.get(name)) for name in names
        )

    def values(self, name: str, offered: Sequence[int | str], first: str) -> tuple[int | str, ...]:
        """Return which of the values that an arm has on a target are meant: `first`, unless the pick says another.

        What the target does not take is the first that it does, as in every selection of cases.
        """
        said = self.arms.get(name, first)
        return tuple(value for value in offered if said in (EVERY, str(value))) or tuple(offered[:1])


def read_pick(line: str) -> Pick:
    """Read what the text of a pick says."""
    script, *arms = line.split()
    return Pick(script=script, arms=dict(arm.split("=", maxsplit=1) for arm in arms))
