"""Cover: the smallest set of scripts that together catch every fault."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

__all__ = ["missed", "smallest"]


def smallest(caught: Mapping[str, AbstractSet[str]]) -> tuple[str, ...]:
    """Return scripts, in the order of their names, of which none can be left out, for the faults each has `caught`.

    Greedy: the script that catches most of what is left, the first by name among equals; then, from the last taken to
    the first, whatever the others make needless is left out. Optimal sets are a hard problem, and this is within a
    script or two of one.
    """
    left = set().union(*caught.values())
    taken: list[str] = []
    while left:
        best = min(caught, key=lambda script: (-len(caught[script] & left), script))
        taken.append(best)
        left -= caught[best]
    for script in reversed(taken.copy()):
        others = {name: caught[name] for name in taken if name != script}
        if not missed(others, besides=caught[script]):
            taken.remove(script)
    return tuple(sorted(taken))


def missed(caught: Mapping[str, AbstractSet[str]], *, besides: AbstractSet[str]) -> set[str]:
    """Return the faults among `besides` that no script of `caught` catches."""
    return set(besides).difference(*caught.values())
