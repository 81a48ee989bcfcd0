"""The events of script language version 1, one class each.

The field types are what an author may write; `document.py` parses, `plan.py` gives every number word its value.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from evseq.cache.regions import Region
from evseq.script.allowing import Allows
from evseq.script.expecting import Expect, Reused, Written
from evseq.script.kinds import GIVEN, NAME, WORD, Count, Name, Names, Number, RowsFed, Switch, Token, Tokens

__all__ = [
    "EVENTS",
    "LAST",
    "MAIN",
    "NAME",
    "WORD",
    "Append",
    "BeamSelect",
    "Crop",
    "Drop",
    "Event",
    "Expect",
    "Fork",
    "Join",
    "Keep",
    "Mutate",
    "MutatePrefixToken",
    "Name",
    "Number",
    "Prefill",
    "Probe",
    "Process",
    "Reload",
    "Repeat",
    "Restore",
    "Retire",
    "Reuse",
    "Reused",
    "Serialize",
    "Speculate",
    "Token",
]

_EVENTS: dict[str, Any] = {"type": "array", "items": {"const": "event"}, "minItems": 1}
"""Events inside an event; the editor schema says what one is."""

LAST = ("expect", "allow")
"""Keys that all events have; they are told last, in this order."""

MAIN = "main"
"""The session an event opens or names when it does not say."""


class Process(StrEnum):
    """Where a sealed cache is reloaded."""

    HERE = "here"
    FRESH = "fresh"


class Keep(StrEnum):
    """What `drop` leaves standing."""

    BUFFERS = "buffers"
    POOL = "pool"


class _Event(Written):
    word: ClassVar[str]
    example: ClassVar[str]
    expect: Annotated[Expect | None, GIVEN] = Field(
        default=None, description="weaker or other than the default: everything is right"
    )
    allow: Annotated[Allows | None, GIVEN] = Field(default=None, description="findings tolerated here, and why")


class Prefill(_Event):
    """Open a session and feed rows; arms decide padding, chunking and cache kind.

    `prefill: [a, b]` feeds whole rows; `prefill: {rows: {a: 7, b: 3}}` the first 7 and 3 tokens.
    """

    word = "prefill"
    example = "prefill: {rows: {a: 7, b: 3}}"
    rows: RowsFed = Field(description="whole rows, or how many of its first tokens each row feeds")
    salt: Annotated[Name | None, GIVEN] = Field(
        default=None, description="a word that separates caches of equal content"
    )
    as_: Name = Field(default=MAIN, alias="as", description="the session's name")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"rows": value} if isinstance(value, list) else value


class Append(_Event):
    """Feed tokens onto a filled cache: the rows' next ones, given ids, or greedy ones; one forward each."""

    word = "append"
    example = "append: {next: 2}"
    ways = ("next", "ids", "greedy")
    next: Annotated[Number | None, GIVEN] = Field(default=None, description="how many tokens of each row's own text")
    ids: Annotated[Annotated[dict[Name, Tokens], Field(min_length=1)] | None, GIVEN] = Field(
        default=None, description="token ids per row"
    )
    greedy: Annotated[Number | None, GIVEN] = Field(
        default=None, description="how many tokens chosen by the deciding dtype"
    )
    rows: Annotated[Names | None, GIVEN] = Field(default=None, description="only these rows")
    on: Name = Field(default=MAIN, description="the session")
    together: Switch = Field(default=False, description="feed them in one forward")


class BeamSelect(_Event):
    """Replace the rows by beams: each new name with its parent; the batch may grow or shrink.

    `beam-select: {x: a, y: a}`, or `beam-select: {rows: {x: a, y: a}, on: other}`.
    """

    word = "beam-select"
    example = "beam-select: {x: a, y: a}"
    rows: Annotated[dict[Name, Name], Field(min_length=1)] = Field(description="each new name with its parent")
    on: Name = Field(default=MAIN, description="the session")

    RESERVED: ClassVar[frozenset[str]] = frozenset({"rows", "on", "expect", "allow"})  # no beams in the short form

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if not isinstance(value, dict) or isinstance(value.get("rows"), dict):
            return value
        if cls.RESERVED & value.keys():
            raise PydanticCustomError("mixed", "beams and options are mixed")
        return {"rows": value}


