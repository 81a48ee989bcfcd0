"""What one pytest run keeps open, and what it found out; the latter also as a worker of pytest-xdist tells it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from evseq.verdict.result import Case, Finding

if TYPE_CHECKING:
    from evseq.geometry import Description
    from evseq.pipeline import Run, Settings
    from evseq.script.cases import CaseArms
    from evseq.script.document import Script

__all__ = ["Found", "Key", "Session", "arms_of"]

_Arms = frozenset[tuple[str, int | str]]
"""The arms of a case by name and value. Its id is no key: values joined by dashes may be those of another case."""

Key = tuple[Path, str, _Arms]
"""A case: its script's file, its target, its arms."""


def arms_of(case: CaseArms) -> _Arms:
    """Return what tells a case from the others of its script and target."""
    return frozenset(case.arms.items())


@dataclass(slots=True)
class Found:
    """What was collected and what came of it. `others` says that there are tests of another kind.

    `refused` says what is wrong with the call, where a worker found that out.
    """

    results: dict[tuple[Path, str], dict[_Arms, Case]] = field(default_factory=dict)
    collected: dict[Key, None] = field(default_factory=dict)  # in their order, deselected ones too
    selected: set[Key] = field(default_factory=set)
    unsupported: set[Key] = field(default_factory=set)
    candidates: list[str] = field(default_factory=list)
    unwritten: list[str] = field(default_factory=list)
    others: bool = False
    refused: str = ""

    def nothing(self, asked: Sequence[str]) -> bool:
        """Return whether there were only cases, and none that is supported, on any target or on one in `asked`."""
        if self.others or not self.selected:
            return False
        return bool(self.unjudged(asked)) or self.selected <= self.unsupported

    def unjudged(self, asked: Sequence[str]) -> list[str]:
        """Return the targets in `asked` that have no case, or none that is supported."""
        judged = {target for path, target, arms in self.collected if (path, target, arms) not in self.unsupported}
        return [name for name in asked if name not in judged | {target.partition(":")[0] for target in judged}]

    def idle(self, only: Mapping[str, Sequence[str]]) -> tuple[Finding, ...]:
        """Return the allowances that tolerate nothing, of scripts of which every case ran; none where arms are kept."""
        missed = {path for path, target, arms in self.collected if arms not in self.results.get((path, target), {})}
        whole = [cases for (path, _), cases in self.results.items() if path not in missed]
        if only or not any(case.allowed for cases in whole for case in cases.values()):
            return ()
        from evseq.verdict.allowed import idle

        return idle(case for cases in whole for case in cases.values())

    def told(self) -> bytes:
        """Return all of it as a worker sends it."""
        return pickle.dumps(self)

    def hear(self, told: bytes) -> None:
        """Add what one of our workers found out; several may have played the same cases, and written the same files."""
        other = pickle.loads(told)  # noqa: S301 - a worker of this run
        assert isinstance(other, Found)
        self.results.update(other.results)
        self.collected.update(other.collected)
        self.selected |= other.selected
        self.unsupported |= other.unsupported
        self.candidates += [path for path in other.candidates if path not in self.candidates]
        self.unwritten += [told for told in other.unwritten if told not in self.unwritten]
        self.others = self.others or other.others
        self.refused = self.refused or other.refused


@dataclass(slots=True)
class Session:
    """What one pytest run keeps open: targets, and what it has computed once."""

    run: Run | None = None
    stack: ExitStack = field(default_factory=ExitStack)
    scripts: list[Script] = field(default_factory=list)
    offered: dict[str, Description] = field(default_factory=dict)  # by target
    found: Found = field(default_factory=Found)
    _arithmetic: tuple[Finding, ...] | None = None

    def arithmetic(self) -> tuple[Finding, ...]:
        """Return what is wrong with one head's arithmetic, computed once: before any model is blamed."""
        from evseq.verdict.arithmetic import one_head

        if self._arithmetic is None:
            self._arithmetic = one_head()
        return self._arithmetic

    def opened(self, settings: Settings) -> Run:
        """Return what targets are opened in, the same until it is closed."""
        from evseq.pipeline import Run

        if self.run is None:
            self.run = self.stack.enter_context(Run(settings))
        return self.run

    def close(self) -> None:
        """Close what is open; results stay."""
        self.run = None
        self.stack.close()
