"""Who may reuse a cache: rules that leave out a part of the key, and rules that refuse what they should not."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evseq.cache.guard import Admitted, Refused, admit
from evseq.cache.identity import Difference, Identity
from evseq.cache.state import CacheState, Scalar
from evseq.faults.broken import BrokenEngine, BrokenSession
from evseq.faults.fault import ANY, Area, Side, fault
from evseq.history import Path
from evseq.verdict.result import Check

TOKENS = "prefix.tokens"

Verdict = Admitted | Refused


class Keyed(BrokenEngine, ABC):
    """A rule that compares only what `key` makes of a prefix, and everything else as evseq's guard does."""

    @abstractmethod
    def key(self, rows: Any) -> Any:
        """Return what is compared of the prefix tokens, which are `[[row, [token, ...]], ...]`."""

    def reuse(self, recorded: Identity, asked: Identity) -> Verdict:
        """Admit or refuse."""
        theirs, ours = recorded.values[TOKENS], asked.values[TOKENS]
        if self.key(theirs) == self.key(ours):
            recorded = Identity(values={**recorded.values, TOKENS: ours})
        return admit(recorded, asked)


@fault(
    area=Area.REUSE,
    report="LMCache/LMCache#690",
    catches=("refused-prefix-token", "reload", Check.REFUSAL),
    shows=ANY,
    side=Side.GUARD,
)
class GuardForgetsTokens(Keyed):
    """The prefix tokens are left out of the key."""

    def key(self, rows: Any) -> Any:
        del rows


@fault(
    area=Area.REUSE,
    report="vllm-project/vllm#44250",
    catches=("refused-prefix-token", "reload", Check.REFUSAL),
    shows={target: {"row": "b"} for target in ANY},
    side=Side.GUARD,
)
class GuardReadsFirstRow(Keyed):
    """Only the first row of a batch is compared."""

    def key(self, rows: Any) -> Any:
        return rows[0]


@fault(
    area=Area.REUSE,
    report="ROCm/ATOM#1358",
    catches=("refused-prefix-token", "reload", Check.REFUSAL),
    shows=ANY,
    side=Side.GUARD,
)
class GuardCountsTokens(Keyed):
    """Prefixes are compared by their length."""

    def key(self, rows: Any) -> Any:
        return [[row, len(tokens)] for row, tokens in rows]


