from __future__ import annotations

from evseq.cache.fields import FIELDS, Kind, Part


def test_the_registry_names_every_field_once_and_in_order() -> None:
    assert list(FIELDS) == [
        "model.architecture",
        "model.config",
        "weights.source",
        "weights.live",
        "model.adapters",
        "tokenizer.vocabulary",
        "tokenizer.merges",
        "tokenizer.special",
        "tokenizer.normaliser",
        "tokenizer.template",
        "numeric.dtype",
        "numeric.attention",
        "numeric.device",
        "numeric.library",
        "prefix.tokens",
        "prefix.text",
        "prefix.mask",
        "position.rule",
        "position.ids",
        "padding",
        "salt",
        "cache.kind",
        "cache.shapes",
        "cache.dtype",
        "cache.quantisation",
        "window.policy",
        "cache.length",
        "cache.visible",
        "cache.eviction",
        "format.version",
    ]


def test_model_comes_before_request_and_request_before_cache() -> None:
    parts = [field.part for field in FIELDS.values()]

    assert parts == sorted(parts, key=list(Part).index)


def test_every_policy_field_has_a_written_reason_and_no_numeric_one_needs_it() -> None:
    reasoned = [field.name for field in FIELDS.values() if field.reason]

    assert reasoned == [field.name for field in FIELDS.values() if field.kind is Kind.POLICY]


def test_a_name_stands_under_its_own_entry() -> None:
    assert all(name == field.name for name, field in FIELDS.items())
