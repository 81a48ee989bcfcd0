"""The file of a quick set: what is read, and what is wrong in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evseq.errors import ScriptError, UsageError
from evseq.script.picks import Pick
from evseq.script.quick import QUICK, quick, quick_scripts


def written(folder: Path, text: str) -> Path:
    file = folder / "quick.txt"
    file.write_text(text, encoding="utf-8")
    return file


def told(folder: Path, text: str) -> list[str]:
    """Return what is wrong, each problem behind its line and column."""
    with pytest.raises(ScriptError) as error:
        quick(written(folder, text))
    return [
        f"{problem.place.line}:{problem.place.column}: {problem.message}: {problem.help}"
        for problem in error.value.problems
    ]


def test_the_one_that_ships_is_right() -> None:
    picks = quick()

    assert [str(pick) for pick in picks] == QUICK.read_text(encoding="utf-8").splitlines()
    assert sum(len(script.picks) for script in quick_scripts()) == len(picks)


def test_blank_lines_say_nothing(tmp_path: Path) -> None:
    file = written(tmp_path, "\nfork-chain  cache=all \n  \n\ncrop-to-the-start\n\n")

    assert quick(file) == (Pick(script="fork-chain", arms={"cache": "all"}), Pick(script="crop-to-the-start"))


def test_everything_wrong_is_told_with_its_place_and_the_next_step(tmp_path: Path) -> None:
    text = "fork-chain\nfork-chain cahce=all\npads-swept padding=lift dtype cache=all cache=all\n\nfork-chain \n"

    assert told(tmp_path, text) == [
        "2:12: fork-chain has no arm 'cahce': did you mean 'cache'? known: padding, cache, dtype",
        "3:12: arm 'padding' has no value 'lift': did you mean 'left'? known: all, left, right, holes",
        "3:25: 'dtype' tells no arm: write NAME=VALUE, as in padding=right",
        "3:41: arm 'cache' is there twice: keep one of the two",
        "5:1: this pick is there twice: keep one of the two",
    ]


@pytest.mark.parametrize("line", ["# what the audit found", "../suite/fork-chain", "cache=all"])
def test_what_names_no_script_of_the_suite_is_told(line: str, tmp_path: Path) -> None:
    (found,) = told(tmp_path, f"{line}\n")

    assert found.startswith(f"1:1: no script of the suite has the name {line.split(maxsplit=1)[0]!r}: ")


def test_a_kind_of_cache_that_the_script_leaves_to_the_target_is_told(tmp_path: Path) -> None:
    assert told(tmp_path, "fork-chain cache=ring\n") == ["1:12: arm 'cache' has no value 'ring': known: all"]


def test_the_line_is_shown(tmp_path: Path) -> None:
    file = written(tmp_path, "fork-chain cache=all\nfork-chain dtype\n")

    with pytest.raises(ScriptError) as error:
        quick(file)

    assert str(error.value) == (
        f"{file}:2:12: 'dtype' tells no arm\n"
        "  1 | fork-chain cache=all\n"
        "> 2 | fork-chain dtype\n"
        "  help: write NAME=VALUE, as in padding=right"
    )


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    file = tmp_path / "quick.txt"
    file.write_bytes(b"fork-chain\xff\n")

    with pytest.raises(UsageError) as error:
        quick(file)

    assert str(error.value) == (
        f"{file}: cannot be read: byte 0xff is not UTF-8\n  help: `evseq audit --quick-file {file}` writes one"
    )
