"""A project whose goldens lie in a real object store: run, accept, a second clone, and all that may go wrong."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from evseq.cli import main
from evseq.verdict.result import Exit
from objects import Bucket, known_to

PROJECT = """\
[tool.evseq]
target = ["small"]
goldens = "BUCKET/evseq"

[tool.evseq.targets.small]
target = "reference:full"
revision = "v1"
golden = "required"
"""

START = "green.evseq.yaml:10:5: prefill: golden: s3://bucket/evseq/small/v1/green."
Told = pytest.CaptureFixture[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A folder with a project, and a cache of its own."""

    folder: Path
    patch: pytest.MonkeyPatch
    capsys: Told

    def evseq(self, *arguments: str) -> tuple[int, list[str]]:
        """Run evseq here and return its exit code and what it prints."""
        self.patch.chdir(self.folder)
        self.patch.setenv("EVSEQ_CACHE", str(self.folder / "cache"))
        self.capsys.readouterr()
        code = main([*arguments])
        return code, self.capsys.readouterr().out.splitlines()

    def run(self) -> tuple[int, str]:
        """Run the project and return the exit code and what is told."""
        code, told = self.evseq("run", ".", "--quiet")
        return code, "\n".join(told).strip()

    def clone(self) -> Project:
        """Return what another machine gets of it: the repository."""
        folder = self.folder.with_name("second")
        shutil.copytree(self.folder, folder, ignore=shutil.ignore_patterns("cache"))
        return Project(folder=folder, patch=self.patch, capsys=self.capsys)


@pytest.fixture
def empty(here: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, capsys: Told) -> Project:
    """Return a project with no golden yet."""
    folder = here / "first"
    folder.mkdir()
    (here / "green.evseq.yaml").rename(folder / "green.evseq.yaml")
    (folder / "pyproject.toml").write_text(PROJECT.replace("BUCKET", bucket.url))
    return Project(folder=folder, patch=monkeypatch, capsys=capsys)


@pytest.fixture
def first(empty: Project) -> Project:
    """Return a project with a golden that was accepted."""
    empty.evseq("run", ".", "--update-goldens")
    empty.evseq("golden", "accept", "--reason", "the release of June")
    return empty


class TestRound:
    def test_a_run_without_goldens_writes_nothing_anywhere(self, empty: Project, bucket: Bucket) -> None:
        code, told = empty.run()
        assert (code, told.splitlines()[0].partition(": golden: ")[2]) == (
            Exit.FAILED,
            "no golden of small/v1/green; --update-goldens writes a candidate",
        )
        assert bucket.objects() == []

    def test_candidates_stay_here_until_one_is_accepted(self, empty: Project, bucket: Bucket) -> None:
        empty.evseq("run", ".", "--update-goldens")
        assert bucket.objects() == []
        assert empty.evseq("golden", "accept", "--reason", "the release of June") == (
            Exit.PASSED,
            [
                "small/v1/green: accepted",
                "  help: commit goldens and nothing else: golden changes travel alone",
            ],
        )
        (name,) = bucket.objects()
        assert name.startswith("evseq/small/v1/green.")
        assert [path.name for path in (empty.folder / "goldens").rglob("*") if path.is_file()] == ["LEDGER.yaml"]

    def test_a_second_clone_is_held_to_them(self, first: Project) -> None:
        second = first.clone()
        assert (first.run()[0], second.run()[0]) == (Exit.PASSED, Exit.PASSED)
        assert second.evseq("golden", "status")[1][-1] == "goldens: all in order"

    def test_a_second_clone_needs_no_store_any_more(self, first: Project, bucket: Bucket) -> None:
        second = first.clone()
        assert second.evseq("golden", "pull") == (
            Exit.PASSED,
            ["small/v1/green: fetched", "s3://bucket/evseq: 1 fetched"],
        )
        bucket.server.kill()
        bucket.server.wait()
        assert second.run()[0] == Exit.PASSED


class TestBroken:
    def test_changed_underneath(self, first: Project, bucket: Bucket) -> None:
        path = bucket.one()
        path.write_bytes(path.read_bytes()[:-4] + b"evil")
        second = first.clone()
        code, told = second.run()
        assert code == Exit.FAILED
        assert told.startswith(START)
        assert "that was accepted: tensor " in told
        assert "; help: `evseq golden push` puts it back from where it still lies" in told
        assert second.evseq("golden", "status")[0] == Exit.FAILED
        assert first.evseq("golden", "push")[0] == Exit.PASSED
        assert second.run()[0] == Exit.PASSED

    def test_unreachable(self, first: Project, bucket: Bucket) -> None:
        bucket.server.kill()
        bucket.server.wait()
        code, told = first.clone().run()
        assert (code, told.startswith(START)) == (Exit.FAILED, True)
        assert ".safetensors: cannot be reached: Could not connect to the endpoint URL: " in told

    def test_slow(self, first: Project, bucket: Bucket) -> None:
        os.kill(bucket.server.pid, signal.SIGSTOP)
        first.patch.setenv("EVSEQ_GOLDEN_TIMEOUT", "0.5")
        code, told = first.clone().run()
        assert (code, told.startswith(START)) == (Exit.FAILED, True)
        assert ".safetensors: nothing moved for 0.5 s; " in told

    def test_credentials_refused(self, first: Project, bucket: Bucket) -> None:
        known_to(bucket, first.patch, secret="another-secret")
        code, told = first.clone().run()
        assert (code, told.startswith(START)) == (Exit.FAILED, True)
        assert ".safetensors: access is refused: The request signature we calculated does not match" in told

    def test_a_protocol_without_its_package_is_wrong_usage(self, first: Project) -> None:
        code, _ = first.clone().evseq("run", ".", "--quiet", "--goldens", "s4://bucket/evseq")
        assert code == Exit.USAGE
