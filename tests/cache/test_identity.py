from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evseq.cache.canonical import Scalar, canonical
from evseq.cache.identity import FIELDS, NOTHING, Difference, Identity, chain, compare

WORDS = st.text("ab", max_size=3)
PLAIN = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-1, 1) | WORDS
SCALARS = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=8
)
ROWS = st.lists(st.tuples(WORDS, st.lists(PLAIN, max_size=4)).map(list), max_size=3)
TOKENS = st.lists(st.integers(0, 3), max_size=12)


class TestFieldDigests:
    @pytest.mark.parametrize("name", FIELDS)
    @settings(max_examples=20)
    @given(one=SCALARS | ROWS, two=SCALARS | ROWS)
    def test_they_are_equal_exactly_when_the_values_are(self, name: str, one: Scalar, two: Scalar) -> None:
        digests = [Identity(values={name: value}).digests()[name] for value in (one, two)]

        assert (digests[0] == digests[1]) == (canonical(one) == canonical(two))

    @given(value=SCALARS | ROWS)
    def test_equal_values_of_two_fields_do_not_collide(self, value: Scalar) -> None:
        digests = Identity(values=dict.fromkeys(FIELDS, value)).digests()

        assert len(set(digests.values())) == len(FIELDS)

    @pytest.mark.parametrize("name", ["salt", "prefix.tokens"])
    def test_one_in_four_types_is_four_values(self, name: str) -> None:
        values: list[Scalar] = [1, 1.0, True, "1"]
        digests = {Identity(values={name: [["a", [value]]]}).digests()[name] for value in values}

        assert len(digests) == 4

    def test_they_come_in_registry_order_with_unknown_fields_behind(self, values: dict[str, Scalar]) -> None:
        shuffled = {"colour": 1, **dict(reversed(values.items())), "aroma": 2}

        assert list(Identity(values=shuffled).digests()) == [*FIELDS, "aroma", "colour"]

    def test_a_value_of_a_foreign_type_is_refused_with_its_place(self) -> None:
        with pytest.raises(TypeError, match=r"^model\.config\.rope: tuple is not one of None, bool, int, float"):
            Identity(values={"model.config": {"rope": (1, 2)}}).digests()  # type: ignore[dict-item]


