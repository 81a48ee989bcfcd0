"""Picking: the quick set, found from what every fault was caught by, and held to the one that ships."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evseq.audit.cover import missed, smallest
from evseq.audit.healthy import Sound
from evseq.audit.trial import Tried
from evseq.script.picks import read_pick
from evseq.script.quick import quick

__all__ = ["BESIDES", "Picking"]

BESIDES = 10
"""Forwards that take as long as what a case takes besides its own (measured on a new llama: 35 ms against 3.5)."""

SPARE = 1.25
"""How much more than what is needed here a quick set may cost, for what only other engines need."""

SHOWN = 5
"""Faults a sentence lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picking:
    """What picks are chosen from: faults after their trials, and the forwards that healthy cases took."""

    tried: Sequence[Tried]
    sound: Sequence[Sound]

    @property
    def caught(self) -> Mapping[str, frozenset[str]]:
        """Faults caught by each pick of which a case was red; what holds another catches what that does."""
        picks = {red.pick: read_pick(red.pick) for one in self.tried for red in one.reds}
        return {
            text: frozenset(one.fault for one in self.tried if any(picked.holds(picks[red.pick]) for red in one.reds))
            for text, picked in sorted(picks.items())
        }

    @property
    def costs(self) -> Mapping[str, int]:
        """What each of them costs in forwards: those of an average case of its script, and `BESIDES`, for each case."""
        reds = [red for one in self.tried for red in one.reds]
        forwards = {red.script: max((one.forwards.get(red.script, 0) for one in self.sound), default=0) for red in reds}
        cases = {text: max(red.meant for red in reds if red.pick == text) for text in {red.pick for red in reds}}
        return {red.pick: cases[red.pick] * (BESIDES + forwards[red.script]) for red in reds}

    def cheapest(self, kept: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the cheapest picks that together catch all that was caught, with those that are `kept`."""
        return smallest(self.caught, cost=self.costs, kept=kept)

    @property
    def stale(self) -> str | None:
        """Why the quick set that ships is not the one to be had from these, or None."""
        shipped = [str(picked) for picked in quick()]
        caught, costs = self.caught, self.costs
        known = {text: faults for text, faults in caught.items() if text in shipped}
        if lost := sorted(missed(known, besides=set().union(*caught.values()))):
            more = f", and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
            return f"it misses {', '.join(lost[:SHOWN])}{more}"
        spent, least = sum(costs.get(text, BESIDES) for text in shipped), sum(costs[text] for text in self.cheapest())
        return f"it costs {spent} forwards, {least} do" if spent > SPARE * least else None
