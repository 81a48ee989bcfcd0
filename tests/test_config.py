from __future__ import annotations

from pathlib import Path

import pytest

from evseq.config import Config, configure
from evseq.errors import UsageError

PROJECT = """\
[project]
name = "mine"
classifiers = [
    "one",
    "two",
]

[tool.evseq]
threads = 2
target = [
    "small",
    "reference:window",
]
jsonl = "runs/last.jsonl"
arm = {dtype = ["float64", "float32"], chunk = 2}

[tool.evseq.targets.small]
# where it lies
target = "transformers:models/small"
"""


def configured(folder: Path, text: str, **given: object) -> Config:
    (folder / "pyproject.toml").write_text(text)
    return configure(given, folder=folder, environment={})


def refused(folder: Path, text: str) -> str:
    with pytest.raises(UsageError) as error:
        configured(folder, text)
    return str(error.value).replace(f"{folder}/", "")


class TestLayers:
    def test_defaults_hold_where_nobody_speaks(self, tmp_path: Path) -> None:
        config = configured(tmp_path, "")
        assert (config.target, config.arms, config.arm, config.threads) == (("reference",), "pairwise", {}, 1)
        assert (config.jsonl, config.record) == (None, None)
        assert str(config.origins["threads"]) == "default"

    def test_the_project_beats_the_default(self, tmp_path: Path) -> None:
        config = configured(tmp_path, PROJECT)
        assert (config.threads, config.target) == (2, ("small", "reference:window"))
        assert config.arm == {"dtype": ("float64", "float32"), "chunk": ("2",)}

    def test_the_environment_beats_the_project(self, tmp_path: Path) -> None:
        (tmp_path / "pyproject.toml").write_text(PROJECT)
        config = configure(folder=tmp_path, environment={"EVSEQ_THREADS": "3"})
        assert (config.threads, str(config.origins["threads"])) == (3, "EVSEQ_THREADS")

    def test_a_flag_beats_the_environment(self, tmp_path: Path) -> None:
        config = configure({"threads": "4"}, folder=tmp_path, environment={"EVSEQ_THREADS": "3"})
        assert (config.threads, str(config.origins["threads"])) == (4, "--threads")

    def test_a_flag_that_was_not_given_says_nothing(self, tmp_path: Path) -> None:
        config = configured(tmp_path, PROJECT, threads=None, target=())
        assert (config.threads, config.target) == (2, ("small", "reference:window"))

    def test_an_empty_variable_says_nothing(self, tmp_path: Path) -> None:
        assert configure(folder=tmp_path, environment={"EVSEQ_THREADS": ""}).threads == 1

    def test_values_are_taken_whole_and_never_merged(self, tmp_path: Path) -> None:
        assert configured(tmp_path, PROJECT, arm=("padding=left",)).arm == {"padding": ("left",)}


class TestProject:
    def test_the_nearest_file_counts(self, tmp_path: Path) -> None:
        (tmp_path / "pyproject.toml").write_text("[tool.evseq]\nthreads = 2\n")
        deep = tmp_path / "a" / "b"
        deep.mkdir(parents=True)
        assert configure(folder=deep, environment={}).threads == 2

    def test_an_origin_names_the_line_where_the_statement_begins(self, tmp_path: Path) -> None:
        config = configured(tmp_path, PROJECT)
        assert {name: str(origin).replace(f"{tmp_path}/", "") for name, origin in config.origins.items()} == {
            "target": "pyproject.toml:10",
            "arms": "default",
            "arm": "pyproject.toml:15",
            "threads": "pyproject.toml:9",
            "jsonl": "pyproject.toml:14",
            "record": "default",
            "targets.small": "pyproject.toml:17",
        }

    def test_a_path_is_relative_to_the_file(self, tmp_path: Path) -> None:
        assert configured(tmp_path, PROJECT).jsonl == tmp_path / "runs" / "last.jsonl"

    def test_a_path_of_a_flag_is_relative_to_here(self, tmp_path: Path) -> None:
        assert configured(tmp_path, PROJECT, jsonl="run.jsonl").jsonl == Path("run.jsonl")

    def test_named_targets_stand_for_others(self, tmp_path: Path) -> None:
        assert configured(tmp_path, PROJECT).open_names() == ("transformers:models/small", "reference:window")

    def test_another_tool_is_no_business_of_ours(self, tmp_path: Path) -> None:
        assert configured(tmp_path, "[tool.ruff]\nthreads = 'x'\n").threads == 1

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "[tool.evseq]\nthread = 2\n",
                "pyproject.toml:2: [tool.evseq]: unknown key 'thread'\n  help: did you mean 'threads'?",
            ),
            (
                "[tool.evseq]\nzzz = 2\n",
                (
                    "pyproject.toml:2: [tool.evseq]: unknown key 'zzz'\n"
                    "  help: known are target, arms, arm, threads, jsonl, record, targets"
                ),
            ),
            (
                "[tool.evseq]\narms = 'pairwse'\n",
                "pyproject.toml:2: arms: 'pairwse' selects no cases\n  help: did you mean 'pairwise'?",
            ),
            ("[tool]\nevseq = 3\n", "pyproject.toml:2: tool.evseq: 3 is no table"),
            (
                "[tool.evseq]\ntargets = 'small'\n",
                "pyproject.toml:2: targets: 'small' is no table\n  help: write [tool.evseq.targets.NAME]",
            ),
            (
                "[tool.evseq.targets.small]\n",
                (
                    "pyproject.toml:1: targets.small: {} names no target\n"
                    '  help: write target = "ENGINE:REST" under [tool.evseq.targets.small]'
                ),
            ),
            (
                "[tool.evseq.targets.small]\ntarget = 'a:b'\ngolden = 'x'\n",
                "pyproject.toml:3: [tool.evseq.targets.small]: unknown key 'golden'\n  help: known are target",
            ),
            (
                "[tool.evseq\n",
                "pyproject.toml: no TOML: Expected ']' at the end of a table declaration (at line 1, column 12)",
            ),
        ],
    )
    def test_what_does_not_fit_is_refused_with_its_line(self, tmp_path: Path, text: str, message: str) -> None:
        assert refused(tmp_path, text) == message


class TestEnvironment:
    def test_lists_are_separated_by_blanks_and_quoted_as_in_a_shell(self, tmp_path: Path) -> None:
        said = {"EVSEQ_TARGET": "reference:full 'transformers:my models/a'", "EVSEQ_ARM": "dtype=float64 chunk=2,3"}
        config = configure(folder=tmp_path, environment=said)
        assert config.target == ("reference:full", "transformers:my models/a")
        assert config.arm == {"dtype": ("float64",), "chunk": ("2", "3")}

    def test_an_open_quote_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError) as error:
            configure(folder=tmp_path, environment={"EVSEQ_TARGET": "'reference"})
        assert str(error.value) == 'EVSEQ_TARGET: "\'reference" leaves a quote open\n  help: close it'

    def test_a_value_that_does_not_fit_names_its_variable(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError) as error:
            configure(folder=tmp_path, environment={"EVSEQ_THREADS": "four"})
        assert str(error.value) == (
            "EVSEQ_THREADS: 'four' is no number of threads\n  help: use a whole number from 1 to 1024; 1 repeats best"
        )
