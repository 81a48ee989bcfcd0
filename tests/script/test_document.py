"""Whatever an author writes is read whole, or complained of at its place in words of the language."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evseq.errors import Place, ScriptError
from evseq.script import events as ev
from evseq.script import rows
from evseq.script.document import Arm, Each, Ids, Random, Script, Text, TextFile, parse
from evseq.script.source import parse_yaml, read
from planning import SHORT, parsed


def told(text: str) -> str:
    with pytest.raises(ScriptError) as error:
        parsed(text)
    return str(error.value)


def attempted(key: str, data: Any) -> str:
    """Return what an author is told where `data` stands behind a key; nothing where that is right."""
    source = parse_yaml(SHORT, file="x.evseq.yaml")
    assert isinstance(source.data, dict)
    source.data[key] = data
    try:
        parse(source)
    except ScriptError as error:
        return str(error)
    return ""


LEAKS = ("Input should", "pydantic", "not what it should be", "cannot be")
"""Words of the validator below, and of sayings for what nobody has thought of."""


class TestParse:
    def test_the_example_is_read_whole(self, example: str) -> None:
        assert parsed(example) == Script(
            name="reload-continues",
            about="A cache saved mid-sequence continues bit for bit, here and in a new process.",
            rows={"a": Random(length=10, seed=1), "b": Ids(ids=(17, 4, 59, 3, 8, 21))},
            arms={
                "padding": Arm(values=("left", "right")),
                "chunk": Arm(values=("whole", 2)),
                "dtype": Arm(values=("float64", "float32")),
            },
            events=(
                ev.Prefill(rows={"a": 7, "b": 3}),
                ev.Serialize(to="mid"),
                ev.Append(next=2),
                ev.Reload(from_="mid", as_="again"),
                ev.Append(next=2, on="again"),
                ev.Reload(from_="mid", as_="elsewhere", process=ev.Process.FRESH),
                ev.Append(next=2, on="elsewhere", together=True),
                ev.MutatePrefixToken(row="a", index=2, token=24),
                ev.Reload(from_="mid", as_="changed", expect=ev.Expect(refused="prefix.tokens")),
            ),
        )

    @pytest.mark.parametrize(
        ("written", "event"),
        [
            ("prefill: [a, b]", ev.Prefill(rows=["a", "b"])),
            ("beam-select: {x: a, y: a}", ev.BeamSelect(rows={"x": "a", "y": "a"})),
            ("beam-select: {rows: {on: a}, on: other}", ev.BeamSelect(rows={"on": "a"}, on="other")),
            ("beam-select: {rows: {x: a}}", ev.BeamSelect(rows={"x": "a"})),
            ("append: {next: 2*window+1}", ev.Append(next="2*window+1")),
            ("append: {next: 0}", ev.Append(next=0)),
            ("append: {next: 1, expect: loud}", ev.Append(next=1, expect=ev.Expect(loud=True))),
            ("crop: {by: {a: 1, b: length-1}}", ev.Crop(by={"a": 1, "b": "length-1"})),
            ("probe", ev.Probe()),
            ("drop:", ev.Drop()),
            ("drop: {}", ev.Drop()),
            ("drop: {keep: buffers}", ev.Drop(keep=ev.Keep.BUFFERS)),
        ],
    )
    def test_short_and_long_forms_are_read(self, written: str, event: ev.Event) -> None:
        assert parsed(f"{SHORT}  - {written}\n").events[-1] == event

    def test_arms_are_read(self) -> None:
        holes = "padding: {values: [left, holes], when: [holes]}"
        arms = f"arms: {{cache: all, {holes}, engine.mode: [eager], n: [1, window+1]}}"
        script = parsed(f"{SHORT}  - append: {{next: n}}\n{arms}\n")
        assert script.arms == {
            "cache": Arm(values=("all",)),
            "padding": Arm(values=("left", "holes"), when=("holes",)),
            "engine.mode": Arm(values=("eager",)),
            "n": Arm(values=(1, "window+1")),
        }

    def test_rows_from_files_are_read_beside_the_script(self, tmp_path: Path) -> None:
        (tmp_path / "prompts").mkdir()
        (tmp_path / "prompts" / "a.txt").write_text("Once upon a time", encoding="utf-8")
        (tmp_path / "cases.txt").write_text("A text\n\n[1, 2]\n", encoding="utf-8")
        rows = "rows: {a: {file: prompts/a.txt}, b: {each: cases.txt}, c: {text: hello}}"
        script = parsed(SHORT.replace("rows: {a: [1, 2], b: [3]}", rows), file=str(tmp_path / "x.evseq.yaml"))
        assert script.rows == {
            "a": TextFile(file="prompts/a.txt"),
            "b": Each(each="cases.txt"),
            "c": Text(text="hello"),
        }

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "row 'a': 'a.txt' is empty"),
            (b" \n\n", "row 'a': 'a.txt' is empty"),
            (b"caf\xe9", "row 'a': 'a.txt' is not UTF-8 at byte 3"),
            (b"x" * (rows.MAX_FILE_BYTES + 1), "row 'a': 'a.txt' has 16777217 bytes, at most 16777216 are read"),
            (b"[" * 100_000, f"row 'a': '{'[' * 60}...' begins like a list of ids and is none"),
            (b"[1, 2]\n[]\n", "row 'a': '[]' begins like a list of ids and is none"),
        ],
    )
    def test_a_file_that_holds_no_row_is_refused(self, content: bytes, message: str, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_bytes(content)
        with pytest.raises(ScriptError) as error:
            parsed(SHORT.replace("a: [1, 2]", "a: {each: a.txt}"), file=str(tmp_path / "x.evseq.yaml"))
        assert [problem.message for problem in error.value.problems] == [message]

    def test_a_file_that_is_one_row_may_be_less_long(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_bytes(b"x" * (rows.MAX_TEXT_BYTES + 1))
        with pytest.raises(ScriptError) as error:
            parsed(SHORT.replace("a: [1, 2]", "a: {file: a.txt}"), file=str(tmp_path / "x.evseq.yaml"))
        (problem,) = error.value.problems
        message = "row 'a': 'a.txt' has 1048577 bytes, at most 1048576 are read"
        assert (problem.message, problem.help) == (message, "name a shorter file")

    def test_a_link_that_leads_out_of_the_folder_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
        (tmp_path / "scripts").mkdir()
        (tmp_path / "scripts" / "a.txt").symlink_to(tmp_path / "secret.txt")
        file = tmp_path / "scripts" / "x.evseq.yaml"
        file.write_text(SHORT.replace("a: [1, 2]", "a: {file: a.txt}"), encoding="utf-8")
        with pytest.raises(ScriptError) as error:
            parse(read(file))
        assert [problem.message for problem in error.value.problems] == [
            "row 'a': 'a.txt' leads out of the script's folder"
        ]

    def test_every_arm_that_something_uses_is_allowed(self) -> None:
        uses = "  - append: {next: 2*n+1}\n  - crop: {row: which, by: 1}\narms: {n: [1, m], m: [2], which: [a, b]}\n"
        assert list(parsed(SHORT + uses).arms) == ["n", "m", "which"]

    def test_an_event_of_another_type_is_told_in_our_words_only(self) -> None:
        assert told(SHORT + "  - append: {next: 1, greedy: x y, on: [a], rows: a}\n") == (
            "x.evseq.yaml:7:31: append: greedy is 'x y', not a number\n"
            "  6 |   - prefill: [a, b]\n"
            "> 7 |   - append: {next: 1, greedy: x y, on: [a], rows: a}\n"
            "  help: write an integer from 0 to 1000000, an arm, or a number word such as 2*window+1\n"
            "x.evseq.yaml:7:40: append: on is [a], not a name\n"
            "  6 |   - prefill: [a, b]\n"
            "> 7 |   - append: {next: 1, greedy: x y, on: [a], rows: a}\n"
            "  help: a name begins with a letter or _ and goes on with letters, digits and _ . -\n"
            "x.evseq.yaml:7:51: append: rows is 'a', not a list\n"
            "  6 |   - prefill: [a, b]\n"
            "> 7 |   - append: {next: 1, greedy: x y, on: [a], rows: a}\n"
            "  help: write a list: [a, b]"
        )


class TestAnyData:
    """Whatever stands in a file, the answer is a script or problems in our words."""

    DATA = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["a", "loud"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["rows", "a", "as", "by", "to", "on", "next", "ids", "expect", "reused", "x y", "as_"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    )

    @given(word=st.sampled_from([*ev.EVENTS, "nonsense"]), data=DATA)
    def test_an_event_is_read_or_complained_of(self, word: str, data: object) -> None:
        said = attempted("events", [{word: data}])
        assert not any(leak in said for leak in LEAKS)

    @given(data=DATA)
    def test_a_row_is_read_or_complained_of(self, data: object) -> None:
        said = attempted("rows", {"a": data, "b": {"random": data}, "c": {"text": data}})
        assert not any(leak in said for leak in LEAKS)

    @given(data=DATA, key=st.sampled_from(["evseq", "name", "about", "needs", "targets", "rows", "arms", "events"]))
    def test_a_section_is_read_or_complained_of(self, data: object, key: str) -> None:
        said = attempted(key, data)
        assert not any(leak in said for leak in LEAKS)


class TestPlace:
    def test_a_value_and_its_key_are_found(self) -> None:
        script = parsed(SHORT)
        assert script.place(("rows", "b")) == Place(file="x.evseq.yaml", line=4, column=22)
        assert script.place(("rows", "b"), key=True) == Place(file="x.evseq.yaml", line=4, column=19)

    def test_what_a_short_form_leaves_out_is_passed_over(self) -> None:
        assert parsed(SHORT).place(("events", 0, "prefill", "rows", 1)) == Place(file="x.evseq.yaml", line=6, column=18)

    def test_what_is_not_there_is_found_at_what_holds_it(self) -> None:
        assert parsed(SHORT).place(("events", 0, "prefill", "as"), key=True) == Place(
            file="x.evseq.yaml", line=6, column=14
        )

    def test_a_script_that_was_made_has_a_place_too(self) -> None:
        script = Script(name="made", about="Made.", rows={}, arms={}, events=())
        assert str(script.place(("events", 0))) == "<script>:1:1"
