"""A real child process: it continues bit for bit, and its death is a finding and not the end of the run."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from evseq.cache.damage import Truncated
from evseq.cache.sealed import SealedKind, open_sealed
from evseq.engines.protocol import Batch, Engine, Session
from evseq.engines.registry import find
from evseq.errors import EngineError
from evseq.geometry import Description, Dtype, Layout
from evseq.history import Path as History
from evseq.replay.asking import Claim, ask, save
from evseq.replay.child import Call, Child
from evseq.replay.fresh import Fresh, RemoteEngine, RemoteSession
from evseq.replay.serving import _Server
from evseq.script.request import Request, RequestedRow
from playing import DOUBLE, failed, lines, played, script

FULL = "reference:full"
LAYOUT = Layout(rows=2, capacity=8, depth=2, cache="fixed")
PROMPT = Batch(
    tokens=torch.tensor([[5, 6, 7], [0, 8, 9]]),
    mask=torch.tensor([[True, True, True], [False, True, True]]),
    positions=torch.tensor([[0, 1, 2], [0, 0, 1]]),
)
NEXT = Batch(
    tokens=torch.tensor([[3], [4]]), mask=torch.ones(2, 1, dtype=torch.bool), positions=torch.tensor([[3], [2]])
)

ELSEWHERE = """\
rows:
  a: {random: {length: 10, seed: 1}}
  b: [17, 4, 59, 3, 8, 21]
arms:
  padding: [left, right]
events:
  - prefill: {rows: {a: 7, b: 3}}
  - serialize: {to: mid}
  - append: {next: 2}
  - reload: {from: mid, as: elsewhere, process: fresh}
  - append: {next: 1, on: elsewhere}
  - append: {next: 1, on: elsewhere}
  - append: {next: 1}
