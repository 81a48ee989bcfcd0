"""Recording: what was observed in one case. It holds facts, never an opinion."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from evseq.cache.identity import Difference
from evseq.engines.protocol import Probe
from evseq.geometry import Dtype
from evseq.script.steps import Plan, State

__all__ = ["Asked", "Failure", "Fed", "Forced", "Moved", "Probed", "Recording"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """One forward: the logits of its real tokens, in row order, and what they belong to.

    `forwarded` token columns went through the embedding meanwhile; `seconds` is the engine's own time.
    """

    step: int
    session: str
    event: int
    prefill: bool
    width: int
    rows: tuple[str, ...]  # of each observation
    indices: tuple[int, ...]
    nodes: tuple[int, ...]
    lineage: int
    logits: Float[Tensor, "observation vocab"]
    columns: int  # rows times columns, what a forward of this batch costs
    forwarded: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What the engine's probe read after a step, and what the plan says it must read."""

    step: int
    session: str
    rows: tuple[str, ...]
    group: int
    probe: Probe
    expected: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How a request for reuse was answered: no differences means admitted."""

    step: int
    session: str
    differences: tuple[Difference, ...]
    forwarded: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forced:
    """The probe column fed to a stale cache that was forced past its refusal: one row of logits per row."""

    step: int
    logits: Float[Tensor, "row vocab"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A cached token whose keys or values changed though nothing should have touched them."""

    step: int
    session: str
    layer: int
    row: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An operation that raised."""

    step: int
    session: str
    error: str


@dataclass(slots=True, kw_only=True)
class Recording:
    """Everything observed while one plan was played.

    `repeats` says whether the engine, asked twice, gave the same bits; False until that was measured. `shown` says
    whether it ever let its keys and values be looked at.
    """

    plan: Plan
    fed: list[Fed] = field(default_factory=list)
    probed: list[Probed] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    forced: list[Forced] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    skipped: int = 0  # steps on sessions that were no longer there
    peak_cache_bytes: int = 0
    seconds: float = 0.0
    repeats: bool = False
    shown: bool = False

    @property
    def dtype(self) -> Dtype:
        """The dtype that was asked for, whatever the engine made of it."""
        return self.plan.dtype
