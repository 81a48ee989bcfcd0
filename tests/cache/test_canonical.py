from __future__ import annotations

import enum
import json
import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evseq.cache.canonical import Scalar, canonical, measure, parse

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PLAIN = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | TEXT
SCALARS = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)


class Colour(enum.StrEnum):
    RED = "red"


@given(value=SCALARS)
def test_what_was_written_reads_back_as_the_same_bytes(value: Scalar) -> None:
    assert canonical(parse(canonical(value))) == canonical(value)


@given(data=st.binary(max_size=40))
def test_any_bytes_are_refused_or_written_the_same_way_again(data: bytes) -> None:
    try:
        value = parse(data)
    except ValueError:
        return
    assert canonical(value) == data


def test_the_order_of_keys_does_not_show() -> None:
    assert canonical({"a": 1, "b": {"c": 2, "d": 3}}) == canonical({"b": {"d": 3, "c": 2}, "a": 1})


def test_equal_numbers_of_other_types_are_other_values() -> None:
    assert len({canonical(1), canonical(1.0), canonical(True), canonical("1")}) == 4  # noqa: FBT003 - the value itself


def test_the_two_zeros_are_two_values() -> None:
    assert canonical(0.0) != canonical(-0.0)


def test_a_number_that_is_none_is_one_value() -> None:
    assert canonical(math.nan) == canonical(math.nan)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((1, 2), "config: tuple is not one of None, bool, int, float, str, list, dict"),
        ({"a": [0, b"x"]}, "config.a[1]: bytes is not one of None, bool, int, float, str, list, dict"),
        (Colour.RED, "config: Colour is not one of None, bool, int, float, str, list, dict"),
        ({"a": {1: 2}}, "config.a: key 1 is not a str"),
    ],
)
def test_another_type_is_refused_with_its_place(value: object, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        canonical(value, place="config")

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1 << 64], "value[0]: 18446744073709551616 does not fit in 64 bits"),
        ({"a": "\ud800"}, "value.a: '\\ud800' is not Unicode text"),
        (json.loads("[" * 33 + "0" + "]" * 33), f"value{'[0]' * 33}: nested more than 32 deep"),
        ([0] * ((1 << 20) + 1), "value: 1048577 items, at most 1048576 fit"),
    ],
    ids=["wide", "surrogate", "deep", "long"],
)
def test_a_value_beyond_the_limits_is_refused_with_its_place(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        canonical(value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not msgpack: Unpack failed: incomplete input"),
        (b"\xc1", "not msgpack: FormatError"),
        (b"\x01\x01", "not msgpack: unpack(b) received extra data."),
        (b"\xdd\xff\xff\xff\xff", "not msgpack: 4294967295 exceeds max_array_len(1048576)"),
        (b"\x81\x01\x01", "not msgpack: int is not allowed for map key when strict_map_key=True"),
        (b"\x81\xc4\x01a\x01", "value: key b'a' is not a str"),
        (b"\xd6\xff\x00\x00\x00\x00", "value: Timestamp is not one of None, bool, int, float, str, list, dict"),
        (b"\xd4\x05x", "value: ExtType is not one of None, bool, int, float, str, list, dict"),
        (b"\xcc\x01", "not in canonical form"),
        (b"\xca\x00\x00\x00\x00", "not in canonical form"),
        (b"\x82\xa1b\x01\xa1a\x01", "not in canonical form"),
        (b"\x82\xa1a\x01\xa1a\x01", "not in canonical form"),
    ],
    ids=[
        "empty",
        "reserved",
        "trailing",
        "huge-claim",
        "number-key",
        "bytes-key",
        "timestamp",
        "extension",
        "long-number",
        "single-float",
        "unsorted",
        "twice",
    ],
)
def test_bytes_in_another_form_are_refused_with_the_reason(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x91" * 100_000 + b"\x01", "nested more than 32 deep"),
        (b"\x91" * 34 + b"\x01", "nested more than 32 deep"),
        (b"\x81\xa1a" * 34 + b"\x01", "nested more than 32 deep"),
        (b"\x92\xdd\x00\x0f\xff\xff\xdd\x00\x0f\xff\xff", "1048578 items in 11 bytes"),
        (b"\x92\xde\x0f\xff\x01", "8193 items in 5 bytes"),
        (b"\xdd\x00\x04\x00\x00" + b"\x90" * (1 << 18), "more than 262144 lists and mappings"),
    ],
    ids=["very-deep", "deep", "deep-mappings", "claims", "claimed-pairs", "empties"],
)
def test_what_its_bytes_do_not_explain_is_refused_before_room_is_made(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        parse(data)


@given(value=SCALARS)
def test_whatever_is_written_is_within_the_measure(value: Scalar) -> None:
    measure(canonical(value))


@given(count=st.integers(0, 70_000), kind=st.sampled_from([None, True, 1.5, 300, "two", [], {}]))
@settings(max_examples=30)
def test_lists_and_mappings_of_any_length_are_within_the_measure(count: int, kind: Scalar) -> None:
    measure(canonical([[kind] * count, dict.fromkeys(map(str, range(count)), kind), "x" * count]))


def test_the_deepest_value_that_is_written_reads_back() -> None:
    deepest = json.loads("[" * 33 + "]" * 33)

    assert parse(canonical(deepest)) == deepest
