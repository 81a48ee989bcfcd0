"""A number word has a value, or an error that says what would have one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evseq.script.number import LARGEST, NumberError, evaluate, number_words

WORDS = {"window": 8, "chunk": None, "length": 5}
ARMS: dict[str, int | str] = {"n": 3, "wide": "2*window+1", "far": "wide", "padding": "left", "late": "chunk"}


def fault(number: str, *, words: dict[str, int | None] | None = None) -> tuple[str, str]:
    with pytest.raises(NumberError) as error:
        evaluate(number, words=WORDS if words is None else words, arms=ARMS)
    return str(error.value), error.value.help


class TestValue:
    @pytest.mark.parametrize(
        ("number", "value"),
        [
            (7, 7),
            ("window", 8),
            ("window+1", 9),
            ("window-8", 0),
            ("2*window", 16),
            ("3*window-20", 4),
            ("length-1", 4),
            ("n", 3),
            ("4*n+1", 13),
            ("wide", 17),
            ("far-17", 0),
        ],
    )
    def test_integers_words_and_arms_are_numbers(self, number: int | str, value: int) -> None:
        assert evaluate(number, words=WORDS, arms=ARMS) == value

    @pytest.mark.parametrize("number", ["chunk", "2*chunk-99", "late"])
    def test_what_only_a_target_knows_is_none(self, number: str) -> None:
        assert evaluate(number, words=WORDS, arms=ARMS) is None

    @given(times=st.integers(1, 9), plus=st.integers(-9, 9), base=st.integers(0, 50))
    def test_a_word_is_multiplied_then_moved(self, times: int, plus: int, base: int) -> None:
        number = f"{times}*window{plus:+d}"
        expected = times * base + plus
        if expected >= 0:
            assert evaluate(number, words={"window": base}, arms={}) == expected
        else:
            with pytest.raises(NumberError):
                evaluate(number, words={"window": base}, arms={})


class TestFault:
    def test_a_word_that_is_neither(self) -> None:
        assert fault("windw+1") == ("'windw' is no arm and no number word", "did you mean 'window'?")

    def test_a_word_like_no_other_is_answered_with_those_that_hold_numbers(self) -> None:
        help = "known here: chunk, far, late, length, n, wide, window"
        assert fault("zzz") == ("'zzz' is no arm and no number word", help)

    def test_a_text_that_is_no_number(self) -> None:
        help = "write an integer, an arm, or a word such as window+1"
        assert fault("window*2") == ("'window*2' is not a number", help)

    def test_an_arm_that_holds_no_number(self) -> None:
        help = "write an integer, or a word such as window+1"
        assert fault("padding") == ("arm 'padding' is 'left', which is no number", help)

    def test_arms_that_hold_each_other(self) -> None:
        with pytest.raises(NumberError) as error:
            evaluate("a", words={}, arms={"a": "b", "b": "a"})
        assert str(error.value) == "arm 'a' is 'b', and arm 'b' is 'a', which is no number"

    def test_an_arm_is_named_with_what_is_wrong_with_its_word(self) -> None:
        help = "add `needs: [window]`: this target has no windowed layer"
        assert fault("far", words={"length": 5}) == (
            "arm 'far' is 'wide', and arm 'wide' is '2*window+1', and 'window' has no value here",
            help,
        )

    @pytest.mark.parametrize(
        ("word", "help"),
        [
            ("window", "add `needs: [window]`: this target has no windowed layer"),
            ("chunk", "give the script a `chunk` arm with a number; `whole` has none"),
            ("capacity", "give the script a `capacity` arm"),
            ("length", "use it where a row is meant: in prefill, append next, crop or mutate-prefix-token"),
        ],
    )
    def test_a_number_word_without_a_value_says_what_gives_it_one(self, word: str, help: str) -> None:
        assert fault(word, words={}) == (f"'{word}' has no value here", help)

    def test_below_zero(self) -> None:
        assert fault("window-9") == ("'window-9' is -1 here", "numbers go from 0 to 1000000, and window is 8")

    def test_beyond_all_rows(self) -> None:
        assert fault("9999999*n") == ("'9999999*n' is 29999997 here", "numbers go from 0 to 1000000, and n is 3")
        assert evaluate("1000000*n", words={}, arms={"n": 1}) == LARGEST


class TestNumberWords:
    def test_without_a_target_window_and_block_are_there_and_unknown(self) -> None:
        assert number_words({}, window=None, symbolic=True) == {"window": None, "block": None}

    def test_a_target_without_a_window_has_no_such_word(self) -> None:
        assert number_words({}, window=None, symbolic=False) == {}

    def test_chunk_and_capacity_are_arms(self) -> None:
        arms: dict[str, int | str] = {"chunk": "window+1", "capacity": 12}
        assert number_words(arms, window=6, symbolic=False) == {"window": 6, "chunk": 7, "capacity": 12}
        unknown = {"window": None, "block": None, "chunk": None}
        assert number_words(arms, window=None, symbolic=True) == {**unknown, "capacity": 12}

    def test_a_target_with_a_pool_has_its_block(self) -> None:
        assert number_words({}, window=None, symbolic=False, block=4) == {"block": 4}

    def test_a_prefill_fed_whole_has_no_chunk(self) -> None:
        assert number_words({"chunk": "whole"}, window=6, symbolic=False) == {"window": 6}

    @pytest.mark.parametrize(
        ("value", "window", "message", "help"),
        [
            ("window-6", 6, "arm 'chunk': 'window-6' is 0 here", "a chunk is at least 1"),
            ("window-7", 6, "arm 'chunk': 'window-7' is -1 here", "numbers go from 0 to 1000000, and window is 6"),
            (
                "window",
                None,
                "arm 'chunk': 'window' has no value here",
                "add `needs: [window]`: this target has no windowed layer",
            ),
        ],
    )
    def test_a_size_that_is_none_is_told_at_its_arm(
        self, value: str, window: int | None, message: str, help: str
    ) -> None:
        with pytest.raises(NumberError) as error:
            number_words({"chunk": value}, window=window, symbolic=False)
        assert (str(error.value), error.value.help, error.value.path) == (message, help, ("arms", "chunk"))