"""


@pytest.fixture(scope="module")
def fresh() -> Iterator[Fresh]:
    """Return one child for all tests that leave it alive."""
    fresh = Fresh()
    yield fresh
    fresh.close()


@pytest.fixture(scope="module")
def remote(fresh: Fresh) -> RemoteEngine:
    return fresh.engine(FULL, Dtype.FLOAT64, {})


@pytest.fixture(scope="module")
def local() -> Engine:
    return find(FULL).load(Dtype.FLOAT64, {})


def claim(description: Description, *, first: int = 5) -> Claim:
    """Return the claim of a session that holds `PROMPT`, or one token more or less like it."""
    rows = (
        RequestedRow(name="a", slots=(first, 6, 7), positions=(0, 1, 2), text=None),
        RequestedRow(name="b", slots=(-1, 8, 9), positions=(0, 1), text=None),
    )
    request = Request(rows=rows, salt=None, padding="left")
    return Claim(description=description, layout=LAYOUT, request=request, furthest=3)


@pytest.fixture
def saved(tmp_path: Path, local: Engine) -> Path:
    """Return where the cache of a session of this process lies."""
    session = local.open(LAYOUT)
    session.prefill(PROMPT)
    save(tmp_path / "mid", engine=local, session=session, claim=claim(find(FULL).describe()))
    return tmp_path / "mid"


class TestRemote:
    def test_it_is_an_engine_like_any_other(self, remote: RemoteEngine, local: Engine) -> None:
        assert isinstance(remote, Engine)
        assert isinstance(remote.open(LAYOUT), Session)
        assert remote.dtype is Dtype.FLOAT64
        assert remote.identity() == local.identity()
        assert remote.tokenize("the fox") == local.tokenize("the fox")
        path = History(tokens=(5, 6, 7), positions=(0, 1, 2))
        assert torch.equal(remote.uncached(path), local.uncached(path))

    def test_every_step_gives_the_bits_it_gives_here(self, remote: RemoteEngine, local: Engine) -> None:
        assert _everything(remote) == _everything(local)

    def test_columns_are_counted_where_they_are_forwarded(self, remote: RemoteEngine) -> None:
        before = remote.forwarded

        remote.open(LAYOUT).prefill(PROMPT)

        assert remote.forwarded - before == 6

    def test_two_dtypes_are_two_engines_of_one_process(self, fresh: Fresh, remote: RemoteEngine) -> None:
        single = fresh.engine(FULL, Dtype.FLOAT32, {})

        assert single.open(LAYOUT).prefill(PROMPT).dtype is torch.float32
        assert remote.open(LAYOUT).prefill(PROMPT).dtype is torch.float64

    def test_what_the_engine_raises_comes_back_with_its_type(self, remote: RemoteEngine) -> None:
        with pytest.raises(EngineError) as raised:
            remote.open(LAYOUT).append(NEXT)
        assert str(raised.value) == "append: nothing was fed to this session\n  help: prefill or restore it first"

        session = remote.open(LAYOUT)
        session.prefill(PROMPT)
        with pytest.raises(EngineError) as raised:
            session.crop([1, None])  # type: ignore[list-item]
        assert str(raised.value) == "TypeError: '<=' not supported between instances of 'int' and 'NoneType'"

    def test_a_target_the_child_cannot_open_is_an_error(self, fresh: Fresh) -> None:
        with pytest.raises(EngineError) as raised:
            fresh.engine("reference:ful", Dtype.FLOAT64, {}).identity()

        assert str(raised.value).startswith("TargetError: reference:ful: ")


class TestAsk:
    def test_an_equal_request_is_admitted_and_continues_bit_for_bit(
        self, remote: RemoteEngine, local: Engine, saved: Path
    ) -> None:
        description = find(FULL).describe()
        here = ask(saved, engine=local, claim=claim(description)).session
        assert here is not None

        answer = remote.ask(saved, claim=claim(description))

        assert (answer.differences, answer.forwarded) == ((), 0)
        assert answer.session is not None
        assert torch.equal(answer.session.append(NEXT), here.append(NEXT))

    def test_a_changed_request_is_refused_there_by_row_and_index(self, remote: RemoteEngine, saved: Path) -> None:
        answer = remote.ask(saved, claim=claim(find(FULL).describe(), first=60))

        assert answer.session is None
        assert [str(difference) for difference in answer.differences] == [
            "prefix.tokens: row 'a' index 0: recorded 5, now 60"
        ]

    def test_a_damaged_file_is_the_same_error_as_here(self, remote: RemoteEngine, saved: Path) -> None:
        saved.write_bytes(saved.read_bytes()[:-1])
        with pytest.raises(Truncated) as here:
            open_sealed(saved, kind=SealedKind.CACHE)

        with pytest.raises(Truncated) as there:
            remote.ask(saved, claim=claim(find(FULL).describe()))

        assert str(there.value) == str(here.value)


class TestReleased:
    def test_a_session_nobody_holds_is_told_with_the_next_request(self, fresh: Fresh, remote: RemoteEngine) -> None:
        gc.collect()
        assert remote.forwarded >= 0
        session = remote.open(LAYOUT)
        number = session._number  # type: ignore[attr-defined]

        del session
        gc.collect()

        assert fresh.child().released == [number]
        assert remote.forwarded >= 0
        assert fresh.child().released == []

    def test_the_child_lets_it_go(self) -> None:
        server, key = _Server(), (FULL, Dtype.FLOAT64, ())
        numbers = [server.do(Call(key=key, session=None, method="open", arguments=(LAYOUT,))).number for _ in range(3)]

        server.do(Call(key=key, session=None, method="forwarded", arguments=(), released=(numbers[0], numbers[2])))

        assert list(server.sessions) == [numbers[1]]


class TestDeath:
    def test_the_case_fails_at_the_event_and_the_other_cases_go_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(RemoteSession, "append", _killed_once(RemoteSession.append))
        started = time.perf_counter()

        result = played(script(ELSEWHERE), FULL, only={**DOUBLE, "cache": ("growing",)})

        assert lines(result) == [
            (
                "case.evseq.yaml:14:5: append: completed: session 'elsewhere': "
                "EngineError: the fresh process ended with -9 before it answered append"
            )
        ]
        assert [case.arms["padding"] for case in failed(result)] == ["left"]
        assert [case.observations for case in result.cases] == [10 + 4 + 2, 10 + 4 + 4 + 2]
        assert time.perf_counter() - started < 60

    def test_a_session_dies_with_its_process_and_reaches_no_other(self) -> None:
        fresh = Fresh()
        engine = fresh.engine(FULL, Dtype.FLOAT64, {})
        lost = engine.open(LAYOUT)
        _kill(fresh.child())
        with pytest.raises(EngineError, match="the fresh process ended with -9 before it answered prefill"):
            lost.prefill(PROMPT)

        found = engine.open(LAYOUT)
        found.prefill(PROMPT)

        with pytest.raises(EngineError) as raised:
            lost.append(NEXT)
        assert str(raised.value) == "the fresh process this belongs to has ended, no append"
        del lost
        gc.collect()
        assert found.append(NEXT).shape == (2, 1, 64)
        fresh.close()

    def test_an_interrupt_ends_it_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        child = Child(threads=1)
        monkeypatch.setattr("evseq.replay.child.pickle.load", _interrupted)
        started = time.perf_counter()

        with pytest.raises(KeyboardInterrupt):
            child.call(Call(key=(FULL, Dtype.FLOAT64, ()), session=None, method="forwarded", arguments=()))

        assert child.process.returncode == -signal.SIGKILL
        assert time.perf_counter() - started < 10

    def test_closing_ends_it(self) -> None:
        fresh = Fresh()
        child = fresh.child()
        assert fresh.engine(FULL, Dtype.FLOAT64, {}).forwarded == 0  # it has begun; on a busy machine that takes long

        fresh.close()

        assert child.process.returncode == 0

    def test_one_that_does_not_end_by_itself_is_killed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("evseq.replay.child.GRACE", 0.1)
        child = Child(threads=1)
        os.kill(child.process.pid, signal.SIGSTOP)

        assert child.end() == -signal.SIGKILL

    def test_closing_what_was_never_started_is_nothing(self) -> None:
        Fresh().close()


def _everything(engine: Engine) -> list[object]:
    """Do everything a session can, and return all that came of it in plain numbers."""
    session = engine.open(LAYOUT)
    told: list[object] = [session.prefill(PROMPT).tolist(), session.append(NEXT).tolist(), session.probe()]
    twin = session.fork()
    session.crop([3, 2])
    told.append(session.append(NEXT).tolist())
    twin.select([1, 0])
    told.append(twin.append(NEXT).tolist())
    state = twin.export()
    restored = engine.open(LAYOUT)
    restored.restore(state)
    told += [state.scalars, {name: tensor.tolist() for name, tensor in state.tensors.items()}]
    view = restored.view()
    assert view is not None
    told.append([layer.keys.tolist() for layer in view.layers])
    restored.reset()
    told += [restored.probe(), restored.prefill(PROMPT).tolist()]
    return told


def _killed_once(append: Any) -> Any:
    """Kill the child before its first append, between two events."""
    left = [1]

    def appended(session: RemoteSession, batch: Batch) -> Any:
        if left:
            left.pop()
            _kill(session._child)
        return append(session, batch)

    return appended


def _kill(child: Child) -> None:
    os.kill(child.process.pid, signal.SIGKILL)
    child.process.wait()


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt
