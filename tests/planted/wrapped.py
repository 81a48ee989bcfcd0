"""An engine in the wrapping that faults use, without a fault: `planted.wrapped:healthy`."""

from __future__ import annotations

from typing import Any

from evseq.engines.registry import find
from evseq.faults.broken import BrokenSession
from evseq.faults.fault import Area, FaultyLoader, fault
from evseq.verdict.result import Check

NOTED: set[str] = set()
"""What sessions were asked for; a test empties it first."""


@fault(
    area=Area.ORDER,
    report="huggingface/transformers#25420",
    catches=("fork-chain", "append", Check.PARITY),
    shows={"reference:full": {}},
)
class Nothing(BrokenSession):
    """Nothing is wrong, and what is asked for is noted."""

    def __getattribute__(self, name: str) -> Any:
        NOTED.add(name)
        return super().__getattribute__(name)


def healthy() -> FaultyLoader:
    """Wrap the reference."""
    return FaultyLoader(inner=find("reference:full"), fault=Nothing)  # type: ignore[arg-type]  # a decorator made it
