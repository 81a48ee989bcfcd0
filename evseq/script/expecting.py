"""Expecting: what an event says must happen instead of the strongest default."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from evseq.script.kinds import GIVEN, Name, Number, Switch

__all__ = ["Expect", "Reused", "Written"]

KEYWORDS = {"from": "from_"}
"""Keys that Python has a use of its own for, by the attributes that hold them."""


class Written(BaseModel):
    """A mapping that an author writes: of the keys in `ways`, if there are any, exactly one."""

    # Built when one is first read: a script uses a few of the events, and all of them take longer than all else does.
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)

    ways: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        values = {way: getattr(self, KEYWORDS.get(way, way)) for way in self.ways}
        given = [way for way, value in values.items() if value is not None and value is not False]
        if self.ways and len(given) != 1:
            context = {"choices": ", ".join(self.ways), "given": " and ".join(given)}
            raise PydanticCustomError("one of", "say exactly one of {choices}", context)
        return self


class Reused(Written):
    """How many tokens of the request, over all rows, must come from the cache: one of the three."""

    ways = ("most", "least", "exactly")
    most: Annotated[Number | None, GIVEN] = None
    least: Annotated[Number | None, GIVEN] = None
    exactly: Annotated[Number | None, GIVEN] = None


class Expect(Written):
    """What must happen instead of, or besides, the strongest default: exactly one of these."""

    ways = ("refused", "reused", "malformed", "invalid", "loud")
    refused: Annotated[Name | None, GIVEN] = Field(
        default=None, description="the identity field that must be refused first"
    )
    reused: Annotated[Reused | None, GIVEN] = Field(
        default=None, description="tokens taken from the cache, over all rows"
    )
    malformed: Annotated[Name | None, GIVEN] = Field(
        default=None, description="the error that a damaged file must be told as, such as DigestMismatch"
    )
    invalid: Switch = Field(default=False, description="the static check must refuse this event before a model loads")
    loud: Switch = Field(default=False, description="right or an error, never silently wrong")

    WORDS: ClassVar[tuple[str, ...]] = ("invalid", "loud")  # the short form: `expect: loud`

    @model_validator(mode="before")
    @classmethod
    def _word(cls, value: Any) -> Any:
        return {value: True} if value in cls.WORDS else value
