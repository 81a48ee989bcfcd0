"""Tokenizer: one id for each character of a fixed alphabet (no torch)."""

from __future__ import annotations

from dataclasses import dataclass

from evseq.cache.canonical import Scalar

__all__ = ["ALPHABET", "UNKNOWN", "Tokenizer"]

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 \n.,;:!?'\"()[]{}<>-+*/=_#@%"
"""Ids 0 to 62, in this order."""

UNKNOWN = "<unknown>"
"""The last id, 63, for every other character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """Lower-case a text and look up each character; as shipped, nothing is merged or added.

    `merges` are pieces, longest first, with the character each becomes; `begin` stands before every text; `template`
    is how a talk would be written out.
    """

    alphabet: str = ALPHABET
    lower: bool = True
    merges: tuple[tuple[str, str], ...] = ()
    begin: str = ""
    template: str | None = None

    @property
    def vocabulary(self) -> dict[str, int]:
        """The id of each piece."""
        return {piece: index for index, piece in enumerate([*self.alphabet, UNKNOWN])}

    def fields(self) -> dict[str, Scalar]:
        """Return the identity fields of the tokenizer as it is now."""
        return {
            "tokenizer.vocabulary": dict(self.vocabulary),
            "tokenizer.merges": [list(merge) for merge in self.merges],
            "tokenizer.special": {"unknown": UNKNOWN, **({"begin": self.begin} if self.begin else {})},
            "tokenizer.normaliser": {"case": "lower" if self.lower else "kept"},
            "tokenizer.template": self.template,
        }

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Return one id per character of the lower-cased text."""
        ids = self.vocabulary
        normal = text.lower() if self.lower else text
        for piece, character in self.merges:
            normal = normal.replace(piece, character)
        return tuple(ids.get(character, ids[UNKNOWN]) for character in self.begin + normal)
