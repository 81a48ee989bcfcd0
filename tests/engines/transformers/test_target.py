"""Target texts: what they name, and what is said of those that name nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from evseq.engines.transformers.target import Target, parse
from evseq.errors import TargetError


def test_a_folder_with_a_kernel(tmp_path: Path) -> None:
    assert parse(f"{tmp_path}?attention=eager") == Target(folder=tmp_path, settings={}, attention="eager")


def test_settings_of_a_new_model_are_read_as_json_or_words() -> None:
    assert parse("new/mistral?sliding_window=5&tie_word_embeddings=false&hidden_act=relu").settings == {
        "sliding_window": 5,
        "tie_word_embeddings": False,
        "hidden_act": "relu",
    }


def test_a_hub_cache_folder_stands_for_its_main_revision(tmp_path: Path) -> None:
    (tmp_path / "snapshots" / "abc").mkdir(parents=True)
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs" / "main").write_text("abc\n")
    assert parse(str(tmp_path)).folder == tmp_path / "snapshots" / "abc"
    assert parse(f"{tmp_path}?revision=abc").folder == tmp_path / "snapshots" / "abc"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param(
            "/none",
            "transformers:{folder}/none: no such folder\n"
            "  help: name a folder with config.json and *.safetensors, or new/NAME; nothing is downloaded",
            id="no folder",
        ),
        pytest.param(
            "?atention=eager",
            "transformers:{folder}?atention=eager: 'atention' is no option of a folder\n"
            "  help: did you mean 'attention'? known are attention, revision",
            id="misspelt",
        ),
        pytest.param(
            "?attention=eager&attention=sdpa",
            "transformers:{folder}?attention=eager&attention=sdpa: 'attention' is said twice\n  help: say it once",
            id="twice",
        ),
        pytest.param(
            "?attention",
            "transformers:{folder}?attention: bad query field: 'attention'\n  help: write ?key=value&key=value",
            id="no value",
        ),
        pytest.param(
            "?revision=abc",
            "transformers:{folder}?revision=abc: this folder has no snapshots\n"
            "  help: leave revision out, or name the model's folder in a hub cache",
            id="no snapshots",
        ),
    ],
)
def test_what_names_nothing_is_refused(tmp_path: Path, query: str, message: str) -> None:
    with pytest.raises(TargetError) as refused:
        parse(f"{tmp_path}{query}")
    assert str(refused.value) == message.format(folder=tmp_path)


def test_an_unknown_revision_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "snapshots" / "abc").mkdir(parents=True)
    with pytest.raises(TargetError) as refused:
        parse(f"{tmp_path}?revision=abd")
    assert str(refused.value) == f"transformers:{tmp_path}: no revision 'abd'\n  help: revisions here are abc"
