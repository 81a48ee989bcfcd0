"""A worker that is there and says nothing, as one whose machine is out of memory."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import HERE, Cluster, cluster
from evseq.errors import UsageError
from working import begun, told


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evseq.cluster.GREETING", 2)
    monkeypatch.setattr("evseq.cluster.AT_FIRST", 0.5)


def test_others_do_what_there_is_to_do(two: Cluster, tmp_path: Path) -> None:
    hung = two.worker()
    hung.process.send_signal(signal.SIGSTOP)

    made = told(two, ["a", "b", "c"], tmp_path)

    hung.kill()
    assert sorted(made) == [(0, "A"), (1, "B"), (2, "C")]


def test_nobody_else_is_there(tmp_path: Path) -> None:
    with cluster(tmp_path, workers=1) as alone:
        hung = alone.parts[1]
        hung.process.send_signal(signal.SIGSTOP)
        with pytest.raises(UsageError) as error:
            told(alone, ["a"], tmp_path)

    assert str(error.value) == (
        f"{hung.address}: this worker says nothing for 2 s\n  help: start another one in its place"
    )


def test_one_that_has_work_is_given_up_when_dask_does(tmp_path: Path) -> None:
    soon = {**HERE, "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "1s"}
    with Cluster(folder=tmp_path, env=soon) as patient:
        patient.worker()
        patient.worker()
        made = told(patient, ["stop the worker", "b", "c"], tmp_path)

    assert sorted(made, key=str) == [(0, "STOP THE WORKER"), (0, (None, True)), (1, "B"), (2, "C")]
    assert begun(tmp_path).count("stop the worker") == 2
