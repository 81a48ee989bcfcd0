"""Terms: where a run looks for goldens, whether one must be there, and what it may write. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from evseq.golden.store import Store

__all__ = ["FormWord", "Limits", "Need", "Relation", "TargetTerms", "Terms"]


class Need(StrEnum):
    """Whether a target must have a golden of every script."""

    REQUIRED = "required"
    OPTIONAL = "optional"


class Relation(StrEnum):
    """How a revision came from its parent."""

    SAME = "same"  # exported again: no drift beyond allowance
    CONVERTED = "converted"  # as far off as rounding weights and activations to float32 explains
    APPROXIMATED = "approximated"  # quantised, pruned, in half precision: within limits that are written down


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an approximation may do, over all scripts: KL in nats at any history, next-token flips above a margin."""

    max_kl: float
    max_flips: int
    margin: float


class FormWord(StrEnum):
    """How much of each row of logits a new golden keeps; `auto` decides by the size of the vocabulary."""

    AUTO = "auto"
    FULL = "full"
    COMPACT = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTerms:
    """What `[tool.evseq.targets.NAME]` says of one target: `model` is NAME, the folder its goldens lie in."""

    model: str
    revision: str | None = None
    need: Need = Need.OPTIONAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a run treats goldens.

    `root` is the project's folder of them; without one there are only those that ship with evseq, which are looked into
    after it. Where there is a `store`, accepted goldens lie there, all else in `root`. `project` is the folder whose
    scripts they are of. `revision` is the label every opened model is held to.
    `update` writes candidates, `witness` what this machine's rounding is; neither ever changes a golden. `targets` goes
    by target text.
    """

    root: Path | None = None
    store: Store | None = None
    project: Path | None = None
    revision: str | None = None
    require: bool = False
    update: bool = False
    witness: bool = False
    form: FormWord = FormWord.AUTO
    targets: Mapping[str, TargetTerms] = field(default_factory=dict)

    @property
    def writes(self) -> bool:
        """Whether a run may write anything beside goldens."""
        return self.update or self.witness

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags that hold a run to the same goldens, those aside that are where they usually are."""
        usual = None if self.project is None else self.project / "goldens"
        where = self.root if self.store is None else self.store.url
        return (
            *(("--goldens", str(where)) if where not in (None, usual) else ()),
            *(("--revision", self.revision) if self.revision else ()),
            *(("--require-goldens",) if self.require else ()),
        )