class Crop(_Event):
    """Roll rows back `by` so many tokens, or `to` so many, all rows or only those named."""

    word = "crop"
    example = "crop: {row: b, by: 5}"
    ways = ("by", "to")
    row: Annotated[Name | None, GIVEN] = Field(default=None, description="only this row")
    by: Annotated[Count | None, GIVEN] = Field(default=None, description="tokens dropped")
    to: Annotated[Count | None, GIVEN] = Field(default=None, description="tokens kept")
    on: Name = Field(default=MAIN, description="the session")

    @model_validator(mode="after")
    def _rows_once(self) -> Self:
        if self.row is not None and (isinstance(self.by, dict) or isinstance(self.to, dict)):
            raise PydanticCustomError("rows twice", "rows are named twice")
        return self


class Speculate(_Event):
    """Feed a draft in one forward, the rows' own next tokens or ids; keep the first `accept`, roll back the rest.

    All or none may be accepted. The next tokens of a row's own text are those behind the accepted ones.
    """

    word = "speculate"
    example = "speculate: {next: 3, accept: 1}"
    ways = ("next", "ids")
    next: Annotated[Number | None, GIVEN] = Field(default=None, description="how many tokens of each row's own text")
    ids: Annotated[Annotated[dict[Name, Tokens], Field(min_length=1)] | None, GIVEN] = Field(
        default=None, description="token ids per row"
    )
    accept: Count = Field(description="how many tokens of its draft each row keeps; `length` is the draft's")
    on: Name = Field(default=MAIN, description="the session")


class Retire(_Event):
    """Let rows leave a running batch; the others go on untouched. A name is not used again in that session."""

    word = "retire"
    example = "retire: {rows: [b]}"
    rows: Names = Field(description="the rows that leave; one at least stays")
    on: Name = Field(default=MAIN, description="the session")


class Join(_Event):
    """Let new rows enter a running batch: they are prefilled by themselves, then the two are one.

    Whichever side is narrower gets masked slots in front.
    """

    word = "join"
    example = "join: {rows: {b: 3}}"
    rows: RowsFed = Field(description="whole rows, or how many of its first tokens each row feeds")
    on: Name = Field(default=MAIN, description="the session")


class Fork(_Event):
    """Open a second session with the contents of this one and nothing shared."""

    word = "fork"
    example = "fork: {as: other}"
    as_: Name = Field(alias="as", description="the new session's name")
    on: Name = Field(default=MAIN, description="the session")


class Serialize(_Event):
    """Write the session's cache to a sealed file."""

    word = "serialize"
    example = "serialize: {to: mid}"
    to: Name = Field(description="the name a reload asks for")
    on: Name = Field(default=MAIN, description="the session")


class Reload(_Event):
    """Ask for a sealed cache with the request as it stood at `serialize`; open a session from it if admitted.

    With `damage`, copies of the file are asked for, each damaged in another place of that region; none may be admitted.
    With `forged`, a copy is asked for that is sound and says another value of one identity field.
    """

    word = "reload"
    example = "reload: {from: mid, as: again}"
    from_: Name = Field(alias="from", description="the name given at serialize")
    as_: Name = Field(default=MAIN, alias="as", description="the session's name")
    process: Process = Field(default=Process.HERE, description="fresh: a process that never saw the session")
    damage: Annotated[Region | None, GIVEN] = Field(default=None, description="the region of the file to damage")
    forged: Annotated[Name | None, GIVEN] = Field(
        default=None, description="the identity field of which the file says another value"
    )


class MutatePrefixToken(_Event):
    """Change one token of the request that will next ask for reuse."""

    word = "mutate-prefix-token"
    example = "mutate-prefix-token: {row: a, index: 2, token: 24}"
    row: Name = Field(description="the row")
    index: Number = Field(description="counts the row's own tokens from 0; pads and holes never count")
    token: Number = Field(description="the new token id; it must differ from the present one")


