"""Result: what a run found out, as plain data. Everything a report shows is read from here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from evseq.check import Check
from evseq.errors import Exit

__all__ = [
    "Allowed",
    "Case",
    "Check",
    "ErrorRatio",
    "Exit",
    "Finding",
    "Forwards",
    "Judged",
    "Known",
    "Latency",
    "Margin",
    "Note",
    "Outcome",
    "Result",
    "Witnessed",
]


class Outcome(StrEnum):
    """How a case ended; `known` failed exactly as known.yaml says, and fails no run."""

    PASSED = "passed"
    FAILED = "failed"
    KNOWN = "known"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing a check found wrong.

    `place` is `file:line:column` of the event; `row` and `index` are None only where the finding is about no single
    token; `round` is that of the repeat the event stands in. `actual` and `expected` are the largest deviation's
    logits, or two counts; `share` is how many allowances a logit is off by, None where it is not about logits.
    """

    check: Check
    place: str
    event: str
    step: int
    row: str | None
    index: int | None
    message: str
    actual: str | None = None
    expected: str | None = None
    cause: str | None = None
    round: str | None = None
    share: float | None = None

    def __str__(self) -> str:
        token = [] if self.row is None else [f"row {self.row!r}"]
        token += [] if self.index is None else [f"index {self.index}"]
        turn = f"round {self.round}" if self.round else ""
        parts = [self.place, self.event, turn, " ".join(token), self.check, self.message]
        return ": ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """One `allow` of a script, and what it tolerated in one case: so many findings, the largest of so many allowances.

    `place` is `file:line:column` of the `allow`; `share` is None where the check has no allowances, or nothing was
    tolerated.
    """

    check: Check
    place: str
    because: str
    within: float
    findings: int
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """An entry of known.yaml, at `place`, that says a case fails in `check`."""

    place: str
    check: Check
    link: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something a reader must know though it is no failure: not judged, out of reach, a tolerated error."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Seconds measured apart: prefill to the first logits (median over prefills), then per later forward (median)."""

    first: float | None
    later: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """The observation that used the largest fraction of its allowance; all in logits."""

    deviation: float
    err: float
    allowed: float

    @property
    def fraction(self) -> float:
        """Share of the allowance used."""
        return self.deviation / self.allowed if self.allowed else float("inf") if self.deviation else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRatio:
    """The largest distance from truth of the cached and of the uncached side over one case's histories, in logits."""

    cached: float
    uncached: float

    @property
    def ratio(self) -> float | None:
        """Cached over uncached; None where the uncached side is truth itself, as in float64."""
        return self.cached / self.uncached if self.uncached else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnessed:
    """How the errors of a script compare with what its witness, `file`, says they were on a machine of this kind.

    `drift` is the largest change of an error, of either side and any history, as a share of its allowance; None where
    no witness tells of this script. `written` says whether the errors of this run were written down.
    """

    file: str
    drift: float | None
    written: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One script in one arm on one target."""

    id: str
    script: str
    file: str
    target: str
    arms: Mapping[str, int | str]
    outcome: Outcome
    reason: str | None = None  # why unsupported
    promise: str = "exact"
    golden: str | None = None  # the revision whose golden it was held to
    golden_share: float | None = None  # the largest share of an allowance by which any logit is off it
    dtype: str = ""
    observations: int = 0
    findings: tuple[Finding, ...] = ()
    allowed: tuple[Allowed, ...] = ()
    known: tuple[Known, ...] = ()
    notes: tuple[Note, ...] = ()
    margin: Margin | None = None
    envelope: float | None = None  # the largest share of its declared envelope that any logit of a lossy cache used
    errors: ErrorRatio | None = None
    witnessed: Witnessed | None = None
    latency: Latency = Latency(first=None, later=None)
    peak_cache_bytes: int = 0
    replay_forwards: int = 0
    seconds: float = 0.0
    replay: str = ""  # the command that replays just this


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a target offers (number formats, kernels), by whether any case ran in it."""

    target: str
    judged: tuple[str, ...]
    not_judged: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwards:
    """Forwards and leaves of one or more scripts. `once` are reference forwards that a run makes once, by what for."""

    leaves: int = 0
    oracle: int = 0
    reference: int = 0
    once: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Forwards) -> Forwards:
        return Forwards(
            leaves=self.leaves + other.leaves,
            oracle=self.oracle + other.oracle,
            reference=self.reference + other.reference,
            once={**self.once, **other.once},
        )

    def settled(self) -> Forwards:
        """Return the same for a whole run, what is made once counted among the others."""
        return replace(self, reference=self.reference + sum(self.once.values()), once={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A whole run. `findings` are those that belong to no case: the zeroth check, a reference that is itself wrong.

    `asked` are the targets a person named, as written: an engine's bare name stands for all its configurations.
    `candidates` are the files of candidate goldens that were written, `unmatched` the entries of known.yaml that mean
    no case, `unwritten` says what could not be written and why. `cancelled` are the cases, by id, that an interrupt
    kept from being judged; `lost` says what became of processes that ended before their work did.
    """

    cases: tuple[Case, ...]
    targets: tuple[str, ...]
    forwards: Forwards
    seconds: float
    findings: tuple[Finding, ...] = ()
    judged: tuple[Judged, ...] = ()  # one a target
    interrupted: bool = False
    threads: int = 1
    asked: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()
    unwritten: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """Cases by outcome."""
        counted = Counter(case.outcome for case in self.cases)
        return {outcome: counted[outcome] for outcome in Outcome}

    @property
    def passed(self) -> bool:
        """Whether the release may ship: something was judged on every target asked for, and nothing failed."""
        return self.exit is Exit.PASSED

    @property
    def exit(self) -> Exit:
        """The exit code every front end gives."""
        if self.interrupted:
            return Exit.INTERRUPTED
        if self.findings or self.counts[Outcome.FAILED] or self.candidates:
            return Exit.FAILED
        if self.unwritten:
            return Exit.USAGE
        ran = self.counts[Outcome.PASSED] + self.counts[Outcome.KNOWN]
        return Exit.PASSED if ran and not self.unjudged else Exit.NOTHING

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Return the targets asked for on which no case was judged."""
        judged = {case.target for case in self.cases if case.outcome is not Outcome.UNSUPPORTED}
        whole = {target.partition(":")[0] for target in judged}  # an engine's bare name
        return tuple(target for target in self.asked if target not in judged | whole)

    @property
    def replay_forwards(self) -> int:
        """Forwards made by replays."""
        return sum(case.replay_forwards for case in self.cases)
