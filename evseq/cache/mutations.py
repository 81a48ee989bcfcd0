"""How each field is changed for real: one row a field, so that none is without a case. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

__all__ = ["MUTATIONS", "Mutation", "Reach"]


class Reach(StrEnum):
    """What a mutation takes hold of, and so how long it lasts."""

    REQUEST = "request"  # what is asked for, the next time reuse is asked for
    ENGINE = "engine"  # the engine itself, until it is restored
    SESSION = "session"  # what a session holds, until it is restored
    RECORD = "record"  # nothing alive: only a file of another installation or version says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """The change of one field.

    `operands` must be said beside the field, `optional` ones may. Fields in `also` may follow from the change, and are
    then refused with it. `mirrored`: the damage shows the other way round, a cache of the changed engine in the healthy
    one; a cache of more digits in an engine of fewer is as good as its own.
    """

    field: str
    reach: Reach
    how: str
    operands: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    mirrored: bool = False


_SIZES = ("cache.shapes", "cache.visible", "cache.eviction")
"""What follows from how much a cache holds."""

_MUTATIONS = (
    Mutation(field="model.architecture", reach=Reach.ENGINE, how="the decoder becomes one of another class"),
    Mutation(field="model.config", reach=Reach.ENGINE, how="a setting that shapes the logits is changed"),
    Mutation(
        field="weights.source",
        reach=Reach.ENGINE,
        how="the weights are read again from a source that differs in one number",
        also=("weights.live",),
    ),
    Mutation(
        field="weights.live",
        reach=Reach.ENGINE,
        how="a weight is perturbed in place",
        optional=("to",),  # the way it is written: in-place, data, numpy
    ),
    Mutation(field="model.adapters", reach=Reach.ENGINE, how="a low-rank adapter is put on, or another scale given it"),
    Mutation(field="tokenizer.vocabulary", reach=Reach.ENGINE, how="two pieces change their ids"),
    Mutation(
        field="tokenizer.merges",
        reach=Reach.ENGINE,
        how="a merge is removed; one is added where there is none",
        also=("tokenizer.vocabulary",),
    ),
    Mutation(
        field="tokenizer.special",
        reach=Reach.ENGINE,
        how="a special token more is used",
        also=("tokenizer.normaliser", "tokenizer.vocabulary"),
    ),
    Mutation(field="tokenizer.normaliser", reach=Reach.ENGINE, how="case is kept or dropped where it was not"),
    Mutation(field="tokenizer.template", reach=Reach.ENGINE, how="another chat template is set"),
    Mutation(
        field="numeric.dtype",
        reach=Reach.ENGINE,
        how="the weights are cast to bfloat16",
        also=("model.config", "weights.live", "cache.dtype"),
        mirrored=True,
    ),
    Mutation(
        field="numeric.attention", reach=Reach.ENGINE, how="another attention kernel runs", also=("model.config",)
    ),
    Mutation(field="numeric.device", reach=Reach.ENGINE, how="the weights are moved to another device"),
    Mutation(field="numeric.library", reach=Reach.RECORD, how="another version of the library is installed"),
    Mutation(
        field="prefix.tokens",
        reach=Reach.REQUEST,
        how="one token is another",
        operands=("row", "index", "token"),
    ),
    Mutation(field="prefix.text", reach=Reach.REQUEST, how="the row has another text", operands=("row", "text")),
    Mutation(
        field="prefix.mask",
        reach=Reach.REQUEST,
        how="one token is masked, those after it move up",
        operands=("row", "index"),
        also=("prefix.tokens", "position.ids", "cache.length", "cache.visible"),
    ),
    Mutation(
        field="position.rule",
        reach=Reach.REQUEST,
        how="positions are left to the engine, or given in its place",
        also=("position.ids", "cache.visible"),
    ),
    Mutation(
        field="position.ids",
        reach=Reach.REQUEST,
        how="a token and all behind it stand further back",
        operands=("row", "index", "by"),
        also=("cache.visible",),
    ),
    Mutation(
        field="padding",
        reach=Reach.REQUEST,
        how="masked slots lie elsewhere",
        operands=("to",),
        also=("prefix.mask", "position.ids", *_SIZES),
    ),
    Mutation(field="salt", reach=Reach.REQUEST, how="another salt", operands=("to",)),
    Mutation(
        field="cache.kind",
        reach=Reach.REQUEST,
        how="a session of another cache kind asks",
        operands=("to",),
        also=_SIZES,
    ),
    Mutation(
        field="cache.shapes",
        reach=Reach.REQUEST,
        how="a session with room for more asks",
        operands=("by",),
        also=("cache.eviction",),
    ),
    Mutation(
        field="cache.dtype",
        reach=Reach.ENGINE,
        how="keys and values are kept in bfloat16",
        mirrored=True,
    ),
    Mutation(field="cache.quantisation", reach=Reach.ENGINE, how="keys and values are rounded to fewer bits"),
    Mutation(
        field="window.policy",
        reach=Reach.ENGINE,
        how="another window is opened",
        also=("model.config", "cache.kind", *_SIZES),
    ),
    Mutation(
        field="cache.length",
        reach=Reach.SESSION,
        how="a row's last token is lost",
        operands=("row",),
        optional=("on",),
        also=_SIZES,
    ),
    Mutation(
        field="cache.visible",
        reach=Reach.SESSION,
        how="a row's last token but one is hidden in one layer",
        operands=("row",),
        optional=("on",),
    ),
    Mutation(
        field="cache.eviction",
        reach=Reach.SESSION,
        how="one layer's oldest slot is evicted",
        optional=("on",),
        also=("cache.shapes", "cache.visible"),
    ),
    Mutation(field="format.version", reach=Reach.RECORD, how="another evseq wrote the file"),
)

MUTATIONS: Mapping[str, Mutation] = MappingProxyType({mutation.field: mutation for mutation in _MUTATIONS})
"""The mutation of every field by name, in the order of the registry of fields."""
