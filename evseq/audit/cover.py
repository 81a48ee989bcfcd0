"""Cover: the smallest set of scripts that together catch every fault."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

__all__ = ["missed", "smallest"]


def smallest(caught: Mapping[str, AbstractSet[str]], *, cost: Mapping[str, int] | None = None) -> tuple[str, ...]:
    """Return scripts, in the order of their names, of which none can be left out, for the faults each has `caught`.

    First those that alone catch a fault. Then, greedy: the script that catches most of what is left, the cheapest among
    equals, the first by name among those. Then whatever the others make needless is left out, what costs most first.
    Optimal sets are a hard problem, and this is within a script or two of one. What has no `cost` is free.
    """
    price = dict.fromkeys(caught, 0) | dict(cost or {})
    alone = [catchers[0] for fault in set().union(*caught.values()) if len(catchers := _catchers(caught, fault)) == 1]
    taken = sorted(set(alone))
    left = missed({name: caught[name] for name in taken}, besides=set().union(*caught.values()))
    while left:
        best = min(caught, key=lambda script: (-len(caught[script] & left), price[script], script))
        taken.append(best)
        left -= caught[best]
    for script in sorted(taken, key=lambda script: (-price[script], script)):
        others = {name: caught[name] for name in taken if name != script}
        if not missed(others, besides=caught[script]):
            taken.remove(script)
    return tuple(sorted(taken))


def _catchers(caught: Mapping[str, AbstractSet[str]], fault: str) -> list[str]:
    return [script for script, faults in caught.items() if fault in faults]


def missed(caught: Mapping[str, AbstractSet[str]], *, besides: AbstractSet[str]) -> set[str]:
    """Return the faults among `besides` that no script of `caught` catches."""
    return set(besides).difference(*caught.values())
