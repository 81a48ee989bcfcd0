"""A folder that takes nothing more while a run writes to it: told, and no case loses its verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from accepting import accepted, held, terms
from evseq.cache.damage import NotWritable
from evseq.errors import UsageError
from evseq.golden import making
from evseq.pipeline import Settings, run
from evseq.verdict.result import Exit, Outcome
from playing import DOUBLE, script

FULL = "reference:full"
TEXT = "rows: {a: [1, 2, 3]}\nevents: [{prefill: {rows: {a: 2}}}, {append: {next: 1}}]\n"
SCRIPTS = [script(TEXT, name=name, file=f"{name}.evseq.yaml") for name in ("one", "two")]


def refusing(folder: Path) -> Callable[..., None]:
    """Return what refuses to write as a full disk does."""

    def refuse(*_: object, **__: object) -> None:
        raise NotWritable(folder, "cannot be written: No space left on device")

    return refuse


def test_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def filled(folder: Path) -> None:
        asked.append(folder)
        if len(asked) > 1:
            raise UsageError(f"{folder}: goldens cannot be written: No space left on device")

    monkeypatch.setattr(making, "check_folder", filled)
    monkeypatch.setattr(making, "store", refusing(tmp_path))

    result = held(SCRIPTS, FULL, replace(terms(tmp_path), update=True))

    assert [case.outcome for case in result.cases] == [Outcome.PASSED, Outcome.PASSED]
    assert (result.exit, len(result.unwritten)) == (Exit.USAGE, 2)
    assert result.unwritten[0].startswith(f"{tmp_path}: cannot be written: No space left on device\n  help: ")


def test_witnesses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted(SCRIPTS, FULL, terms(tmp_path, FULL))
    monkeypatch.setattr("evseq.golden.witnessing.update", refusing(tmp_path))

    result = held(SCRIPTS, FULL, replace(terms(tmp_path, FULL), witness=True))

    assert [case.outcome for case in result.cases] == [Outcome.PASSED, Outcome.PASSED]
    assert (result.exit, len(result.unwritten)) == (Exit.USAGE, 2)


@pytest.mark.parametrize("name", ["kept/*", "goldens/*/*/*.candidate.safetensors"])
def test_a_link_in_place_of_what_would_be_written(name: str, tmp_path: Path) -> None:
    said = Settings(
        only=DOUBLE, record=tmp_path / "kept", goldens=replace(terms(tmp_path / "goldens", FULL), update=True)
    )
    run(SCRIPTS, [FULL], settings=said)
    first, _ = sorted(tmp_path.glob(name))
    first.unlink()
    first.symlink_to("/dev/full")

    result = run(SCRIPTS, [FULL], settings=said)

    assert (len(result.cases), len(result.unwritten), first.is_symlink()) == (2, 1, True)
    assert result.unwritten[0].startswith(f"{first}: ")