@fault(
    area=Area.REUSE,
    report="vllm-project/vllm#34587",
    catches=("refused-prefix-token", "reload", Check.REFUSAL),
    shows={target: {"index": "length-1"} for target in ANY},
    side=Side.GUARD,
)
class GuardReadsWholeBlocks(Keyed):
    """Only whole blocks of four tokens are hashed; what is left over is not."""

    def key(self, rows: Any) -> Any:
        return [[row, tokens[: len(tokens) // 4 * 4]] for row, tokens in rows]


@fault(
    area=Area.REUSE,
    report="vllm-project/vllm#44701",
    catches=("refused-prefix-token", "reload", Check.REFUSAL),
    shows={target: {"index": "0"} for target in ANY},
    side=Side.GUARD,
)
class GuardSkipsFirstToken(Keyed):
    """The chain of digests begins behind the first token, which is taken for a marker."""

    def key(self, rows: Any) -> Any:
        return [[row, tokens[1:]] for row, tokens in rows]


@fault(
    area=Area.REUSE,
    report="LMCache/LMCache#4783",
    catches=("refused-prefix-token", "reload", Check.REFUSAL),
    shows=ANY,
    side=Side.GUARD,
)
class GuardHashesOneBit(Keyed):
    """The digest is cut short: prefixes of one parity are one key."""

    def key(self, rows: Any) -> Any:
        return [[row, sum(tokens) % 2] for row, tokens in rows]


@fault(
    area=Area.REUSE,
    report="ggml-org/llama.cpp#26676",
    catches=("reload-continues", "reload", Check.REFUSAL),
    shows=ANY,
    side=Side.GUARD,
)
class GuardRefusesAll(BrokenEngine):
    """Nothing is ever reused, which no logit shows."""

    def reuse(self, recorded: Identity, asked: Identity) -> Verdict:
        """Refuse, blaming the first token."""
        del recorded
        rows: Any = asked.values[TOKENS]
        name, tokens = rows[0]
        return Refused(differences=(Difference(field=TOKENS, row=name, index=0, recorded=-1, now=tokens[0]),))


@fault(
    area=Area.REUSE,
    report="NVIDIA-NeMo/RL#4018",
    catches=("reload-continues", "reload", Check.REFUSAL),
    shows=ANY,
    side=Side.GUARD,
)
class GuardRemembersVerdict(BrokenEngine):
    """A cache that was admitted once is admitted ever after, whatever changed since."""

    admitted: tuple[str, ...] = ()

    def reuse(self, recorded: Identity, asked: Identity) -> Verdict:
        """Admit what was admitted before; else do as evseq's guard."""
        verdict = Admitted() if recorded.fingerprint() in self.admitted else admit(recorded, asked)
        if isinstance(verdict, Admitted):
            self.admitted = (*self.admitted, recorded.fingerprint())
        return verdict


class Blaming(BrokenEngine, ABC):
    """A rule that refuses what evseq's guard does, and tells it otherwise."""

    @abstractmethod
    def blamed(self, first: Difference) -> tuple[Difference, ...]:
        """Return what is told for the first difference."""

    def reuse(self, recorded: Identity, asked: Identity) -> Verdict:
        """Admit or refuse."""
        verdict = admit(recorded, asked)
        return verdict if isinstance(verdict, Admitted) else Refused(differences=self.blamed(verdict.differences[0]))


@fault(
    area=Area.REUSE,
    report="vllm-project/vllm-omni#6739",
    catches=("refused-prefix-token", "reload", Check.REFUSAL),
    shows=ANY,
    side=Side.GUARD,
)
class GuardBlamesModel(Blaming):
    """Every refusal is told as another model."""

    def blamed(self, first: Difference) -> tuple[Difference, ...]:
        return (Difference(field="model.config", recorded=first.recorded, now=first.now),)


@fault(
    area=Area.REUSE,
    report="sgl-project/sglang#24638",
    catches=("refused-prefix-token", "reload", Check.REFUSAL),
    shows=ANY,
    side=Side.GUARD,
)
class GuardBlamesSaltToo(Blaming):
    """Two fields share one place in the key: where tokens differ, the salt is said to differ too."""

    def blamed(self, first: Difference) -> tuple[Difference, ...]:
        return (first, Difference(field="salt", recorded=first.recorded, now=first.now))


@fault(
    area=Area.REUSE,
    report="ggml-org/llama.cpp#26207",
    catches=("refused-prefix-token", "reload", Check.REFUSAL),
    shows=ANY,
    side=Side.GUARD,
)
class GuardNamesNextPlace(Blaming):
    """A refusal names the place behind the first difference, up to which reuse would be wrong."""

    def blamed(self, first: Difference) -> tuple[Difference, ...]:
        return (replace(first, index=None if first.index is None else first.index + 1),)


@fault(
    area=Area.REUSE,
    report="ROCm/ATOM#1358",
    catches=("refused-prefix-token", "reload", Check.REFUSAL),
    shows=ANY,
    side=Side.GUARD,
)
class GuardRunsFirst(BrokenEngine):
    """The prefix is run through the model before its reuse is refused."""

    def reuse(self, recorded: Identity, asked: Identity) -> Verdict:
        """Refuse as evseq's guard, too late."""
        verdict = admit(recorded, asked)
        if isinstance(verdict, Refused):
            self.inner.uncached(Path(tokens=(1, 2), positions=(0, 1)))
        return verdict


@fault(
    area=Area.REUSE,
    report="LMCache/LMCache#1139",
    catches=("reload-fresh-process", "reload", Check.REFUSAL),
    shows=ANY,
    side=Side.GUARD,
)
class DigestOfProcess(BrokenEngine):
    """The root of the key is another one in each process, so that no file of another is admitted."""

    def identity(self) -> Mapping[str, Scalar]:
        return {**self.inner.identity(), "numeric.library": {"root": os.getpid()}}


class Saving(BrokenSession):
    """Tells its engine that something was saved."""

    def export(self) -> CacheState:
        vars(self.engine)["saved"] = True
        return self.inner.export()


@fault(
    area=Area.REUSE,
    report="vllm-project/vllm#30931",
    catches=("reload-fresh-process", "reload", Check.REFUSAL),
    shows=ANY,
    side=Side.GUARD,
)
class FreshProcessAdmitsAll(BrokenEngine):
    """Keys are compared in a process that saved something itself; any other admits all."""

    session = Saving
    saved = False

    def reuse(self, recorded: Identity, asked: Identity) -> Verdict:
        """Admit or refuse."""
        return admit(recorded, asked) if self.saved else Admitted()


@fault(
    area=Area.REUSE,
    report="sgl-project/sglang#26939",
    catches=("reload-continues", "reload", Check.REFUSAL),
    shows=ANY,
    side=Side.GUARD,
)
class KeyGrowsWhenRead(BrokenEngine):
    """A list of the key is handed out itself, and who reads it adds to it."""

    reads = 0

    def identity(self) -> Mapping[str, Scalar]:
        self.reads += 1
        return {**self.inner.identity(), "model.adapters": [["base", "none", 1.0]] * self.reads}


@fault(
    area=Area.REUSE,
    report="vllm-project/vllm#9744",
    catches=("refused-weights", "reload", Check.REFUSAL),
    shows=ANY,
    side=Side.GUARD,
)
class IdentityReadOnce(BrokenEngine):
    """What the model is was read when it was loaded: weights, adapters and settings changed since are not noticed."""

    first: Mapping[str, Scalar] | None = None

    def identity(self) -> Mapping[str, Scalar]:
        self.first = self.first or dict(self.inner.identity())
        return self.first
