"""Kinds: the types of what stands behind keys, each with the kind of error it reports.

An error carries the kind, and `wording.py` has a saying for it; the text inside is never shown.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

__all__ = [
    "GIVEN",
    "NAME",
    "WORD",
    "Count",
    "Name",
    "Names",
    "Number",
    "PerRow",
    "RowsFed",
    "Switch",
    "Token",
    "Tokens",
    "kind",
]

NAME = r"^[A-Za-z_][A-Za-z0-9_.-]*$"
WORD = r"^(?:[1-9][0-9]*\*)?[A-Za-z_][A-Za-z0-9_]*(?:[+-][0-9]+)?$"


def kind(name: str) -> WrapValidator:
    """Report any error of a type as one error of that kind, whichever branch of the type it came from."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError(name, "not what it should be") from None

    return WrapValidator(validate)


def _given(value: Any) -> Any:
    if value is None:
        raise PydanticCustomError("nothing", "a key without a value")
    return value


GIVEN = BeforeValidator(_given)
"""None means that a key is left out; nobody writes it."""


def _rows_or_number(value: Any) -> str:
    return "per row" if isinstance(value, dict) else "all"


def _rows_or_list(value: Any) -> str:
    return "list" if isinstance(value, list) else "per row"


Name = Annotated[str, StringConstraints(strict=True, pattern=NAME, max_length=64), kind("name")]
Number = Annotated[
    Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
    | Annotated[str, StringConstraints(strict=True, pattern=WORD, max_length=64)],
    kind("number"),
]
"""An integer, an arm, or `[k*]name[+n|-n]` with name in window, chunk, capacity, length, block."""
PerRow = Annotated[dict[Name, Number], Field(min_length=1)]
Count = Annotated[
    Annotated[Number, Tag("all")] | Annotated[PerRow, Tag("per row")],
    Discriminator(_rows_or_number),
]
"""One number for all rows concerned, or one per row."""
Names = Annotated[list[Name], Field(min_length=1)]
RowsFed = Annotated[
    Annotated[Names, Tag("list")] | Annotated[PerRow, Tag("per row")],
    Discriminator(_rows_or_list),
]
"""Whole rows, or how many tokens of each."""
Token = Annotated[int, Field(strict=True, ge=0), kind("token")]
Tokens = Annotated[list[Token], Field(min_length=1)]
Switch = Annotated[bool, Field(strict=True), kind("switch")]
