"""Recording: what was observed in one case. It holds facts, never an opinion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from evseq.cache.identity import Difference
from evseq.engines.protocol import Probe
from evseq.geometry import Dtype
from evseq.script.request import State
from evseq.script.steps import Plan

__all__ = ["Altered", "Asked", "Damaged", "Drawn", "Failure", "Fed", "Forced", "Moved", "Probed", "Recording"]


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
    """What the engine's probe read after a step, and what the plan says it must read.

    `forwarded` token columns went through the embedding in a step that is to forward none.
    """

    step: int
    session: str
    rows: tuple[str, ...]
    group: int
    probe: Probe
    expected: State
    forwarded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How a request for reuse was answered, and who decided: no differences means admitted."""

    step: int
    session: str
    differences: tuple[Difference, ...]
    forwarded: int
    seconds: float
    by: str = "evseq's guard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """How many first columns of a request an engine's pool gave, and how many tokens of each row those are.

    `forwarded` token columns went through the embedding while it was asked.
    """

    step: int
    session: str
    columns: int
    tokens: tuple[int, ...]
    forwarded: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """A field that was changed while it lived, and the key inside its value, where the engine names one."""

    step: int
    field: str
    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """How a request for a copy of a file damaged at `place` was answered: the error's name and words, or admitted."""

    step: int
    session: str
    place: str
    error: str | None
    told: str
    forwarded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forced:
    """The probe column fed to a stale cache that was forced past its refusal: one row of logits per row.

    Where the engine itself was changed, `truth` is its own uncached forward of that column and `afresh` its cached one;
    elsewhere they are None, and truth is in the references. `raised` says why the cache could not even be forced.
    """

    step: int
    logits: Float[Tensor, "row vocab"] | None
    truth: Float[Tensor, "row vocab"] | None = None
    afresh: Float[Tensor, "row vocab"] | None = None
    raised: str | None = None


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
    whether it ever let its keys and values be looked at. Of a lossy cache kind `solo` has the logits of every forward
    by lineage, each row replayed alone; `alone` says why there are none.
    """

    plan: Plan
    fed: list[Fed] = field(default_factory=list)
    probed: list[Probed] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    drawn: list[Drawn] = field(default_factory=list)
    damaged: list[Damaged] = field(default_factory=list)
    altered: list[Altered] = field(default_factory=list)
    forced: list[Forced] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    skipped: int = 0  # steps on sessions that were no longer there
    peak_cache_bytes: int = 0
    seconds: float = 0.0
    repeats: bool = False
    shown: bool = False
    solo: Mapping[int, Float[Tensor, "observation vocab"]] = field(default_factory=dict)
    alone: str | None = None

    @property
    def dtype(self) -> Dtype:
        """The dtype that was asked for, whatever the engine made of it."""
        return self.plan.dtype