class Mutate(_Event):
    """Change an identity field for real: of the request that next asks for reuse, or of what is alive until `restore`.

    Every field of the registry but those that only a file can say otherwise, and prefix.tokens, which has its own word.
    What else is to be said depends on the field.
    """

    word = "mutate"
    example = "mutate: {field: position.ids, row: a, index: 2, by: 3}"
    field: Name = Field(description="the identity field")
    row: Annotated[Name | None, GIVEN] = Field(default=None, description="the row, where each has a value")
    index: Annotated[Number | None, GIVEN] = Field(default=None, description="the row's own token, counted from 0")
    by: Annotated[Number | None, GIVEN] = Field(default=None, description="how much further, or how much more room")
    text: Annotated[str | None, GIVEN] = Field(default=None, description="the row's new text")
    to: Annotated[Name | None, GIVEN] = Field(default=None, description="the new value, where it is a word")
    on: Name = Field(default=MAIN, description="the session, where what it holds is changed")


class Restore(_Event):
    """Put back what `mutate` changed and what no request forgets: of the engine, or of a session."""

    word = "restore"
    example = "restore: {field: weights.live}"
    field: Name = Field(description="the identity field")


class Reuse(_Event):
    """Ask for reuse of a live session's cache, or of the engine's pool; what is not reused is forwarded, and counted.

    Without `rows` the request is what the session holds; a pool is always asked with `rows`. An engine with a rule of
    its own may reuse less, never more. A pool serves whole blocks, and never the last token, which has yet to answer.
    """

    word = "reuse"
    example = "reuse: {from: main, as: again}"
    ways = ("from", "pool")
    from_: Annotated[Name | None, GIVEN] = Field(default=None, alias="from", description="the live session")
    pool: Switch = Field(default=False, description="of what sessions held that were dropped with `keep: pool`")
    as_: Name = Field(alias="as", description="the new session's name")
    rows: Annotated[RowsFed | None, GIVEN] = Field(
        default=None, description="the request: whole rows, or how many of its first tokens each row feeds"
    )
    salt: Annotated[Name | None, GIVEN] = Field(default=None, description="the salt of what is asked of a pool")


class Probe(_Event):
    """Read lengths, positions, visible counts and bytes without a forward, and compare them with the plan."""

    word = "probe"
    example = "probe: {on: other}"
    on: Name = Field(default=MAIN, description="the session")


class Drop(_Event):
    """Free a session.

    With `keep: buffers` forget its rows and leave its buffers for the next prefill of that name; with `keep: pool`
    leave what it holds to the engine's pool, for `reuse: {pool: true, ...}`.
    """

    word = "drop"
    example = "drop: {on: other}"
    on: Name = Field(default=MAIN, description="the session")
    keep: Annotated[Keep | None, GIVEN] = Field(default=None, description="what is not freed")


class Repeat(Written):
    """Do events over and over, written once; names they open must be dropped, or the second round opens them again.

    Its events expect, it does not. A repeat may stand inside another.
    """

    word: ClassVar[str] = "repeat"
    example: ClassVar[str] = "repeat: {times: 3, events: [{append: {next: 1}}, probe]}"
    expect: ClassVar[None] = None
    allow: ClassVar[None] = None
    times: Number = Field(description="how many rounds")
    events: Annotated[list[Event], WithJsonSchema(_EVENTS)] = Field(
        description="what is done in each round, written like the events of the script"
    )


Event = (
    Prefill
    | Append
    | BeamSelect
    | Crop
    | Speculate
    | Retire
    | Join
    | Fork
    | Serialize
    | Reload
    | MutatePrefixToken
    | Mutate
    | Restore
    | Reuse
    | Probe
    | Drop
    | Repeat
)
EVENTS: dict[str, type[Event]] = {event.word: event for event in get_args(Event)}
