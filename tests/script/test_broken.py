"""Broken scripts: every message is an address, the evidence and a next step, word by word.

Beside each `NN-name.evseq.yaml` of the folder `broken` stands what an author is told, in `NN-name.txt`.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from evseq.errors import ScriptError, UsageError
from evseq.script.document import parse
from evseq.script.source import MAX_BYTES, parse_yaml, read

BROKEN = Path(__file__).parent / "broken"
FILES = sorted(path.name for path in BROKEN.glob("*.evseq.yaml"))

PROMPT = 2.0
"""Seconds within which a hostile file is answered; it takes a few milliseconds on an idle machine."""


@pytest.mark.parametrize("name", FILES)
def test_a_broken_script_is_told_word_by_word(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BROKEN)
    with pytest.raises(ScriptError) as error:
        parse(read(name))
    expected = Path(name.removesuffix(".evseq.yaml") + ".txt").read_text(encoding="utf-8")
    assert f"{error.value}\n" == expected


@pytest.mark.parametrize("name", FILES)
def test_every_problem_has_an_address_and_a_next_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BROKEN)
    with pytest.raises(ScriptError) as error:
        parse(read(name))
    problems = error.value.problems
    assert all(problem.message and problem.help and problem.place.line and problem.place.column for problem in problems)
    assert list(problems) == sorted(problems)


def test_there_are_scripts_enough_and_no_text_without_a_script() -> None:
    texts = sorted(path.name for path in BROKEN.glob("*.txt"))
    assert len(FILES) >= 40
    assert texts == [name.removesuffix(".evseq.yaml") + ".txt" for name in FILES]


class TestHostileFiles:
    @pytest.fixture(autouse=True)
    def _in_time(self) -> None:
        self.begun = time.perf_counter()

    def told(self, text: str) -> str:
        with pytest.raises(ScriptError) as error:
            parse_yaml(text, file="x.evseq.yaml")
        assert time.perf_counter() - self.begun < PROMPT
        return str(error.value)

    def test_ten_megabytes_of_nesting_are_refused_by_their_size(self, tmp_path: Path) -> None:
        file = tmp_path / "deep.evseq.yaml"
        file.write_text("[" * 10_000_000, encoding="utf-8")
        self.begun = time.perf_counter()
        with pytest.raises(ScriptError) as error:
            read(file)
        assert time.perf_counter() - self.begun < PROMPT
        assert str(error.value) == (
            f"{file}:1:1: the script has 10000000 bytes, at most 1048576 are read\n"
            "  help: move long texts into files beside the script: `rows: {a: {file: NAME}}`"
        )

    def test_a_text_that_is_too_long_is_refused_too(self) -> None:
        assert self.told("#" * (MAX_BYTES + 1)) == (
            "x.evseq.yaml:1:1: the script has 1048577 characters, at most 1048576 are read\n"
            "  help: move long texts into files beside the script: `rows: {a: {file: NAME}}`"
        )

    @pytest.mark.parametrize("nest", ["[", "{a: ", "- "])
    def test_a_megabyte_of_nesting_is_refused_by_its_depth(self, nest: str) -> None:
        said = self.told(nest * (MAX_BYTES // len(nest)))
        assert said.splitlines()[0].split(": ")[1] in {"nested more than 32 deep", "nested too deep"}
        assert said.splitlines()[-1] == "  help: a script needs no more than a few levels"

    def test_nesting_by_indentation_is_refused_by_its_depth(self) -> None:
        text = "\n".join(" " * depth + "a:" for depth in range(40))
        assert self.told(text) == (
            "x.evseq.yaml:33:33: nested more than 32 deep\n"
            f"  32 | {' ' * 31}a:\n"
            f"> 33 | {' ' * 32}a:\n"
            "  help: a script needs no more than a few levels"
        )

    def test_thirty_two_levels_are_read(self) -> None:
        assert parse_yaml("[" * 32 + "]" * 32, file="x.evseq.yaml").problems == ()

    def test_aliases_do_not_multiply(self) -> None:
        lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 8))]
        source = parse_yaml("\n".join(lines), file="x.evseq.yaml")
        assert len(source.problems) == 8 + 7 * 9
        assert time.perf_counter() - self.begun < PROMPT

    @pytest.mark.parametrize("line", ["a: 1\n", "- &a 1\n", "- *a\n", "\t\n", "- 0x1\n", "- 1: 2\n"])
    def test_of_very_many_problems_the_first_are_told(self, line: str) -> None:
        with pytest.raises(ScriptError) as error:
            parse_yaml(line * (MAX_BYTES // len(line)), file="x.evseq.yaml")
        *_, last = error.value.problems
        assert len(error.value.problems) == 101
        assert last.message == "more is wrong from here on"
        assert last.help == "mend the 100 problems that are told first"
        assert time.perf_counter() - self.begun < PROMPT

    def test_of_very_many_wrong_events_the_first_are_told(self) -> None:
        source = parse_yaml("events:\n" + "- crpo\n" * 1000, file="x.evseq.yaml")
        with pytest.raises(ScriptError) as error:
            parse(source)
        assert len(error.value.problems) == 101
        assert time.perf_counter() - self.begun < PROMPT

    def test_a_long_word_of_digits_is_answered_at_once(self) -> None:
        digits = "1" * 1_000_000
        (problem,) = parse_yaml(f"a: {digits}", file="x.evseq.yaml").problems
        assert problem.message == "111111111111111111... is a number of 1000000 digits"
        assert time.perf_counter() - self.begun < PROMPT


class TestFilesThatCannotBeRead:
    def test_a_missing_file_is_a_wrong_call(self) -> None:
        with pytest.raises(UsageError) as error:
            read("nowhere.evseq.yaml")
        assert str(error.value) == (
            "nowhere.evseq.yaml: cannot be read: No such file or directory\n  help: name a *.evseq.yaml file"
        )

    def test_a_folder_is_a_wrong_call(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError) as error:
            read(tmp_path)
        assert str(error.value) == (f"{tmp_path}: cannot be read: Is a directory\n  help: name a *.evseq.yaml file")

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
    def test_another_encoding_is_told_at_its_first_byte(self, encoding: str, tmp_path: Path) -> None:
        file = tmp_path / "x.evseq.yaml"
        file.write_text("evseq: 1\n", encoding=encoding)
        with pytest.raises(ScriptError) as error:
            read(file)
        (problem,) = error.value.problems
        assert (str(problem.place), problem.message, problem.help) == (
            f"{file}:1:1",
            "byte 0xff is not UTF-8",
            "save the file as UTF-8",
        )
