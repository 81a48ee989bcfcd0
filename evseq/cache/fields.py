"""The registry of everything a cache belongs to. A new field is one row here, with its mutation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

__all__ = ["FIELDS", "FORMAT_VERSION", "Field", "Kind", "Part"]

FORMAT_VERSION = 1
"""The version of sealed files and of how identities spell their values.

That caches have BLAKE3 digests did not move it. Identities are spelled as before, so what was sealed under SHA-256 is
still admitted, and no byte of a golden may move; an evseq that does not know the word refuses it as an unknown field.
"""


class Part(StrEnum):
    """What a field speaks of."""

    MODEL = "model"
    REQUEST = "request"
    CACHE = "cache"


class Kind(StrEnum):
    """Why another value of a field is refused."""

    NUMERIC = "numeric"  # its damage is shown: a forced reuse gives wrong logits
    POLICY = "policy"  # control, refusal, and a reason in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One thing two identities must agree on.

    `unit` is the word for a place inside the value. Where `per_row`, the value is `[[row name, value], ...]`, rows in
    batch order, and the unit counts inside one row's value.
    """

    name: str
    part: Part
    kind: Kind
    reason: str = ""
    unit: str = "index"
    per_row: bool = False


_FIELDS = (
    Field(
        name="model.architecture",
        part=Part.MODEL,
        kind=Kind.POLICY,
        reason="another class gives the same tensor names another meaning; whether it runs the cache at all is chance",
    ),
    Field(name="model.config", part=Part.MODEL, kind=Kind.NUMERIC, unit="key"),
    Field(
        name="weights.source",
        part=Part.MODEL,
        kind=Kind.POLICY,
        reason="two sources may be equal once cast, and then no logit moves; goldens and revisions name the source",
        unit="tensor",
    ),
    Field(name="weights.live", part=Part.MODEL, kind=Kind.NUMERIC, unit="tensor"),
    Field(name="model.adapters", part=Part.MODEL, kind=Kind.NUMERIC),
    Field(
        name="tokenizer.vocabulary",
        part=Part.MODEL,
        kind=Kind.POLICY,
        reason="equal ids give equal logits; under another vocabulary they stand for another text",
        unit="key",
    ),
    Field(
        name="tokenizer.merges",
        part=Part.MODEL,
        kind=Kind.POLICY,
        reason="other merges cut the same text into other ids, so the cached ids are no longer what it would be fed as",
    ),
    Field(
        name="tokenizer.special",
        part=Part.MODEL,
        kind=Kind.POLICY,
        reason="other special tokens begin and end the same text differently; ids already cached cannot show it",
        unit="key",
    ),
    Field(
        name="tokenizer.normaliser",
        part=Part.MODEL,
        kind=Kind.POLICY,
        reason="another normaliser feeds another text for the same request; ids already cached cannot show it",
        unit="key",
    ),
    Field(
        name="tokenizer.template",
        part=Part.MODEL,
        kind=Kind.POLICY,
        reason="another chat template wraps the same talk differently; ids already cached cannot show it",
        unit="key",
    ),
    Field(name="numeric.dtype", part=Part.MODEL, kind=Kind.NUMERIC),
    Field(
        name="numeric.attention",
        part=Part.MODEL,
        kind=Kind.POLICY,
        reason="another kernel stays within its allowance, but a reload is promised bit for bit",
    ),
    Field(
        name="numeric.device",
        part=Part.MODEL,
        kind=Kind.POLICY,
        reason="another device stays within its allowance, but a reload is promised bit for bit",
    ),
    Field(
        name="numeric.library",
        part=Part.MODEL,
        kind=Kind.POLICY,
        reason="another version may keep other state under the same names, which shows only where it goes wrong",
        unit="key",
    ),
    Field(name="prefix.tokens", part=Part.REQUEST, kind=Kind.NUMERIC, per_row=True),
    Field(
        name="prefix.text",
        part=Part.REQUEST,
        kind=Kind.POLICY,
        reason="equal ids give equal logits whatever text they came from; the text is what the author asked for",
        unit="character",
        per_row=True,
    ),
    Field(name="prefix.mask", part=Part.REQUEST, kind=Kind.NUMERIC, unit="slot", per_row=True),
    Field(name="position.rule", part=Part.REQUEST, kind=Kind.NUMERIC),
    Field(name="position.ids", part=Part.REQUEST, kind=Kind.NUMERIC, per_row=True),
    Field(
        name="padding",
        part=Part.REQUEST,
        kind=Kind.POLICY,
        reason="the mask holds what a layout does to numbers; the word keeps a cache under the layout it is named by",
    ),
    Field(
        name="salt",
        part=Part.REQUEST,
        kind=Kind.POLICY,
        reason="a salt separates caches of equal content on purpose, so no number can show it",
    ),
    Field(
        name="cache.kind",
        part=Part.CACHE,
        kind=Kind.POLICY,
        reason="kinds hold the same numbers in other buffers; one restored as another goes on by luck if at all",
    ),
    Field(
        name="cache.shapes",
        part=Part.CACHE,
        kind=Kind.POLICY,
        reason="buffers of another shape do not go on bit for bit, and most do not fit at all",
        unit="layer",
    ),
    Field(name="cache.dtype", part=Part.CACHE, kind=Kind.NUMERIC),
    Field(name="cache.quantisation", part=Part.CACHE, kind=Kind.NUMERIC, unit="key"),
    Field(name="window.policy", part=Part.CACHE, kind=Kind.NUMERIC, unit="layer"),
    Field(name="cache.length", part=Part.CACHE, kind=Kind.NUMERIC, per_row=True),
    Field(name="cache.visible", part=Part.CACHE, kind=Kind.NUMERIC, unit="layer", per_row=True),
    Field(name="cache.eviction", part=Part.CACHE, kind=Kind.NUMERIC, unit="layer"),
    Field(
        name="format.version",
        part=Part.CACHE,
        kind=Kind.POLICY,
        reason="another version may spell the other fields differently, and comparing them would mean nothing",
    ),
)

FIELDS: Mapping[str, Field] = MappingProxyType({field.name: field for field in _FIELDS})
"""Every field by name, in the order in which differences are told."""
