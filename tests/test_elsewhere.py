"""A run whose parts a real cluster plays says and writes what it would here; what happens to the cluster is told."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clusters import HERE, Cluster, cluster
from evseq.cli import main
from evseq.elsewhere import _opened, _Told, played_elsewhere
from evseq.errors import UsageError
from evseq.golden.terms import Terms
from evseq.part import Part
from evseq.pipeline import Run, Settings, run
from evseq.report.summary import lost
from evseq.verdict.result import Check, Exit, Outcome
from fronts import SLOW
from sharing import FULL, SCRIPTS, replace_file, written
from timeless import timeless, timeless_lines, timeless_recordings

FAR = """\
from dataclasses import replace

from evseq.engines.reference import loader


class Far:
    def __init__(self):
        self.healthy = loader("full")

    def __getattr__(self, name):
        return getattr(self.healthy, name)

    def describe(self):
        return replace(self.healthy.describe(), device="cuda")
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


class TestTheSame:
    def test_results_and_files_are_those_of_one_process(self, two: Cluster, here: Path) -> None:
        alone, shared = written(here / "alone"), written(here / "shared", scheduler=two.scheduler)

        assert timeless(shared) == timeless(alone)
        assert alone.exit is Exit.FAILED
        assert timeless_lines(here / "shared/run.jsonl") == timeless_lines(here / "alone/run.jsonl")
        recordings = timeless_recordings(here / "alone/recordings")
        assert len(recordings) == 12
        assert timeless_recordings(here / "shared/recordings") == recordings

    def test_candidates_are_those_of_one_process(self, two: Cluster, here: Path) -> None:
        scripts = [replace_file(one, here) for one in SCRIPTS[:2]]

        alone, shared = (
            run(scripts, [FULL], settings=Settings(goldens=Terms(root=Path(name), update=True), scheduler=scheduler))
            for name, scheduler in (("alone", None), ("shared", two.scheduler))
        )

        assert (alone.exit, len(alone.candidates)) == (Exit.FAILED, 2)
        assert [Path(name).read_bytes() for name in shared.candidates] == [
            Path(name).read_bytes() for name in alone.candidates
        ]
        assert list(Path("shared").glob(".evseq-*")) == []


class TestLost:
    def test_a_process_that_is_killed_is_told_as_one_of_this_machine(self, two: Cluster, here: Path) -> None:
        result = run(SCRIPTS[:1], [FULL, "planted.dying:once"], settings=Settings(scheduler=two.scheduler))

        assert result.exit is Exit.PASSED
        assert lost(result) == [
            "lost: 1 worker",
            "  step on planted.dying:once: a worker ended by SIGKILL; another played it again",
        ]
        assert os.getpid() not in {int(line) for line in (here / "killed").read_text().splitlines()}

    @pytest.mark.usefixtures("here")
    def test_one_that_is_killed_again_is_a_finding_and_the_others_are_judged(self, two: Cluster) -> None:
        result = run(SCRIPTS[:1], ["planted.dying:always", FULL], settings=Settings(scheduler=two.scheduler))

        assert (result.exit, result.interrupted, result.cancelled) == (Exit.FAILED, False, ())
        assert [(case.target, case.outcome) for case in result.cases] == [(FULL, Outcome.PASSED)]
        assert [(finding.check, str(finding), finding.cause) for finding in result.findings] == [
            (
                Check.COMPLETED,
                (
                    "step.evseq.yaml: completed: step on planted.dying:always: its 1 cases were not judged: "
                    "two workers, one after the other, ended by SIGKILL"
                ),
                "mostly want of memory: let fewer run at once on one machine",
            )
        ]

    def test_a_worker_of_the_cluster_that_is_killed_changes_no_verdict(self, here: Path) -> None:
        with cluster(here) as started:
            shared = run(SCRIPTS[:2], ["planted.dying:starter"], settings=Settings(scheduler=started.scheduler))
        alone = run(SCRIPTS[:2], ["planted.dying:starter"], settings=Settings())

        assert timeless(replace(shared, lost=())) == timeless(alone)
        assert [re.sub("^(step|greedy) on", "whichever on", line) for line in shared.lost] == [
            "whichever on planted.dying:starter: a worker ended unseen; another played it again"
        ]


class TestRefused:
    def test_a_device_that_no_worker_has(
        self, two: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], here: Path
    ) -> None:
        monkeypatch.setattr("evseq.cluster.AT_FIRST", 0.5)
        (here / "far.py").write_text(FAR)
        monkeypatch.syspath_prepend(here)

        assert main(["run", ".", "--target", "far:Far", "--scheduler", two.scheduler]) == Exit.USAGE

        assert capsys.readouterr().err == (
            f"{two.scheduler}: no worker has the resource 'cuda', which green on far:Far needs\n"
            f"  help: start one with `dask worker {two.scheduler} --resources cuda=1`\n"
        )

    def test_workers_that_open_different_models(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with Run(Settings()) as running:
            parts = [Part(script=one, target=FULL, chosen=running.selected(one, FULL)) for one in SCRIPTS[:2]]
            result = running.play(parts[0])
            told = [
                (place, _Told(result=result, machine=machine, model={"weights.source": weights}))
                for place, (machine, weights) in enumerate((("left", "4f"), ("right", "5e")))
            ]
            monkeypatch.setattr("evseq.elsewhere.shared", lambda *_, **__: told)

            (_, first), (_, second) = played_elsewhere(parts, running, scheduler="tcp://nowhere:1")

        assert first is result
        assert str(second) == (
            "reference:full: workers open different models: weights.source is '5e' on right, '4f' on left\n"
            "  help: give them the same files at the same path"
        )

    def test_a_machine_that_does_not_attend_the_same_way_twice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("socket.gethostname", lambda: "left")
        monkeypatch.setattr("evseq.verdict.arithmetic.one_head", lambda: ("off by 1",))

        with pytest.raises(UsageError, match=r"^left: off by 1\n  help: leave this machine out$"), _opened(Settings()):
            pass


def test_an_interrupt_keeps_what_ended_and_the_rest_can_be_resumed(two: Cluster, here: Path) -> None:
    (here / "engines.py").write_text(SLOW)
    command = [sys.executable, "-m", "evseq", "run", ".", "--target", FULL, "--target", "engines:Slow"]
    command += ["--scheduler", two.scheduler]
    running = subprocess.Popen(
        [*command, "--jsonl", "run.jsonl"], stdout=subprocess.PIPE, text=True, env={**os.environ, **HERE}
    )
    assert running.stdout is not None
    table = [running.stdout.readline() for _ in range(3)]
    running.send_signal(signal.SIGINT)
    told, _ = running.communicate(timeout=60)
    (here / "quick").touch()
    resumed = subprocess.run(
        [*command, "--resume", "run.jsonl"], capture_output=True, text=True, check=False, env={**os.environ, **HERE}
    )

    assert table[2].endswith(f"[right][{FULL}]\n")
    assert running.returncode == Exit.INTERRUPTED
    assert "cancelled: 2 cases\n  green on engines:Slow: 2 cases\n" in told
    assert told.splitlines()[-1].startswith("INTERRUPTED: 2 cases judged, 0 failed, 2 cancelled, ")
    assert resumed.stdout.startswith("kept from before: 2 cases of 1 script on their targets\n")
    assert (resumed.returncode, resumed.stderr) == (Exit.PASSED, "")
