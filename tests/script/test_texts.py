"""Rows own tokens: given, drawn, or tokenized once; symbols as long as only a target knows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from evseq.history import MASKED
from evseq.script.document import Script
from evseq.script.number import NumberError
from evseq.script.texts import NOMINAL_LENGTH, RowText, each_line, each_lines, is_ids, row_texts
from planning import script


def bytes_of(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def known(what: Script, *, arms: dict[str, int | str] | None = None, vocab: int = 64) -> dict[str, RowText]:
    return row_texts(what, arms or {}, words={"window": 6}, vocab=vocab, tokenize=bytes_of)


def unknown(what: Script, *, arms: dict[str, int | str] | None = None) -> dict[str, RowText]:
    return row_texts(what, arms or {}, words={"window": None}, vocab=None, tokenize=None)


def rows(written: str, *, arms: str = "", file: str = "x.evseq.yaml") -> Script:
    return script("prefill: [a]", rows=written, arms=arms, file=file)


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    (tmp_path / "prompt.txt").write_text("once upon\n", encoding="utf-8")
    (tmp_path / "cases.txt").write_text("a text\n\n [3, 1, 4]\n", encoding="utf-8")
    return tmp_path / "x.evseq.yaml"


class TestOnATarget:
    def test_ids_are_themselves(self) -> None:
        assert known(rows("a: [5, 0, 63]")) == {"a": RowText(tokens=(5, 0, 63))}

    def test_a_seed_means_the_same_row_everywhere(self) -> None:
        drawn = known(rows("a: {random: {length: 6, seed: 1}}"))
        assert drawn == {"a": RowText(tokens=(40, 49, 33, 34, 51, 53))}

    def test_a_longer_row_of_a_seed_begins_like_a_shorter_one(self) -> None:
        drawn = known(rows("a: {random: {length: 3, seed: 7}}, b: {random: {length: 9, seed: 7}}"))
        assert drawn["b"].tokens[:3] == drawn["a"].tokens

    def test_drawn_ids_are_below_the_vocabulary(self) -> None:
        drawn = known(rows("a: {random: {length: 200, seed: 7}}"), vocab=5)
        assert set(drawn["a"].tokens) == set(range(5))

    def test_length_and_seed_may_be_number_words(self) -> None:
        drawn = known(rows("a: {random: {length: 2*window+1, seed: n}}", arms="n: [1]"), arms={"n": 1})
        assert len(drawn["a"].tokens) == 13
        assert drawn["a"].tokens[:2] == (40, 49)

    def test_text_is_tokenized(self) -> None:
        assert known(rows("a: {text: hi}")) == {"a": RowText(tokens=(104, 105), text="hi")}

    def test_a_file_is_read_whole(self, beside: Path) -> None:
        drawn = known(rows("a: {file: prompt.txt}", file=str(beside)))
        assert drawn == {"a": RowText(tokens=bytes_of("once upon\n"), text="once upon\n")}

    def test_each_line_of_a_file_is_a_case_a_text_or_ids(self, beside: Path) -> None:
        what = rows("a: {each: cases.txt}", file=str(beside))
        assert known(what, arms={"a": 1}) == {"a": RowText(tokens=bytes_of("a text"), text="a text")}
        assert known(what, arms={"a": 2}) == {"a": RowText(tokens=(3, 1, 4))}

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_a_line_ends_where_an_editor_ends_it(self, end: str, tmp_path: Path) -> None:
        odd = "page one\fpage two\u2028still\x85the\x1csame\rline"
        (tmp_path / "cases.txt").write_bytes(f"{odd}{end}another{end}".encode())
        what = rows("a: {each: cases.txt}", file=str(tmp_path / "x.evseq.yaml"))
        assert each_lines(what, "cases.txt") == [odd, "another"]

    def test_lines_that_hold_nothing_are_no_cases(self, beside: Path) -> None:
        what = rows("a: {each: cases.txt}", file=str(beside))
        (row,) = what.rows.values()
        assert each_lines(what, "cases.txt") == ["a text", " [3, 1, 4]"]
        assert each_line(what, row, 2) == " [3, 1, 4]"  # type: ignore[arg-type]  # this one is an Each
        assert [is_ids(line) for line in each_lines(what, "cases.txt")] == [False, True]

    @pytest.mark.parametrize(
        ("length", "message", "help"),
        [
            ("window-6", "row 'a': length is 0 here", "draw at least 1 token"),
            ("window-7", "row 'a': 'window-7' is -1 here", "numbers go from 0 to 1000000, and window is 6"),
            (
                "chunk",
                "row 'a': 'chunk' has no value here",
                "give the script a `chunk` arm with a number; `whole` has none",
            ),
        ],
    )
    def test_a_length_that_is_none_is_told(self, length: str, message: str, help: str) -> None:
        with pytest.raises(NumberError) as error:
            known(rows(f"a: {{random: {{length: {length}, seed: 1}}}}"))
        assert (str(error.value), error.value.help) == (message, help)
        assert error.value.path == ("rows", "a", "random", "length")

    def test_a_seed_that_is_no_number_is_told(self) -> None:
        with pytest.raises(NumberError) as error:
            known(rows("a: {random: {length: 2, seed: sead}}"))
        assert str(error.value) == "row 'a': 'sead' is no arm and no number word"
        assert error.value.path == ("rows", "a", "random", "seed")


class TestWithoutATarget:
    def test_ids_are_known(self) -> None:
        assert unknown(rows("a: [5, 0, 63]")) == {"a": RowText(tokens=(5, 0, 63))}

    def test_of_a_drawn_row_the_length_is_known_and_no_token(self) -> None:
        row = unknown(rows("a: {random: {length: 5, seed: 1}}"))["a"]
        assert (len(row.tokens), row.exact, max(row.tokens) < MASKED) == (5, True, True)

    @pytest.mark.parametrize("source", ["{text: some words}", "{random: {length: 2*window, seed: 1}}"])
    def test_of_other_rows_nothing_is_known(self, source: str) -> None:
        row = unknown(rows(f"a: {source}"))["a"]
        assert (len(row.tokens), row.exact, max(row.tokens) < MASKED) == (NOMINAL_LENGTH, False, True)

    def test_no_two_symbols_of_a_row_are_equal(self) -> None:
        row = unknown(rows("a: {random: {length: 50, seed: 1}}"))["a"]
        assert len(set(row.tokens)) == 50


class TestLengthWord:
    def test_it_is_the_length_of_the_text_where_that_is_known(self) -> None:
        assert RowText(tokens=(1, 2, 3)).words == {"length": 3}
        assert RowText(tokens=(1, 2, 3), exact=False).words == {"length": None}
