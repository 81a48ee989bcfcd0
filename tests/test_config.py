from __future__ import annotations

import sys
from pathlib import Path

import pytest

from evseq.config import Config, configure
from evseq.errors import TargetError, UsageError
from evseq.golden.root import Root
from evseq.golden.store import Store
from evseq.golden.terms import FormWord, Need, TargetTerms, Terms

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
golden = "required"
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
            "workers": "default",
            "scheduler": "default",
            "jsonl": "pyproject.toml:14",
            "record": "default",
            "known": "default",
            "goldens": "default",
            "revision": "default",
            "require-goldens": "default",
            "golden-form": "default",
            "golden-timeout": "default",
            "cache": "default",
            "targets.small": "pyproject.toml:17",
            "targets.small.revision": "default",
            "targets.small.golden": "pyproject.toml:20",
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
                    "  help: known are target, arms, arm, threads, workers, scheduler, jsonl, record, known, "
                    "goldens, revision, require-goldens, golden-form, golden-timeout, cache, targets"
                ),
            ),
            (
                "[tool.evseq]\narms = 'pairwse'\n",
                "pyproject.toml:2: arms: 'pairwse' selects no cases\n  help: did you mean 'pairwise'?",
            ),
            (
                "[tool]\nevseq = 3\n",
                "pyproject.toml:2: tool.evseq: 3 is no table\n  help: write [tool.evseq] and settings under it",
            ),
            (
                "[tool.evseq]\nupdate-goldens = true\n",
                (
                    "pyproject.toml:2: [tool.evseq]: 'update-goldens' is no setting\n"
                    "  help: say --update-goldens each time"
                ),
            ),
            (
                "[tool.evseq]\nrequire-goldens = 'yes'\n",
                "pyproject.toml:2: require-goldens: 'yes' is neither true nor false\n  help: say one of them",
            ),
            (
                "[tool.evseq]\nrevision = 'a/b'\n",
                (
                    "pyproject.toml:2: revision: 'a/b' is no label\n"
                    "  help: use at most 64 letters, digits, '.', '_' and '-', the first a letter or a digit"
                ),
            ),
            (
                "[tool.evseq\n",
                (
                    "pyproject.toml: no TOML: Expected ']' at the end of a table declaration (at line 1, column 12)\n"
                    "  help: mend the file at that place"
                ),
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

    @pytest.mark.parametrize(
        ("text", "value"), [("1", True), ("Yes", True), ("true", True), ("0", False), ("no", False)]
    )
    def test_a_switch_is_a_word_or_a_digit(self, tmp_path: Path, text: str, *, value: bool) -> None:
        config = configure(folder=tmp_path, environment={"EVSEQ_REQUIRE_GOLDENS": text})
        assert (config.require_goldens, str(config.origins["require-goldens"])) == (value, "EVSEQ_REQUIRE_GOLDENS")

    @pytest.mark.parametrize(
        ("name", "told"),
        [
            ("EVSEQ_TREADS", "no setting has this variable\n  help: did you mean EVSEQ_THREADS?"),
            (
                "EVSEQ_",
                (
                    "no setting has this variable\n"
                    "  help: known are EVSEQ_TARGET, EVSEQ_ARMS, EVSEQ_ARM, EVSEQ_THREADS, EVSEQ_WORKERS, "
                    "EVSEQ_SCHEDULER, EVSEQ_JSONL, EVSEQ_RECORD, EVSEQ_KNOWN, EVSEQ_GOLDENS, EVSEQ_REVISION, "
                    "EVSEQ_REQUIRE_GOLDENS, EVSEQ_GOLDEN_FORM, EVSEQ_GOLDEN_TIMEOUT, EVSEQ_CACHE, EVSEQ_TRACEBACK"
                ),
            ),
            (
                "EVSEQ_UPDATE_GOLDENS",
                "no variable stands for this flag\n  help: say --update-goldens each time",
            ),
            (
                "EVSEQ_UPDATE_WITNESS",
                "no variable stands for this flag\n  help: say --update-witness each time",
            ),
        ],
    )
    def test_a_variable_nobody_knows_is_refused(self, tmp_path: Path, name: str, told: str) -> None:
        with pytest.raises(UsageError) as error:
            configure(folder=tmp_path, environment={name: "1"})
        assert str(error.value) == f"{name}: {told}"

    def test_variables_of_others_and_that_for_tracebacks_are_left_alone(self, tmp_path: Path) -> None:
        said = {"EVSEQ_TRACEBACK": "1", "_EVSEQ_COMPLETE": "zsh_source", "MY_EVSEQ_THREADS": "x"}
        assert configure(folder=tmp_path, environment=said).threads == 1


class TestStanding:
    def test_targets_of_every_run_stand(self, tmp_path: Path) -> None:
        assert (configured(tmp_path, "").standing, configured(tmp_path, PROJECT).standing) == (True, True)

    def test_targets_somebody_asks_for_do_not(self, tmp_path: Path) -> None:
        said = {"EVSEQ_TARGET": "reference:full"}
        by_variable = configure(folder=tmp_path, environment=said)
        assert (configured(tmp_path, PROJECT, target=("small",)).standing, by_variable.standing) == (False, False)


class TestTerms:
    def test_goldens_lie_beside_the_project(self, tmp_path: Path) -> None:
        (tmp_path / "deep").mkdir()
        (tmp_path / "pyproject.toml").write_text("")
        assert configure(folder=tmp_path / "deep", environment={}).terms() == Terms(
            root=tmp_path / "goldens", project=tmp_path
        )

    def test_they_say_what_the_settings_say(self, tmp_path: Path) -> None:
        given = {"goldens": "kept", "revision": "v2", "require_goldens": True, "golden_form": "full"}
        assert configured(tmp_path, "", **given).terms(update=True, witness=True) == Terms(
            root=Path("kept"),
            project=tmp_path,
            revision="v2",
            require=True,
            update=True,
            witness=True,
            form=FormWord.FULL,
        )

    def test_a_url_of_goldens_is_no_folder(self, tmp_path: Path) -> None:
        text = '[tool.evseq]\ngoldens = "s3://bucket/evseq/"\ncache = "kept"\ngolden-timeout = 5\n'
        config = configured(tmp_path, text)
        store = Store(url="s3://bucket/evseq", cache=tmp_path / "kept", timeout=5.0)
        assert config.terms() == Terms(root=tmp_path / "goldens", store=store, project=tmp_path)
        assert config.root() == Root(folder=tmp_path / "goldens", store=store)

    def test_a_cache_nobody_named_is_the_users(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "linux")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert configured(tmp_path, "").cache_folder() == tmp_path / "evseq"

    def test_a_named_target_is_found_by_its_text(self, tmp_path: Path) -> None:
        small = "[tool.evseq.targets.small]\ntarget = 'a:b'\nrevision = 'v1'\ngolden = 'required'\n"
        assert configured(tmp_path, small).terms().targets == {
            "a:b": TargetTerms(model="small", revision="v1", need=Need.REQUIRED)
        }

    def test_an_engine_alone_is_each_of_its_configurations_unless_that_has_a_name(self, tmp_path: Path) -> None:
        text = "[tool.evseq.targets]\nall = {target = 'reference'}\nwide = {target = 'reference:full'}\n"
        terms = configured(tmp_path, text).terms().targets
        assert {target: said.model for target, said in terms.items()} == {
            "reference:full": "wide",
            "reference:window": "all-window",
            "reference:learned": "all-learned",
            "reference:alibi": "all-alibi",
            "reference:narrow": "all-narrow",
        }

    def test_a_configuration_that_is_a_path_gives_one_folder(self, tmp_path: Path) -> None:
        terms = configured(tmp_path, "[tool.evseq.targets.new]\ntarget = 'transformers'\n").terms().targets
        assert terms["transformers:new/llama"].model == "new-new-llama"

    def test_an_engine_that_is_not_there_is_refused_with_its_line(self, tmp_path: Path) -> None:
        config = configured(tmp_path, "[tool.evseq.targets.big]\ntarget = 'refrence'\n")
        with pytest.raises(TargetError) as error:
            config.terms()
        assert str(error.value).startswith(
            f"{tmp_path}/pyproject.toml:1: targets.big: refrence: no engine 'refrence'\n"
            "  help: did you mean 'reference'?"
        )
