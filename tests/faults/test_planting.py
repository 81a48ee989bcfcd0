"""`TARGET+NAME` plants a fault, in any process; where it could not show, that is said."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from evseq.engines import registry
from evseq.engines.registry import find, healthy, targets
from evseq.errors import TargetError
from evseq.faults.fault import FaultyLoader

LISTED = "all are listed in evseq.faults.catalogue.FAULTS"


def refusal(text: str) -> str:
    with pytest.raises(TargetError) as error:
        find(text)
    return str(error.value)


def planted(text: str) -> list[str]:
    """Return the faults of a loader, the outermost first."""
    loader, names = find(text), []
    while isinstance(loader, FaultyLoader):
        names.append(loader.fault.name)
        loader = loader.inner
    return names


class TestFaults:
    def test_one_is_planted_by_its_name(self) -> None:
        assert planted("reference:full+pads-seen") == ["pads-seen"]

    def test_several_are_planted_one_upon_the_other(self) -> None:
        assert planted("reference:window+window-inclusive+pads-seen") == ["pads-seen", "window-inclusive"]

    def test_one_is_planted_behind_a_query(self) -> None:
        assert planted("transformers:new/llama?attention=eager+pads-seen") == ["pads-seen"]

    def test_one_is_planted_in_an_attribute_of_a_module(self) -> None:
        assert planted("planted.second:Second+position-stays-after-crop") == ["position-stays-after-crop"]

    def test_an_engine_alone_stands_for_its_configurations_with_the_fault(self) -> None:
        assert targets("reference+pads-seen")[:2] == ("reference:full+pads-seen", "reference:window+pads-seen")

    def test_a_target_without_its_faults_is_the_healthy_one(self) -> None:
        assert healthy("reference:window+window-inclusive+pads-seen") == "reference:window"
        assert healthy("reference:window") == "reference:window"


class TestPlus:
    def test_a_folder_with_a_plus_in_its_name_is_a_folder(self, tmp_path: Path) -> None:
        folder = tmp_path / "a+pads-seen"
        folder.mkdir()

        assert planted(f"transformers:{folder}") == []
        assert planted(f"transformers:{folder}+pads-seen") == ["pads-seen"]
        assert planted(f"transformers:{folder}?attention=eager+pads-seen") == ["pads-seen"]

    def test_a_number_with_a_plus_is_a_number(self) -> None:
        assert planted("transformers:new/llama?rms_norm_eps=1e+5") == []


class TestRefused:
    def test_an_unknown_name_is_answered_with_the_nearest(self) -> None:
        assert refusal("reference:full+pads-sen") == (
            f"reference:full+pads-sen: no fault 'pads-sen'\n  help: did you mean 'reference:full+pads-seen'? {LISTED}"
        )

    def test_an_unknown_name_like_no_other_is_answered_with_the_list(self) -> None:
        assert refusal("reference:full+zzz") == f"reference:full+zzz: no fault 'zzz'\n  help: {LISTED}"

    def test_the_target_is_looked_for_first(self) -> None:
        assert refusal("reference:fill+zzz").startswith("reference:fill: no configuration 'fill'\n")

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("reference:full+rolled-too-early", "no layer of this target has a window"),
            ("reference:window+last-token-not-stored", "a layer of this target has a window, and may have"),
            ("transformers:new/llama+window-inclusive", "it is made of the reference engine's own parts"),
            ("planted.second:Second+fork-shares-buffers", "it reaches into the caches of reference and transformers"),
            ("transformers:new/llama?num_hidden_layers=1+later-layers-not-selected", "this target has one layer"),
            ("reference:full+pads-counted", "only distances between tokens count in this target"),
            ("reference:narrow+heads-swapped", "a layer of this target has one head of keys and values"),
            ("reference:alibi+base-by-length", "this decoder has no rotary positions"),
            ("transformers:new/bloom+base-by-length", "this decoder has no rotary positions"),
            ("reference:full+bias-of-one-query", "it is made of the reference engine's alibi positions"),
            ("transformers:new/gpt2+engine-counts-holes", "this engine numbers tokens by their slot, holes included"),
        ],
    )
    def test_a_fault_that_cannot_show_says_why(self, text: str, reason: str) -> None:
        target, _, name = text.rpartition("+")

        assert refusal(text).startswith(f"{target}+{name}: fault {name!r} cannot be planted: {reason}")

    def test_it_also_says_where_it_shows(self) -> None:
        assert refusal("reference:full+rolled-too-early").splitlines()[1] == (
            "  help: plant it in reference:window or transformers:new/mistral"
        )

    def test_faults_that_cannot_be_imported_are_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entry = EntryPoint(name="other", value="absent:FAULTS", group="evseq.faults")
        monkeypatch.setattr(
            registry, "entry_points", lambda group: [entry] if group == "evseq.faults" else entry_points(group=group)
        )

        assert refusal("reference:full+pads-seen").startswith(
            "reference:full+pads-seen: importing 'absent:FAULTS' failed: ModuleNotFoundError: "
        )

    def test_a_fault_that_raises_while_it_is_planted_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entry = EntryPoint(name="other", value="planted.unplantable:FAULTS", group="evseq.faults")
        monkeypatch.setattr(
            registry, "entry_points", lambda group: [entry] if group == "evseq.faults" else entry_points(group=group)
        )

        assert refusal("reference:full+raises").startswith(
            "reference:full+raises: planting 'raises' failed: RuntimeError: no ground\n"
        )
