"""Tokenizer: one id for each character of a fixed alphabet (no torch)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALPHABET", "UNKNOWN", "Tokenizer"]

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 \n.,;:!?'\"()[]{}<>-+*/=_#@%"
"""Ids 0 to 62, in this order."""

UNKNOWN = "<unknown>"
"""The last id, 63, for every other character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """Lower-case a text and look up each character; nothing is added."""

    alphabet: str = ALPHABET

    @property
    def vocabulary(self) -> dict[str, int]:
        """The id of each piece."""
        return {piece: index for index, piece in enumerate([*self.alphabet, UNKNOWN])}

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Return one id per character of the lower-cased text."""
        ids = self.vocabulary
        return tuple(ids.get(character, ids[UNKNOWN]) for character in text.lower())
