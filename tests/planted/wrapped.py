"""An engine in the wrapping that faults use, without a fault: `planted.wrapped:healthy`."""

from __future__ import annotations

from evseq.engines.registry import find
from evseq.faults.broken import BrokenSession
from evseq.faults.fault import Area, FaultyLoader, fault
from evseq.verdict.result import Check


@fault(
    area=Area.ORDER,
    report="huggingface/transformers#25420",
    catches=("fork-chain", "append", Check.PARITY),
    shows={"reference:full": {}},
)
class Nothing(BrokenSession):
    """Nothing is wrong."""


def healthy() -> FaultyLoader:
    """Wrap the reference."""
    return FaultyLoader(inner=find("reference:full"), fault=Nothing)  # type: ignore[arg-type]  # a decorator made it
