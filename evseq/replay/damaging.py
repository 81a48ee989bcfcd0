"""Damaging: asking for copies of a sealed file that were damaged after it was written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from evseq.cache.damage import NotWritable
from evseq.cache.regions import variants
from evseq.engines.protocol import Engine
from evseq.replay.asking import Claim, ask
from evseq.replay.fresh import RemoteEngine
from evseq.replay.opening import RAISED, told
from evseq.replay.recording import Damaged
from evseq.script.steps import LoadDamaged

__all__ = ["ask_damaged"]

COPY = "+damaged.cache.safetensors"
"""The name of the copy; no script can name a file so."""


def ask_damaged(step: LoadDamaged, index: int, path: Path, *, engine: Engine, claim: Claim) -> Iterator[Damaged]:
    """Ask for a copy of the file damaged in one place after the other; what is admitted is not opened.

    Raises NotWritable where the folder takes no more, and a `Damage` where the file itself is not sound.
    """
    copy, claim = path.with_name(COPY), replace(claim, opens=False)
    for variant in variants(path.read_bytes(), step.region):
        _write(copy, variant.content)
        error, words, before = None, "", engine.forwarded
        try:
            engine.ask(copy, claim=claim) if isinstance(engine, RemoteEngine) else ask(copy, engine=engine, claim=claim)
        except RAISED as raised:
            error, words = type(raised).__name__, told(raised).replace(f"{copy}: ", "").partition("\n")[0]
        yield Damaged(
            step=index,
            session=step.session,
            place=variant.place,
            error=error,
            told=words,
            forwarded=engine.forwarded - before,
        )


def _write(path: Path, content: bytes) -> None:
    """Write a file that nobody needs after a crash, so without a wait for the disk."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise NotWritable(path, f"cannot be written: {error.strerror or error}") from error
