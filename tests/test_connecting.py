"""Who cannot be connected to is told within seconds, with a next step; what Dask logs is for others."""

from __future__ import annotations

import logging
import socket
import sys
from pathlib import Path

import pytest

from clusters import cluster
from evseq.connecting import connected, workers
from evseq.errors import UsageError


def connect(address: str) -> None:
    with connected(address):
        pass


class TestConnected:
    def test_a_scheduler_says_who_works_for_it(self, tmp_path: Path) -> None:
        with cluster(tmp_path, workers=1) as started, connected(started.scheduler) as client:
            there = workers(client, started.scheduler)

        assert list(there) == [started.parts[1].address]

    def test_logs_are_as_they_were_afterwards(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        logger = logging.getLogger("distributed")
        with cluster(tmp_path, workers=0) as started:
            connect(started.scheduler)
            before = list(logger.handlers)
            with connected(started.scheduler):
                logger.error("this is not for a terminal")
                logging.getLogger("distributed.client").error("nor is this")

        assert logger.handlers == before
        assert capfd.readouterr() == ("", "")


class TestRefused:
    def test_nobody_at_the_address(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("evseq.connecting.CONNECT", 1)
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            address = f"tcp://127.0.0.1:{held.getsockname()[1]}"
            with pytest.raises(UsageError) as error:
                connect(address)

        assert str(error.value).startswith(f"{address}: no scheduler answers: ")
        assert str(error.value).endswith(
            "\n  help: start one with `dask scheduler`, or write the address that it prints"
        )

    def test_somebody_who_says_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("evseq.connecting.CONNECT", 1)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
            with pytest.raises(UsageError) as error:
                connect(address)

        assert str(error.value).startswith(f"{address}: no scheduler answers: ")

    def test_a_worker_in_place_of_its_scheduler(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        with cluster(tmp_path, workers=1) as started:
            address = started.parts[1].address
            with pytest.raises(UsageError) as error:
                connect(address)

        assert str(error.value) == (
            f"{address}: no scheduler answers: a Worker does\n"
            "  help: start one with `dask scheduler`, or write the address that it prints"
        )
        assert capfd.readouterr() == ("", "")

    def test_the_extra_that_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "distributed", None)
        with pytest.raises(UsageError) as error:
            connect("tcp://nowhere:1")

        assert str(error.value) == (
            "tcp://nowhere:1: distributed is not installed\n  help: pip install 'evseq[cluster]'"
        )