class TestFingerprint:
    def test_is_the_same_in_a_process_that_orders_everything_else_differently(self, values: dict[str, Scalar]) -> None:
        code = (
            "import json, sys; from evseq.cache.identity import Identity;"
            "values = json.load(sys.stdin);"
            "print(Identity(values={name: values[name] for name in set(values)}).fingerprint())"
        )
        printed = {
            subprocess.run(
                [sys.executable, "-c", code],
                input=json.dumps(values),
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            for seed in ("1", "2")
        }

        assert printed == {Identity(values=values).fingerprint()}

    def test_is_fixed_by_the_format(self, values: dict[str, Scalar]) -> None:
        assert (
            Identity(values=values).fingerprint() == "c14610a5f451553fc8e7d71b5a94f832beb56a6ce75386feef35f20142bb0483"
        )

    def test_moves_when_a_field_is_taken_away(self, values: dict[str, Scalar]) -> None:
        fewer = {name: value for name, value in values.items() if name != "salt"}

        assert Identity(values=fewer).fingerprint() != Identity(values=values).fingerprint()


class TestCompare:
    def test_one_identity_written_twice_has_no_differences(self, values: dict[str, Scalar]) -> None:
        again = dict(reversed(values.items()))

        assert compare(Identity(values=values), Identity(values=again)) == ()

    @pytest.mark.parametrize("name", FIELDS)
    @settings(max_examples=20)
    @given(value=SCALARS | ROWS)
    def test_a_field_changed_alone_is_the_only_one_named(
        self, name: str, values: dict[str, Scalar], value: Scalar
    ) -> None:
        assume(canonical(value) != canonical(values[name]))

        differences = compare(Identity(values=values), Identity(values={**values, name: value}))

        assert [difference.field for difference in differences] == [name]
        assert str(differences[0]).startswith(f"{name}: ")

    @pytest.mark.parametrize("name", FIELDS)
    def test_a_field_missing_on_either_side_is_a_difference(self, name: str, values: dict[str, Scalar]) -> None:
        fewer = {field: value for field, value in values.items() if field != name}

        in_file = compare(Identity(values=fewer), Identity(values=values))
        in_request = compare(Identity(values=values), Identity(values=fewer))

        assert [str(difference) for difference in in_file] == [f"{name}: missing in the file"]
        assert [str(difference) for difference in in_request] == [f"{name}: missing in the request"]

    def test_a_field_missing_on_both_sides_is_a_difference(self) -> None:
        empty = Identity(values={})

        assert [difference.field for difference in compare(empty, empty)] == list(FIELDS)

    def test_an_unknown_field_is_a_difference_even_if_both_have_it(self, values: dict[str, Scalar]) -> None:
        more = Identity(values={**values, "colour": "red"})

        assert [str(difference) for difference in compare(more, more)] == ["colour: unknown field"]

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            (
                "model.architecture",
                "MistralForCausalLM",
                "model.architecture: recorded 'LlamaForCausalLM', now 'MistralForCausalLM'",
            ),
            (
                "model.config",
                {"hidden": 16, "rope": {"factor": 1.0, "theta": 500000}},
                "model.config: key 'rope.theta': recorded 10000, now 500000",
            ),
            (
                "model.config",
                {"hidden": 16, "rope": {"factor": 1, "theta": 10000}},
                "model.config: key 'rope.factor': recorded 1.0, now 1",
            ),
            (
                "model.config",
                {"hidden": 16},
                "model.config: key 'rope': recorded {'factor': 1.0, 'theta': 10000}, now nothing",
            ),
            (
                "weights.live",
                {"embed": "3f" * 32, "layer.0.q": "9b" + "9a" * 31},
                f"weights.live: tensor 'layer.0.q': recorded '{'9a' * 18}..., now '9b{'9a' * 17}...",
            ),
            (
                "model.adapters",
                [],
                "model.adapters: index 0: recorded {'content': '111111111111111111111111..., now nothing",
            ),
            ("numeric.dtype", "float32", "numeric.dtype: recorded 'float64', now 'float32'"),
            (
                "prefix.tokens",
                [["a", [17, 4, 24]], ["b", [3, 8, 21, 6, 1]]],
                "prefix.tokens: row 'a' index 2: recorded 59, now 24",
            ),
            (
                "prefix.tokens",
                [["a", [17, 4, 59]], ["b", [3, 8, 21, 6]]],
                "prefix.tokens: row 'b' index 4: recorded 1, now nothing",
            ),
            (
                "prefix.tokens",
                [["a", [17, 4, 59]], ["c", [3, 8, 21, 6, 1]]],
                "prefix.tokens: row 1: recorded 'b', now 'c'",
            ),
            ("prefix.tokens", [["a", [17, 4, 59]]], "prefix.tokens: row 1: recorded 'b', now nothing"),
            (
                "prefix.text",
                [["a", "once  upon"], ["b", None]],
                "prefix.text: row 'a' character 5: recorded 'u', now ' '",
            ),
            ("prefix.text", [["a", None], ["b", None]], "prefix.text: row 'a': recorded 'once upon', now None"),
            (
                "prefix.mask",
                [["a", [False, True, True, True, True]], ["b", [True] * 5]],
                "prefix.mask: row 'a' slot 1: recorded False, now True",
            ),
            (
                "position.ids",
                [["a", [0, 1, 2]], ["b", [1, 2, 3, 4, 5]]],
                "position.ids: row 'b' index 0: recorded 0, now 1",
            ),
            ("salt", "tenant", "salt: recorded None, now 'tenant'"),
            (
                "cache.shapes",
                [[2, 1, 5, 8], [2, 1, 4, 8]],
                "cache.shapes: layer 1: recorded [2, 1, 5, 8], now [2, 1, 4, 8]",
            ),
            (
                "window.policy",
                ["every slot", "4 positions"],
                "window.policy: layer 1: recorded '3 positions', now '4 positions'",
            ),
            ("cache.length", [["a", 3], ["b", 4]], "cache.length: row 'b': recorded 5, now 4"),
            ("cache.visible", [["a", [3, 3]], ["b", [5, 2]]], "cache.visible: row 'a' layer 1: recorded 2, now 3"),
            ("format.version", True, "format.version: recorded 1, now True"),
        ],
    )
    def test_the_first_differing_place_is_named(
        self, name: str, value: Scalar, message: str, values: dict[str, Scalar]
    ) -> None:
        (difference,) = compare(Identity(values=values), Identity(values={**values, name: value}))

        assert str(difference) == message

    def test_the_place_can_be_read_without_the_text(self, values: dict[str, Scalar]) -> None:
        changed: dict[str, Scalar] = {**values, "prefix.tokens": [["a", [17, 4, 24]], ["b", [3, 8, 21, 6, 1]]]}

        differences = compare(Identity(values=values), Identity(values=changed))

        assert differences == (Difference(field="prefix.tokens", row="a", index=2, recorded=59, now=24),)

    def test_differences_come_in_registry_order(self, values: dict[str, Scalar]) -> None:
        changed = {**values, "aroma": 1, "salt": "x", "model.config": {}, "cache.kind": "ring"}

        differences = compare(Identity(values=values), Identity(values=changed))

        assert [difference.field for difference in differences] == ["model.config", "salt", "cache.kind", "aroma"]

    def test_a_longer_row_differs_where_the_shorter_ends(self, values: dict[str, Scalar]) -> None:
        longer: dict[str, Scalar] = {**values, "prefix.tokens": [["a", [17, 4, 59, 7]], ["b", [3, 8, 21, 6, 1]]]}

        (difference,) = compare(Identity(values=values), Identity(values=longer))

        assert (difference.row, difference.index, difference.recorded, difference.now) == ("a", 3, NOTHING, 7)


class TestChain:
    def test_it_has_a_link_before_the_first_token_and_one_for_each(self) -> None:
        assert len(chain("a", [5, 6, 7])) == 4
