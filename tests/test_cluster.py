"""What a crew does, done by workers of a real cluster; what happens to them, and to who asks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from distributed import Worker

from clusters import HERE, Cluster, cluster
from evseq.cluster import shared
from evseq.connecting import connected
from evseq.errors import EvseqError, UsageError
from working import begun, halving, held, refusing, same, told, until, working


def weather() -> Mapping[str, str]:
    return {"the weather": os.environ.get("WEATHER", "fair")}


def posts(dask_worker: Worker) -> list[str]:
    """Return the runs that a worker has a post for."""
    return [name for name in dask_worker.extensions if name.startswith("evseq-")]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


class TestTheSame:
    def test_a_cluster_gives_what_a_crew_would(self, two: Cluster) -> None:
        made = shared(halving, [4, 6, 8, 10, 12], scheduler=two.scheduler, devices=[None] * 5, premises=same)

        assert sorted(made) == [(0, 2.0), (1, 3.0), (2, 4.0), (3, 5.0), (4, 6.0)]

    def test_nothing_to_do_is_nothing_done(self, two: Cluster) -> None:
        assert list(shared(halving, [], scheduler=two.scheduler, devices=[], premises=same)) == []

    def test_an_error_a_person_can_mend_keeps_its_words(self, two: Cluster) -> None:
        ((_, made),) = shared(refusing, [1], scheduler=two.scheduler, devices=[None], premises=same)

        assert isinstance(made, UsageError)
        assert str(made) == "no such target\n  help: name another"

    def test_any_other_error_tells_where_it_was(self, two: Cluster, tmp_path: Path) -> None:
        ((_, made),) = told(two, ["divide"], tmp_path)

        assert str(made).startswith("in a worker: Traceback")
        assert str(made).endswith("ZeroDivisionError: division by zero\n")

    def test_each_worker_opens_once_for_all_it_does_whatever_threads_it_has(self, two: Cluster, tmp_path: Path) -> None:
        assert len(told(two, ["a", "b", "c", "d", "e"], tmp_path)) == 5

        by = {tuple(line.split(" ")[:2]) for line in (tmp_path / "begun").read_text().splitlines()}
        assert {int(worker) for worker, _ in by} == {worker.process.pid for worker in two.parts[1:3]}
        assert len(by) == 2
        until(lambda: held(tmp_path) == [])


class TestLost:
    def test_a_process_that_is_killed_is_told_and_its_item_done_again(self, two: Cluster, tmp_path: Path) -> None:
        assert sorted(told(two, ["die once", "b"], tmp_path), key=str) == [
            (0, "DIE ONCE"),
            (0, (-signal.SIGKILL, True)),
            (1, "B"),
        ]

    def test_what_kills_two_is_not_tried_again(self, two: Cluster, tmp_path: Path) -> None:
        assert sorted(told(two, ["die", "b", "c"], tmp_path), key=str) == [
            (0, (-signal.SIGKILL, False)),
            (0, (-signal.SIGKILL, True)),
            (1, "B"),
            (2, "C"),
        ]
        assert begun(tmp_path).count("die") == 2

    def test_a_worker_of_the_cluster_that_is_killed_is_told_and_another_one_does_it(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with cluster(tmp_path) as killed:
            made = told(killed, ["take the worker along", "b", "c"], tmp_path)

        assert sorted(made, key=str) == [(0, "TAKE THE WORKER ALONG"), (0, (None, True)), (1, "B"), (2, "C")]
        assert begun(tmp_path).count("take the worker along") == 2
        assert capfd.readouterr() == ("", "")
        until(lambda: held(tmp_path) == [])

    def test_one_that_dask_starts_again_goes_on(self, tmp_path: Path) -> None:
        with cluster(tmp_path, workers=0) as alone:
            alone.worker(again=True)
            made = told(alone, ["take the worker along", "b"], tmp_path)

        assert made[0] == (0, (None, True))
        assert sorted(made[1:]) == [(0, "TAKE THE WORKER ALONG"), (1, "B")]

    def test_a_scheduler_that_is_gone_is_told(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("evseq.connecting.CONNECT", 3)
        with cluster(tmp_path, workers=1) as gone:
            items = shared(
                partial(working, tmp_path), ["a", "wait"], scheduler=gone.scheduler, devices=[None] * 2, premises=same
            )
            assert next(items) == (0, "A")
            gone.parts[0].kill()
            with pytest.raises(EvseqError) as error:
                next(items)

        assert str(error.value).startswith(f"{gone.scheduler}: the scheduler is gone")
        assert str(error.value).endswith(
            "\n  help: start it again, and with --resume FILE run what the file of --jsonl lacks"
        )
        assert error.value.exit_code == 3
        assert capfd.readouterr() == ("", "")


class TestEnds:
    def test_what_is_not_asked_for_any_more_ends(self, two: Cluster, tmp_path: Path) -> None:
        opened = partial(working, tmp_path)
        items = shared(opened, ["a", "wait"], scheduler=two.scheduler, devices=[None] * 2, premises=same)
        assert next(items) == (0, "A")
        until(lambda: "wait" in begun(tmp_path))

        items.close()

        until(lambda: held(tmp_path) == [])

    def test_so_does_what_somebody_asked_for_who_was_killed(self, two: Cluster, tmp_path: Path) -> None:
        code = (
            "import pathlib, working, clusters; "
            f"c = clusters.Cluster(folder=None, parts=[clusters.Part(process=None, address={two.scheduler!r})]); "
            f"working.told(c, ['wait', 'wait'], pathlib.Path({str(tmp_path)!r}))"
        )
        asking = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **HERE})
        until(lambda: (tmp_path / "begun").exists() and len(begun(tmp_path)) == 2)
        assert len(held(tmp_path)) == 2

        asking.kill()
        asking.wait()

        until(lambda: held(tmp_path) == [])

    def test_workers_forget_a_run_that_has_ended(self, two: Cluster, tmp_path: Path) -> None:
        with connected(two.scheduler) as client:
            items = shared(
                partial(working, tmp_path), ["a", "wait"], scheduler=two.scheduler, devices=[None] * 2, premises=same
            )
            next(items)
            assert sorted(map(len, client.run(posts).values())) == [1, 1]

            items.close()

            until(lambda: not any(client.run(posts).values()))


class TestRefused:
    def test_no_worker(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("evseq.cluster.AT_FIRST", 0.5)
        with cluster(tmp_path, workers=0) as empty, pytest.raises(UsageError) as error:
            list(shared(halving, [1], scheduler=empty.scheduler, devices=[None], premises=same))

        assert str(error.value) == (
            f"{empty.scheduler}: no worker is there\n  help: start one with `dask worker {empty.scheduler}`"
        )

    def test_no_worker_with_the_device(self, two: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("evseq.cluster.AT_FIRST", 0.5)
        with pytest.raises(UsageError) as error:
            told(two, ["a", "b"], tmp_path, devices=[None, "cuda"])

        assert str(error.value) == (
            f"{two.scheduler}: no worker has the resource 'cuda', which b needs\n"
            f"  help: start one with `dask worker {two.scheduler} --resources cuda=1`"
        )

    def test_what_has_a_device_goes_to_who_has_it(self, two: Cluster, tmp_path: Path) -> None:
        able = two.worker("--resources", "cuda=1")

        told(two, ["a", "b", "c"], tmp_path, devices=["cuda"] * 3)

        able.kill()
        by = {line.split(" ")[0] for line in (tmp_path / "begun").read_text().splitlines()}
        assert by == {str(able.process.pid)}

    def test_a_worker_that_differs(self, two: Cluster) -> None:
        foul = two.worker(env={**HERE, "WEATHER": "foul"})
        with pytest.raises(UsageError) as error:
            list(shared(halving, [1], scheduler=two.scheduler, devices=[None], premises=weather))
        foul.kill()

        assert str(error.value) == (
            f"{foul.address}: the weather is foul there, fair here\n"
            "  help: give workers what this machine has, at the same paths"
        )

    def test_a_worker_without_evseq(self, two: Cluster, tmp_path: Path) -> None:
        (tmp_path / "evseq.py").touch()
        bare = two.worker(env={"PYTHONPATH": str(tmp_path)})
        with pytest.raises(UsageError) as error:
            list(shared(halving, [1], scheduler=two.scheduler, devices=[None], premises=weather))
        bare.kill()

        assert str(error.value) == (
            f"{bare.address}: evseq cannot be run there: ModuleNotFoundError(\"No module named 'evseq.post'; "
            "'evseq' is not a package\")\n  help: give workers what this machine has, at the same paths"
        )

    def test_a_scheduler_without_evseq(self, tmp_path: Path) -> None:
        (tmp_path / "bare").mkdir()
        (tmp_path / "bare/evseq.py").touch()
        with Cluster(folder=tmp_path, env={"PYTHONPATH": str(tmp_path / "bare")}) as bare:
            worker = bare.worker()
            with pytest.raises(UsageError) as error:
                told(bare, ["a"], tmp_path)

        assert str(error.value).startswith(
            f"{bare.scheduler}: nothing can be handed to {worker.address}: in a worker: "
        )
        assert str(error.value).endswith("\n  help: the scheduler, too, needs the evseq and the Dask of this machine")
