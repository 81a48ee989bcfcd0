"""Rule: one named demand on an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from evseq.engines.conformance.bench import Bench
from evseq.geometry import Capability

__all__ = ["Rule", "rule"]

Check = Callable[[Bench], Iterator[str]]
"""Yields what is wrong, one message each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A demand on engines with the capabilities in `needs`; `help` says what to do.

    It is checked for each cache kind, or only for the default one.
    """

    name: str
    check: Check
    help: str
    needs: frozenset[Capability]
    every_cache: bool


def rule(*needs: Capability, every_cache: bool = True) -> Callable[[Check], Rule]:
    """Make a check a rule: its name is the function's, its help the docstring."""

    def made(check: Check) -> Rule:
        return Rule(
            name=check.__name__.replace("_", "-"),
            check=check,
            help=check.__doc__ or "",
            needs=frozenset(needs),
            every_cache=every_cache,
        )

    return made
