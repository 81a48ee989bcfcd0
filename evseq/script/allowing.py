"""Allow: what a script tolerates, in writing. Every use is counted, and one that tolerates nothing is a failure."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from evseq.check import Check
from evseq.script.kinds import kind

__all__ = ["EXAMPLE", "SHARES", "Allow", "Allows", "listed"]

EXAMPLE = "allow: {check: parity, because: the kernel rounds to bfloat16, within: 40}"
"""How it is written."""

SHARES = (Check.PARITY, Check.SOLO, Check.ENVELOPE, Check.GOLDEN)
"""Checks that compare with an allowance; `within` is a number of allowances for them, of findings for all others."""

_Reason = Annotated[str, StringConstraints(strict=True, pattern=r"\S"), kind("reason")]
_Within = Annotated[
    Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | Annotated[float, Field(strict=True, gt=0, le=1_000_000)],
    kind("within"),
]


class Allow(BaseModel):
    """A finding that is tolerated, and why: every use is counted, and one that tolerates nothing is a failure.

    For `parity`, `solo`, `envelope` and `golden`, `within` is how many allowances a logit may be off by; for other
    checks, how many findings a case may have.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    check: Check = Field(description="the check whose findings are tolerated")
    because: _Reason = Field(description="the reason, in a sentence")
    within: _Within = Field(description="allowances, above 1, for checks that have them; findings for others")

    @model_validator(mode="after")
    def _weakens(self) -> Self:
        if self.check is Check.ARITHMETIC:
            raise PydanticCustomError("arithmetic", "belongs to no case")
        if self.check in SHARES and self.within <= 1:
            raise PydanticCustomError("no share", "not above 1")
        if self.check not in SHARES and not isinstance(self.within, int):
            raise PydanticCustomError("no count", "not an integer")
        return self


def _one_or_more(value: Any) -> str:
    return "list" if isinstance(value, list) else "one"


def _shortest(value: Allow | list[Allow]) -> Allow | list[Allow]:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


Allows = Annotated[
    Annotated[Allow, Tag("one")] | Annotated[list[Allow], Field(min_length=1), Tag("list")],
    Discriminator(_one_or_more),
    AfterValidator(_shortest),
]
"""One, or a list of them."""


def listed(allows: Allow | list[Allow] | None) -> tuple[tuple[tuple[int, ...], Allow], ...]:
    """Return every one of them with the rest of its path: nothing for one alone, its index in a list."""
    match allows:
        case None:
            return ()
        case Allow():
            return (((), allows),)
        case _:
            return tuple(((index,), allow) for index, allow in enumerate(allows))
