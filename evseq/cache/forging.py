"""Forging: a sealed file that says something else in one field, and is sound in every other way.

Fields that nothing alive has another value of, such as the version of a library, have no other case; for all others it
shows that the guard looks at each alone.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from evseq.cache.canonical import Scalar
from evseq.cache.identity import Identity
from evseq.cache.sealed import SealedKind, open_sealed, seal

__all__ = ["another", "forge", "without"]


def forge(path: str | PathLike[str], *, to: Path, field: str) -> None:
    """Write the cache file `path` again under another value of one field, which may be one that nobody knows."""
    _written(path, to, lambda values: {**values, field: another(values.get(field))})


def without(path: str | PathLike[str], *, to: Path, field: str) -> None:
    """Write the cache file `path` again without one field."""
    _written(path, to, lambda values: {name: value for name, value in values.items() if name != field})


def another(value: Scalar) -> Scalar:
    """Return a value of the same form that differs in one place, deep inside where there is an inside."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}?"
        case [*first, last]:
            return [*first, another(last)]
        case dict() if value:
            name = min(value)
            return {**value, name: another(value[name])}
        case []:
            return [0]
        case dict():
            return {"other": 0}
        case _:
            return "something"


def _written(path: str | PathLike[str], to: Path, change: Callable[[dict[str, Scalar]], dict[str, Scalar]]) -> None:
    sealed = open_sealed(path, kind=SealedKind.CACHE)
    identity = Identity(values=change(dict(sealed.identity.values)))
    seal(to, kind=SealedKind.CACHE, identity=identity, tensors=sealed.tensors, scalars=sealed.scalars)
