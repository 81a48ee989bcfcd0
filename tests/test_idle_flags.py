"""A flag or a setting that would say nothing is refused or told."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from evseq.cli import main
from evseq.config import configure
from evseq.verdict.result import Exit, Forwards, Result
from fronts import run_pytest

pytest_plugins = ["pytester"]

CLUSTER = "tcp://127.0.0.1:8786"


@pytest.mark.usefixtures("here")
class TestRefused:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["run", ".", "--scheduler", CLUSTER, "-n", "2"],
                "--scheduler and -n exclude each other\n  help: keep one of them\n",
            ),
            (["run", "--suite", "--quick"], "--suite has every case of --quick\n  help: keep one of them\n"),
            (
                ["qualify", "--quick", "--arms", "all"],
                "--quick has cases of its own, whatever --arms\n  help: keep one of them, or name an --arm\n",
            ),
            (
                ["qualify", "--golden-form", "full"],
                "--golden-form says nothing without --update-goldens\n  help: say both, or neither\n",
            ),
            (["golden", "prune", "--reason", "old"], "--reason: of what?\n  help: say --delete too, or leave it out\n"),
            (["judge", "absent", "-v", "-q"], "-v and -q exclude each other\n  help: keep one of them\n"),
        ],
    )
    def test_a_flag_that_says_nothing_beside_another(
        self, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(arguments) == Exit.USAGE
        assert capsys.readouterr() == ("", message)


class TestNearer:
    """Workers here and those of a cluster exclude each other: who is nearer to the call says which."""

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> Mock:
        none = Result(cases=(), targets=(), forwards=Forwards(), seconds=0.0)
        asked = Mock(return_value=none)
        monkeypatch.setattr("evseq.pipeline.run", asked)
        return asked

    def test_a_flag_asks_for_processes_here_whatever_the_project_says(self, here: Path, asked: Mock) -> None:
        (here / "pyproject.toml").write_text(f"[tool.evseq]\nscheduler = '{CLUSTER}'\n")

        main(["run", ".", "-n", "2"])

        assert asked.call_args.kwargs["settings"].workers == 2
        assert asked.call_args.kwargs["settings"].scheduler is None

    def test_what_the_project_says_of_both_is_the_cluster(self, here: Path, asked: Mock) -> None:
        (here / "pyproject.toml").write_text(f"[tool.evseq]\nscheduler = '{CLUSTER}'\nworkers = 2\n")

        main(["run", "."])

        assert asked.call_args.kwargs["settings"].scheduler == CLUSTER

    @pytest.mark.parametrize(
        ("flag", "variable", "cluster"),
        [
            ({}, {}, None),
            ({"scheduler": CLUSTER}, {"EVSEQ_WORKERS": "2"}, CLUSTER),
            ({"workers": "2"}, {"EVSEQ_SCHEDULER": CLUSTER}, None),
            ({}, {"EVSEQ_WORKERS": "2", "EVSEQ_SCHEDULER": CLUSTER}, CLUSTER),
        ],
    )
    def test_a_flag_is_nearer_than_the_environment(
        self, here: Path, flag: dict[str, str], variable: dict[str, str], cluster: str | None
    ) -> None:
        assert configure(flag, folder=here, environment=variable).cluster == cluster

    def test_the_environment_is_nearer_than_the_project(self, here: Path) -> None:
        (here / "pyproject.toml").write_text(f"[tool.evseq]\nscheduler = '{CLUSTER}'\n")

        assert configure(folder=here, environment={"EVSEQ_WORKERS": "2"}).cluster is None


@pytest.mark.usefixtures("folder")
class TestPytest:
    def test_settings_of_a_run_are_told_to_do_nothing_here(
        self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pytester.makepyprojecttoml(f"[tool.evseq]\nscheduler = '{CLUSTER}'\n")
        monkeypatch.setenv("EVSEQ_WORKERS", "2")

        told = run_pytest(pytester, "--collect-only").outlines

        place = f"{pytester.path}/pyproject.toml:2"
        assert f"evseq: cases are played here, whatever workers (EVSEQ_WORKERS), scheduler ({place}) may say" in told

    def test_nothing_is_told_where_nobody_says_any(self, pytester: pytest.Pytester) -> None:
        pytester.makepyprojecttoml("[tool.evseq]\nthreads = 1\n")

        assert "evseq: cases are played" not in run_pytest(pytester, "--collect-only").stdout.str()

    def test_a_project_that_is_wrong_is_told_by_the_scripts(self, pytester: pytest.Pytester) -> None:
        pytester.makepyprojecttoml("[tool.evseq]\nthraeds = 1\n")

        told = run_pytest(pytester, "--collect-only")

        assert told.ret is pytest.ExitCode.INTERRUPTED
        told.stdout.fnmatch_lines(["*pyproject.toml:2: [[]tool.evseq[]]: unknown key 'thraeds'"])

    def test_and_is_no_matter_where_there_is_none(
        self, folder: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (folder / "green.evseq.yaml").unlink()
        pytester.makepyfile("def test_other(): pass")
        monkeypatch.setenv("EVSEQ_THRAEDS", "2")

        run_pytest(pytester).assert_outcomes(passed=1)

    def test_a_form_of_goldens_of_which_pytest_writes_none(self, pytester: pytest.Pytester) -> None:
        result = run_pytest(pytester, "--evseq-golden-form=full")

        assert result.ret is pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["*--evseq-golden-form says nothing without *", "*help: say both, or neither"])
