"""Witness: how far machines of one kind round from truth, by history. It is told of a run and never fails one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evseq.cache.canonical import Scalar
from evseq.cache.damage import Damage, FieldDamaged, LeadsOut, NotThere, NotWritable
from evseq.cache.opening import plain_json
from evseq.cache.replacing import replacing
from evseq.golden.lock import locked
from evseq.golden.root import label_of

__all__ = ["NUMERIC", "Errors", "Witness", "name_of", "read", "rounded", "update"]

NUMERIC = ("numeric.device", "numeric.dtype", "numeric.attention", "numeric.library")
"""What a witness is about, in the order of its name. Not the processor: one that rounds otherwise shows as drift."""

MAX_BYTES = 16 << 20
"""Most bytes of a witness; that of the shipped suite takes a fortieth of one of them."""

DIGITS = 3
"""Significant digits of a figure in a file: enough to see it move, and the file stays small."""

Error = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Errors(_Part):
    """Largest distances from truth in logits, by row of a golden; None where none was observed in this dtype.

    `histories` is the digest of the golden's histories, whose order the rows have.
    """

    histories: str
    uncached: tuple[Error | None, ...]
    cached: tuple[Error | None, ...]

    @model_validator(mode="after")
    def _even(self) -> Self:
        if len(self.uncached) != len(self.cached):
            raise ValueError(f"{len(self.uncached)} uncached errors for {len(self.cached)} cached ones")
        return self

    def over(self, before: Errors | None) -> Errors:
        """Return these errors, and those of `before` where nothing was observed now."""
        if before is None or not self.alike(before):
            return self
        return Errors(
            histories=self.histories,
            uncached=tuple(map(_first, self.uncached, before.uncached)),
            cached=tuple(map(_first, self.cached, before.cached)),
        )

    def alike(self, other: Errors) -> bool:
        """Return whether both are about the same rows."""
        return self.histories == other.histories and len(self.cached) == len(other.cached)

    def drift(self, then: Errors, allowed: Sequence[float]) -> float | None:
        """Return the largest change of an error as a share of what its row is allowed; None where no row has both."""
        shares = [
            abs(error - before) / max(limit, 1e-300)
            for now, recorded in ((self.uncached, then.uncached), (self.cached, then.cached))
            for error, before, limit in zip(now, recorded, allowed, strict=True)
            if error is not None and before is not None
        ]
        return max(shares, default=None)


class Witness(_Part):
    """One file: the errors of every script of one revision in one dtype on one kind of machine."""

    version: Literal[1] = 1
    numeric: dict[str, Any]
    scripts: dict[str, Errors] = {}


def rounded(number: float) -> float:
    """Return a figure as a witness and a ledger keep it."""
    return float(f"{number:.{DIGITS}g}")


def name_of(numeric: Mapping[str, Scalar]) -> str:
    """Return the file name of a witness: no host, no processor, no path."""
    words = []
    for name in NUMERIC:
        match value := numeric.get(name):
            case dict():
                words += [f"{library}-{version}" for library, version in sorted(value.items())]
            case _:
                words.append(str(value))
    return f"{label_of('-'.join(words))}.json"


def read(path: Path) -> Witness | None:
    """Return what a file says, None where there is none. Raises CacheError where it is damaged."""
    if path.is_symlink():
        raise LeadsOut(path, f"a link to {path.resolve()}")
    try:
        witness = Witness.model_validate_json(plain_json(path, most=MAX_BYTES))
    except NotThere:
        return None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise FieldDamaged(path, f"not what a witness says: {where}{': ' if where else ''}{first['msg']}") from None
    if name_of(witness.numeric) != path.name:
        raise FieldDamaged(path, f"it is about {name_of(witness.numeric)}")
    return witness


def update(path: Path, script: str, errors: Errors, *, numeric: Mapping[str, Scalar]) -> None:
    """Write down the errors of one script, beside those of others; a damaged file is written anew.

    Any number of writers may share a file. Raises CacheError where it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NotWritable(path.parent, f"cannot be written: {error.strerror or error}") from None
    with locked(path.parent):
        try:
            held = read(path)
        except Damage:
            held = None
        scripts = dict(held.scripts) if held is not None else {}
        scripts[script] = errors.over(scripts.get(script))
        with replacing(path) as file:
            file.write(_text(Witness(numeric=dict(numeric), scripts=scripts)).encode())


def _first(now: float | None, before: float | None) -> float | None:
    return before if now is None else now


def _text(witness: Witness) -> str:
    """Return the file: a line a script, so that a change shows which."""
    scripts = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(errors.model_dump(), separators=(',', ':'))}"
        for name, errors in sorted(witness.scripts.items())
    )
    numeric = json.dumps(witness.numeric, sort_keys=True)
    return f'{{\n "version": {witness.version},\n "numeric": {numeric},\n "scripts": {{\n{scripts}\n }}\n}}\n'
