"""Fault: a broken engine with the public report it is drawn from, and the check that must catch it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from evseq.engines.protocol import Engine, Loader
from evseq.errors import TargetError
from evseq.faults.broken import BrokenEngine, BrokenSession
from evseq.geometry import Description, Dtype
from evseq.verdict.result import Check

__all__ = [
    "ALIBI",
    "ANY",
    "AT_ONCE",
    "FALCON_H1",
    "FULL",
    "GPT2",
    "LEARNED",
    "LEFT",
    "LFM2",
    "LLAMA",
    "MISTRAL",
    "RIGHT",
    "SLIDING",
    "WINDOW",
    "Area",
    "Catch",
    "Fault",
    "FaultyLoader",
    "Need",
    "Side",
    "fault",
]

FULL = "reference:full"
WINDOW = "reference:window"
LEARNED = "reference:learned"
ALIBI = "reference:alibi"
LLAMA = "transformers:new/llama"
MISTRAL = "transformers:new/mistral"
GPT2 = "transformers:new/gpt2"
LFM2 = "transformers:new/lfm2"
FALCON_H1 = "transformers:new/falcon_h1"
"""Targets on which faults show."""

ANY: Mapping[str, Mapping[str, str]] = {FULL: {}, LLAMA: {}}
LEFT: Mapping[str, Mapping[str, str]] = {FULL: {"padding": "left"}, LLAMA: {"padding": "left"}}
RIGHT: Mapping[str, Mapping[str, str]] = {FULL: {"padding": "right"}, LLAMA: {"padding": "right"}}
SLIDING: Mapping[str, Mapping[str, str]] = {WINDOW: {}, MISTRAL: {}}
AT_ONCE: Mapping[str, Mapping[str, str]] = {FULL: {"cache": "fixed"}, LLAMA: {"cache": "static"}}
"""Where a fault shows, with the arms it needs there."""

Need = Callable[[Loader], str | None]
"""Looks at a target; returns why a fault cannot be planted there, or None."""


class Area(StrEnum):
    """Where bugs of caches were reported, in the words of the catalogue."""

    POSITIONS = "position ids"
    MASK = "padding mask"
    WINDOW = "sliding window eviction"
    BEAM = "beam reorder"
    CROP = "crop/rollback/speculative"
    FORK = "fork/aliasing/isolation"
    REUSE = "prefix reuse key missing"
    SERIALIZE = "serialize/restore"
    DTYPE = "dtype/quantized cache"
    ROPE = "rope scaling/dynamic"
    CHUNK = "chunked prefill"
    STATIC = "static/preallocated cache"
    HYBRID = "hybrid/mamba state"
    MULTIMODAL = "multimodal"
    MEMORY = "memory leak/accounting"
    ROW = "batch-size/row specific"
    ORDER = "nondeterminism/false alarm"


class Side(StrEnum):
    """What a fault breaks."""

    CACHED = "cached"
    UNCACHED = "uncached"  # the reference itself
    BOTH = "both"  # parity is silent, only a golden sees it
    GUARD = "guard"  # who may reuse a cache
    REUSE = "reuse"  # whether an admitted cache is used
    ACCOUNTING = "accounting"  # every logit is right, a count is not


@dataclass(frozen=True, slots=True, kw_only=True)
class Catch:
    """The finding that must lead in the deciding arm: its script of the suite, the word of its event, its check."""

    script: str
    event: str
    check: Check


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One broken engine, planted by `TARGET+NAME`.

    `report` is the public report it is drawn from, as OWNER/REPOSITORY#NUMBER. `shows` has targets on which it shows,
    each with the arms it needs there, the first one quickest. `needs` says where it can be planted.
    """

    name: str
    area: Area
    report: str
    about: str
    catches: Catch
    shows: Mapping[str, Mapping[str, str]]
    needs: tuple[Need, ...]
    side: Side
    broken: type[BrokenEngine | BrokenSession]

    @property
    def url(self) -> str:
        """The report's address; a pull request's is forwarded from it."""
        repository, _, number = self.report.partition("#")
        return f"https://github.com/{repository}/issues/{number}"

    def plant(self, loader: Loader, *, target: str) -> FaultyLoader:
        """Return a loader of broken engines. Raise `TargetError` where this fault could not show."""
        for need in self.needs:
            reason = need(loader)
            if reason is not None:
                raise TargetError(
                    f"{target}: fault {self.name!r} cannot be planted: {reason}\n"
                    f"  help: plant it in {' or '.join(self.shows)}"
                )
        return FaultyLoader(inner=loader, fault=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyLoader:
    """A loader whose engines have one fault. A fault does not announce itself: the description stays."""

    inner: Loader
    fault: Fault

    def describe(self) -> Description:
        """Describe the healthy engine."""
        return self.inner.describe()

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Tokenize as the healthy engine."""
        return self.inner.tokenize(text)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> Engine:
        """Load the healthy engine and break it."""
        engine, broken = self.inner.load(dtype, options), self.fault.broken
        return broken(engine) if issubclass(broken, BrokenEngine) else BrokenEngine(engine, session=broken)


def fault(
    *,
    area: Area,
    report: str,
    catches: tuple[str, str, Check],
    shows: Mapping[str, Mapping[str, str]],
    needs: tuple[Need, ...] = (),
    side: Side = Side.CACHED,
) -> Callable[[type[BrokenEngine | BrokenSession]], Fault]:
    """Make a fault of a broken class: it goes by the class's name, and its docstring says what is wrong."""
    script, event, check = catches

    def made(broken: type[BrokenEngine | BrokenSession]) -> Fault:
        return Fault(
            name=re.sub(r"(?<!^)(?=[A-Z])", "-", broken.__name__).lower(),
            area=area,
            report=report,
            about=" ".join(inspect.cleandoc(str(broken.__doc__)).split()),
            catches=Catch(script=script, event=event, check=check),
            shows=MappingProxyType({target: MappingProxyType(dict(arms)) for target, arms in shows.items()}),
            needs=needs,
            side=side,
            broken=broken,
        )

    return made
