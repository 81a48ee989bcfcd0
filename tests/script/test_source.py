"""The text of a script is read by strict rules, with line and column of everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evseq.errors import Place, Problem, ScriptError, UsageError
from evseq.script import compose
from evseq.script.scalar import RefusedScalarError, resolve
from evseq.script.source import Mark, Source, parse_yaml, read

BROKEN = sorted((Path(__file__).parent / "broken").glob("*.evseq.yaml"))


class TestScalars:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("", None),
            ("~", None),
            ("null", None),
            ("true", True),
            ("False", False),
            ("no", "no"),
            ("yes", "yes"),
            ("on", "on"),
            ("off", "off"),
            ("y", "y"),
            ("0", 0),
            ("-12", -12),
            ("+4", 4),
            ("123456789012345678", 123456789012345678),
            ("1.5", 1.5),
            (".5", 0.5),
            ("1e3", 1000.0),
            ("2*window+1", "2*window+1"),
            ("-x", "-x"),
            (".", "."),
            ("1-2", "1-2"),
            ("1.2.3", "1.2.3"),
            ("0x", "0x"),
        ],
    )
    def test_a_plain_scalar_means_what_the_core_rules_say(self, text: str, value: object) -> None:
        assert (resolve(text), type(resolve(text))) == (value, type(value))

    @pytest.mark.parametrize(
        ("text", "message", "advice"),
        [
            ("0o17", "0o17 is octal", "write it in decimal: 15"),
            ("-0x1F", "-0x1F is hexadecimal", "write it in decimal: -31"),
            ("0b101", "0b101 is binary", "write it in decimal: 5"),
            ("017", "017 is octal to some readers, decimal to others", 'write 17, or quote the text: "017"'),
            ("00", "00 is octal to some readers, decimal to others", 'write 0, or quote the text: "00"'),
            ("1:30", "1:30 is a number in base 60 to some readers, a text to others", 'quote the text: "1:30"'),
            ("2024-1-31", "2024-1-31 is a date to some readers, a text to others", 'quote the text: "2024-1-31"'),
            (
                "1_000",
                "1_000 is not a plain decimal number",
                'write it without underscores and leading zeros, or quote the text: "1_000"',
            ),
            ("-.inf", "-.inf is not a finite number", 'write a number, or quote the text: "-.inf"'),
            (".nan", ".nan is not a finite number", 'write a number, or quote the text: ".nan"'),
            ("1234567890123456789", "123456789012345678... is a number of 19 digits", "use at most 18"),
        ],
    )
    def test_what_readers_disagree_about_is_refused(self, text: str, message: str, advice: str) -> None:
        with pytest.raises(RefusedScalarError) as error:
            resolve(text)
        assert (str(error.value), error.value.advice) == (message, advice)

    def test_quotes_make_a_text_of_anything(self) -> None:
        assert parse_yaml("['017', \"2024-01-31\", 'true', '']", file="x").data == ["017", "2024-01-31", "true", ""]


class TestMarks:
    TEXT = "evseq: 1\nrows:\n  a: [17,\n      4]\n  é: {text: 'ü', file: b}\nevents:\n- drop\n-   probe: {on: x}\n"

    def test_every_key_and_value_has_its_place(self) -> None:
        assert parse_yaml(self.TEXT, file="x").marks == {
            (): Mark(1, 1, 1, 1),
            ("evseq",): Mark(1, 8, 1, 1),
            ("rows",): Mark(3, 3, 2, 1),
            ("rows", "a"): Mark(3, 6, 3, 3),
            ("rows", "a", 0): Mark(3, 7, 3, 7),
            ("rows", "a", 1): Mark(4, 7, 4, 7),
            ("rows", "é"): Mark(5, 6, 5, 3),
            ("rows", "é", "text"): Mark(5, 13, 5, 7),
            ("rows", "é", "file"): Mark(5, 24, 5, 18),
            ("events",): Mark(7, 1, 6, 1),
            ("events", 0): Mark(7, 3, 7, 3),
            ("events", 1): Mark(8, 5, 8, 5),
            ("events", 1, "probe"): Mark(8, 12, 8, 5),
            ("events", 1, "probe", "on"): Mark(8, 17, 8, 13),
        }

    def test_both_parsers_give_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fast = parse_yaml(self.TEXT, file="x")
        monkeypatch.setattr(compose, "_Parser", yaml.SafeLoader)
        assert parse_yaml(self.TEXT, file="x") == fast

    @pytest.mark.parametrize("ending", ["\r\n", "\r"])
    def test_lines_may_end_as_on_other_systems(self, ending: str) -> None:
        assert parse_yaml(self.TEXT.replace("\n", ending), file="x") == parse_yaml(self.TEXT, file="x")

    def test_a_byte_order_mark_is_passed_over(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_text("evseq: 1\n", encoding="utf-8-sig")
        assert read(tmp_path / "x").marks["evseq",] == Mark(1, 8, 1, 1)

    def test_of_two_equal_keys_the_first_stands(self) -> None:
        source = parse_yaml("a: {b: 1}\na: {b: 2, c: 3}\n", file="x")
        assert source.data == {"a": {"b": 1}}
        assert [str(problem.place) for problem in source.problems] == ["x:2:1"]

    @pytest.mark.parametrize("text", ["", " ", "# nothing", "---", "null"])
    def test_a_file_without_data_is_nothing(self, text: str) -> None:
        assert parse_yaml(text, file="x").data is None


class TestExcerpt:
    def shown(self, text: str, line: int, column: int) -> str:
        return parse_yaml(text, file="x").excerpt(Place(file="x", line=line, column=column))

    def test_the_line_is_shown_under_the_one_before_it(self) -> None:
        assert self.shown("a: 1\nb: 2\nc: 3\n", 2, 1) == "  1 | a: 1\n> 2 | b: 2"

    def test_the_first_line_is_shown_alone(self) -> None:
        assert self.shown("a: 1\nb: 2\n", 1, 1) == "> 1 | a: 1"

    def test_numbers_are_aligned(self) -> None:
        assert self.shown("\n" * 8 + "a: 1\nb: 2\n", 10, 1) == "   9 | a: 1\n> 10 | b: 2"

    def test_a_line_that_is_not_there_is_not_shown(self) -> None:
        assert self.shown("a: 1", 7, 1) == ""

    def test_a_long_line_is_shown_around_the_place(self) -> None:
        text = f"{'a' * 99}: {'b' * 99}"
        assert self.shown(text, 1, 102) == f"> 1 | ...{text[47:157]}..."

    def test_nothing_a_terminal_obeys_is_shown(self) -> None:
        with pytest.raises(ScriptError) as error:
            parse_yaml("a: \x1b[2J", file="x")
        assert error.value.problems[0].excerpt == "> 1 | a: ?[2J"


class TestNames:
    @pytest.mark.parametrize("name", ["\udcff", "\x1b[8m"])
    def test_a_file_is_refused_that_no_report_could_name(self, name: str, tmp_path: Path) -> None:
        file = str(tmp_path / f"{name}.evseq.yaml")

        with pytest.raises(UsageError) as refused:
            read(file)

        assert str(refused.value) == f"{file!r}: has a name that cannot be written\n  help: rename it, or its folder"

    def test_names_of_any_language_are_read(self, tmp_path: Path) -> None:
        file = tmp_path / "größe 尺寸\u3000é.evseq.yaml"
        file.write_text("evseq: 1\n")

        assert read(file).data == {"evseq": 1}


class TestProblemsOfText:
    def test_all_are_found_and_the_rest_is_read(self) -> None:
        source = parse_yaml("a: &x 1\nb: *x\nc: 2024-01-01\nc: 2\nd: !!int 3\n<<: {e: 5}\n7: 8\nf: 9\n", file="x")
        assert [(str(problem.place), problem.message) for problem in source.problems] == [
            ("x:1:4", "anchor &x is not allowed"),
            ("x:2:4", "alias *x is not allowed"),
            ("x:3:4", "2024-01-01 is a date to some readers, a text to others"),
            ("x:4:1", "key 'c' is written twice, first in line 3"),
            ("x:5:4", "tag !!int is not allowed"),
            ("x:6:1", "a merge (<<) is not allowed"),
            ("x:7:1", "the key 7 is not a word"),
        ]
        assert isinstance(source.data, dict)
        assert source.data["f"] == 9

    def test_what_was_found_before_the_text_breaks_is_told_too(self) -> None:
        with pytest.raises(ScriptError) as error:
            parse_yaml("a: &x 1\nb: [1\n", file="x")
        assert [problem.message for problem in error.value.problems] == [
            "anchor &x is not allowed",
            "'[' is never closed",
        ]

    @pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.name)
    def test_both_parsers_find_the_same_things(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fast = found(lambda: read(path))
        monkeypatch.setattr(compose, "_Parser", yaml.SafeLoader)
        slow = found(lambda: read(path))
        assert [(a.place.line, a.message, a.help) for a in slow] == [(b.place.line, b.message, b.help) for b in fast]

    def test_half_a_character_is_refused_by_the_slow_parser_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(compose, "_Parser", yaml.SafeLoader)
        with pytest.raises(ScriptError) as error:
            parse_yaml('a: "\\ud83d"', file="x")
        assert [problem.message for problem in error.value.problems] == ["half a character"]

    @given(st.text(st.sampled_from("ab1 :-{}[],#&*!|>'\"%@`\n\t\\?~.") | st.characters(), max_size=40))
    def test_any_text_is_read_or_complained_of(self, text: str) -> None:
        assert all(problem.message and problem.help for problem in found(lambda: parse_yaml(text, file="x")))


def found(reading: Callable[[], Source]) -> tuple[Problem, ...]:
    """Return what is wrong with a text, whether or not it can be read on."""
    try:
        return reading().problems
    except ScriptError as error:
        return error.problems
