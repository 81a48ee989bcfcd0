"""The second law: a cache belongs to one identity, and nothing of it is reused by another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evseq.cache.identity import Difference, Identity, compare

__all__ = ["Admitted", "Refused", "admit"]

SHOWN = 5
"""Most differences written out. Another model differs in a dozen fields, and the first ones say so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The cache belongs to the identity that asks: all of it, or by row the first `tokens` of a longer one."""

    tokens: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The cache belongs to another identity. The first difference leads; there is at least one."""

    differences: tuple[Difference, ...]

    def __post_init__(self) -> None:
        if not self.differences:
            raise ValueError("a refusal names at least one difference")

    def __str__(self) -> str:
        lines = [str(difference) for difference in self.differences[:SHOWN]]
        more = len(self.differences) - SHOWN
        if more > 0:
            lines.append(f"and {more} more")
        return "\n".join(lines)


def admit(recorded: Identity, asked: Identity) -> Admitted | Refused:
    """Admit the cache of `recorded` to `asked` if they are one identity; otherwise name every field that differs."""
    differences = compare(recorded, asked)
    return Refused(differences=differences) if differences else Admitted()
