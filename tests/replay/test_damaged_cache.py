"""A sealed cache damaged while sessions run: its own error, an empty target, undisturbed neighbours."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evseq.cache.canonical import canonical, parse
from evseq.cache.identity import Identity
from evseq.engines.reference.engine import ReferenceEngine
from evseq.engines.reference.session import ReferenceSession
from evseq.replay.asking import save
from evseq.replay.contents import same_bits
from evseq.replay.recording import Recording
from playing import lines, played, recorded

FULL = "reference:full"

EVENTS = """\
rows:
  a: {random: {length: 11, seed: 1}}
  b: [17, 4, 59, 3, 8, 21]
events:
  - prefill: {rows: {a: 7, b: 3}}
  - serialize: {to: mid}
  - fork: {as: twin}
  - append: {next: 1}
  - reload: {from: mid, as: again}
  - append: {next: 1, on: again}
  - append: {next: 1}
  - append: {next: 2, on: twin}
"""

ELSEWHERE = EVENTS.replace("as: again}", "as: again, process: fresh}")

HELP = "help: the file was changed after it was written: take an undamaged copy, or write it again"

Damage = Callable[[bytes], bytes]


def truncated(data: bytes) -> bytes:
    return data[:-1]


def cut_in_header(data: bytes) -> bytes:
    return data[:100]


def bit_of_header(data: bytes) -> bytes:
    return data[:40] + bytes([data[40] ^ 1]) + data[41:]


def bit_of_payload(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def fields(change: Callable[[dict[str, Any]], Any]) -> Damage:
    """Return a damage that only a forger makes: other fields, under the seal they would have."""

    def damaged(data: bytes) -> bytes:
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        held: Any = parse(base64.b64decode(header["__metadata__"]["evseq"]))
        del held["seal"]
        change(held)
        sealed = {**held, "seal": hashlib.sha256(canonical(held)).hexdigest()}
        header["__metadata__"]["evseq"] = base64.b64encode(canonical(sealed)).decode()
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text + data[8 + size :]

    return damaged


DAMAGES: dict[str, Damage] = {
    "truncated": truncated,
    "truncated in the header": cut_in_header,
    "bit of the header": bit_of_header,
    "bit of the payload": bit_of_payload,
    "version": fields(lambda held: held.update(version=2)),
    "missing field": fields(lambda held: held.pop("digests")),
    "extra field": fields(lambda held: held.update(owner="me")),
}

TOLD = {
    "truncated": r"Truncated: FILE: ends at byte (\d+) of \d+\n  help: the copy was cut short: copy .*",
    "truncated in the header": r"Truncated: FILE: ends at byte 100, its header at byte \d+\n  help: the copy was .*",
    "bit of the header": r"HeaderDamaged: FILE: metadata: not msgpack: .*\n  help: the file was changed after .*",
    "bit of the payload": (
        r"DigestMismatch: FILE: tensor 'layer\.2\.values', bytes \d+ to \d+: BLAKE3 is \w{64}, recorded \w{64}"
        r"\n  help: the file was changed after .*"
    ),
    "version": r"UnknownVersion: FILE: version: 2, this evseq reads 1\n  help: read it with the evseq that wrote .*",
    "missing field": (
        r"MissingField: FILE: digests: missing, every sealed file has it\n  help: the file was changed after .*"
    ),
    "extra field": (
        r"UnknownField: FILE: owner: no sealed file of version 1 has it\n  help: the file was changed after .*"
    ),
}


def damaging(monkeypatch: pytest.MonkeyPatch, damage: Damage) -> None:
    """Damage every sealed cache as soon as it is written."""

    def saved(path: Path, **named: Any) -> None:
        save(path, **named)
        path.write_bytes(damage(path.read_bytes()))

    monkeypatch.setattr("evseq.replay.player.save", saved)


def opening(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the sessions an engine of this process opens."""
    opened: list[int] = []
    open_ = ReferenceEngine.open

    def counted(engine: ReferenceEngine, layout: Any) -> Any:
        opened.append(1)
        return open_(engine, layout)

    monkeypatch.setattr(ReferenceEngine, "open", counted)
    return opened


@pytest.fixture(scope="module")
def healthy() -> Recording:
    return recorded(EVENTS, FULL)


@pytest.mark.parametrize("name", DAMAGES)
def test_the_reload_is_an_error_that_names_file_and_place(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    damaging(monkeypatch, DAMAGES[name])

    (found,) = lines(played(EVENTS, FULL))

    told = TOLD[name].replace("FILE", r".*/mid\.cache\.safetensors")
    assert re.fullmatch(rf"case\.evseq\.yaml:12:5: reload: completed: session 'again': {told}", found)


@pytest.mark.parametrize("name", DAMAGES)
def test_nothing_is_opened_and_every_other_session_continues_bit_for_bit(
    name: str, monkeypatch: pytest.MonkeyPatch, healthy: Recording
) -> None:
    damaging(monkeypatch, DAMAGES[name])
    opened = opening(monkeypatch)

    recording = recorded(EVENTS, FULL)

    assert (recording.asked, recording.moved) == ([], [])
    assert "again" not in {probed.session for probed in recording.probed}
    assert len(opened) == 1 + 2  # the prefill, and two that show whether the engine repeats itself
    others = [fed for fed in healthy.fed if fed.session != "again"]
    assert [fed.session for fed in recording.fed] == [fed.session for fed in others]
    assert all(same_bits(one.logits, other.logits) for one, other in zip(recording.fed, others, strict=True))


def test_a_fresh_process_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    damaging(monkeypatch, bit_of_payload)

    found = lines(played(ELSEWHERE, FULL))

    assert len(found) == 1
    assert found[0].startswith("case.evseq.yaml:12:5: reload: completed: session 'again': DigestMismatch: ")
    assert found[0].endswith(HELP)


def test_an_identity_that_lacks_a_field_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_salt(held: dict[str, Any]) -> None:
        del held["identity"]["salt"]
        held["fingerprint"] = Identity(values=held["identity"]).fingerprint()

    damaging(monkeypatch, fields(without_salt))

    assert lines(played(EVENTS, FULL)) == [
        (
            "case.evseq.yaml:12:5: reload: row 'a' index 0: refusal: "
            "refused for salt: missing in the file, though nothing was changed"
        )
    ]


def test_a_tensor_the_engine_does_not_know_is_refused_by_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    exported = ReferenceSession.export

    def more(session: ReferenceSession) -> Any:
        state = exported(session)
        return replace(state, scalars={**state.scalars, "extra": 1})

    monkeypatch.setattr(ReferenceSession, "export", more)

    assert lines(played(EVENTS, FULL))[0].startswith(
        "case.evseq.yaml:12:5: reload: completed: session 'again': EngineError: restore: extra is unknown"
    )
