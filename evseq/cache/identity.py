"""What a cache belongs to: values by field, their digests, and where two identities first differ.

Nothing here needs torch: a plan, a report or a front end reads an identity without loading one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import Final

from evseq.cache.canonical import Scalar, canonical
from evseq.cache.fields import FIELDS, FORMAT_VERSION, Field, Kind, Part

__all__ = [
    "FIELDS",
    "FORMAT_VERSION",
    "NOTHING",
    "Difference",
    "Field",
    "Identity",
    "Kind",
    "Nothing",
    "Part",
    "chain",
    "compare",
]

SHOWN = 40
"""Most characters of a value in a message: a digest is told apart by far fewer, a long text has its index."""


class Nothing(Enum):
    """Stands where one side of a difference holds no value."""

    NOTHING = "nothing"

    def __repr__(self) -> str:
        return self.value


NOTHING: Final = Nothing.NOTHING


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Identity:
    """Values by field name. Two are one identity when their fingerprints are equal; 1, 1.0 and True are not."""

    values: Mapping[str, Scalar]

    def digests(self) -> dict[str, str]:
        """Return SHA-256 of each field's name and value, known fields first and in registry order."""
        return {name: _digest(name, self.values[name]) for name in _in_order(self.values)}

    def fingerprint(self) -> str:
        """Return SHA-256 over all field digests in that order, in hexadecimal."""
        return hashlib.sha256(canonical([[name, digest] for name, digest in self.digests().items()])).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field in which two identities differ, and the first place where.

    `row` is a row's name, or its number where the names themselves differ; `index` counts from 0 in the field's unit;
    `key` is a key or a tensor's name. A side on which the field, or only that place, does not exist holds NOTHING.
    """

    field: str
    row: str | int | None = None
    index: int | None = None
    key: str | None = None
    recorded: Scalar | Nothing
    now: Scalar | Nothing

    def __str__(self) -> str:
        known = FIELDS.get(self.field)
        if known is None:
            return f"{self.field}: unknown field"
        place = [] if self.row is None else [f"row {self.row!r}"]
        place += [] if self.index is None else [f"{known.unit} {self.index}"]
        place += [] if self.key is None else [f"{known.unit} {self.key!r}"]
        if not place and self.recorded is NOTHING:
            return f"{self.field}: missing in the file"
        if not place and self.now is NOTHING:
            return f"{self.field}: missing in the request"
        where = f"{self.field}: {' '.join(place)}" if place else self.field
        return f"{where}: recorded {_short(self.recorded)}, now {_short(self.now)}"


def compare(recorded: Identity, asked: Identity) -> tuple[Difference, ...]:
    """Return every field in which two identities differ, known fields first and in registry order.

    A field that either side lacks is a difference, and so is one that is not in the registry.
    """
    ours, theirs = recorded.digests(), asked.digests()
    differences = []
    for name in _in_order({*FIELDS, *ours, *theirs}):
        one, two = recorded.values.get(name, NOTHING), asked.values.get(name, NOTHING)
        if one is NOTHING or two is NOTHING or name not in FIELDS:
            differences.append(Difference(field=name, recorded=one, now=two))
        elif ours[name] != theirs[name]:
            differences.append(_located(FIELDS[name], one, two))
    return tuple(differences)


def chain(row: str, tokens: Sequence[Scalar]) -> tuple[str, ...]:
    """Return a row's running digests: element i vouches for the row's name and its first i tokens."""
    link = hashlib.sha256(canonical(row)).digest()
    links = [link.hex()]
    for token in tokens:
        link = hashlib.sha256(link + canonical(token)).digest()
        links.append(link.hex())
    return tuple(links)


def _in_order(names: Iterable[str]) -> list[str]:
    present = set(names)
    return [name for name in FIELDS if name in present] + sorted(present.difference(FIELDS))


def _digest(name: str, value: Scalar) -> str:
    digest = hashlib.sha256(canonical(name))
    rows = _rows(value) if name == "prefix.tokens" else None
    if rows is None:
        digest.update(canonical(value, place=name))
    else:
        # The word makes three values of two, so that no plain value has the digest of a chain.
        digest.update(canonical("chain"))
        digest.update(canonical([[row, chain(row, tokens)[-1]] for row, tokens in rows]))
    return digest.hexdigest()


def _rows(value: Scalar) -> list[tuple[str, list[Scalar]]] | None:
    """Return `[[row, [...]], ...]` as pairs, or None for a value of any other form."""
    rows: list[tuple[str, list[Scalar]]] = []
    for item in value if isinstance(value, list) else [None]:
        match item:
            case [str() as row, list() as inside]:
                rows.append((row, inside))
            case _:
                return None
    return rows


def _located(field: Field, recorded: Scalar, now: Scalar) -> Difference:
    """Return the first place inside two unequal values of `field`."""
    row: str | int | None = None
    one: Scalar | Nothing = recorded
    two: Scalar | Nothing = now
    if field.per_row and isinstance(recorded, list) and isinstance(now, list):
        row, one, two = _first_row(recorded, now)
    index, key = None, None
    match one, two:
        case (list(), list()):
            index, one, two = _first_item(one, two)
        case (str(), str()) if isinstance(row, str):  # the text of a row; any other text is a word, shown whole
            index, one, two = _first_item(one, two)
        case (dict(), dict()):
            key, one, two = _first_key(one, two)
        case _:  # a plain value has no places inside
            pass
    return Difference(field=field.name, row=row, index=index, key=key, recorded=one, now=two)


def _first_row(recorded: list[Scalar], now: list[Scalar]) -> tuple[str | int, Scalar | Nothing, Scalar | Nothing]:
    """Return the first row that differs, by name and with both values; by number where its name differs."""
    for number, (one, two) in enumerate(zip_longest(recorded, now, fillvalue=NOTHING)):
        if _same(one, two):
            continue
        match one, two:
            case [str() as row, inside], [str() as other, other_inside] if row == other:
                return row, inside, other_inside
            case _:
                return number, _row_name(one), _row_name(two)
    raise AssertionError("values of unequal digest are unequal somewhere")


def _row_name(item: Scalar | Nothing) -> Scalar | Nothing:
    match item:
        case [str() as row, _]:
            return row
        case _:
            return item


def _first_item(one: Sequence[Scalar], two: Sequence[Scalar]) -> tuple[int, Scalar | Nothing, Scalar | Nothing]:
    pairs = enumerate(zip_longest(one, two, fillvalue=NOTHING))
    return next((index, a, b) for index, (a, b) in pairs if not _same(a, b))


def _first_key(
    one: dict[str, Scalar], two: dict[str, Scalar], *, under: str = ""
) -> tuple[str, Scalar | Nothing, Scalar | Nothing]:
    """Return the first key, nested ones with dots between, whose values differ."""
    for key in sorted({*one, *two}):
        a, b = one.get(key, NOTHING), two.get(key, NOTHING)
        if isinstance(a, dict) and isinstance(b, dict) and not _same(a, b):
            return _first_key(a, b, under=f"{under}{key}.")
        if not _same(a, b):
            return under + key, a, b
    raise AssertionError("values of unequal digest are unequal somewhere")


def _same(one: Scalar | Nothing, two: Scalar | Nothing) -> bool:
    """Whether two values have the same canonical bytes; `==` would take True for 1."""
    if one is NOTHING or two is NOTHING:
        return one is two
    return canonical(one) == canonical(two)


def _short(value: Scalar | Nothing) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
