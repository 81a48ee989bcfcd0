"""Names in a folder of goldens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evseq.cache.damage import LeadsOut
from evseq.golden.root import NameRefused, Place, Root, model_name, without

OPTIONS = ("attention",)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("reference:full", "reference-full"),
        ("transformers:/home/somebody/models/small/", "transformers-small"),
        ("transformers:models/small?attention=eager", "transformers-small"),
        ("transformers:models/small?attention=eager&revision=v2", "transformers-small-revision=v2"),
        ("transformers:new/mistral?sliding_window=8", "transformers-mistral-sliding_window=8"),
        ("transformers:models/ä b", "transformers--b"),
        ("my.module:loader", "my.module-loader"),
    ],
)
def test_a_model_is_called_by_its_engine_and_what_it_loads(target: str, name: str) -> None:
    assert model_name(target, OPTIONS) == name


@pytest.mark.parametrize(
    ("target", "bare"),
    [
        ("transformers:a?attention=eager", "transformers:a"),
        ("transformers:a?attention=eager&revision=v2", "transformers:a?revision=v2"),
        ("reference:full", "reference:full"),
    ],
)
def test_an_engines_own_options_make_no_other_model(target: str, bare: str) -> None:
    assert without(target, OPTIONS) == bare


class TestStaysInside:
    @pytest.mark.parametrize(
        "name", ["..", "../v1", "a/b", "/etc", "", ".git", "a\0b", "a b", "x" * 201, "a\n", "\x1b[2J"]
    )
    @pytest.mark.parametrize("part", ["model", "revision", "script"])
    def test_a_name_that_leads_elsewhere_is_refused(self, part: str, name: str, tmp_path: Path) -> None:
        place = replace(Place(model="small", revision="v1", script="one"), **{part: name})

        with pytest.raises(NameRefused) as caught:
            Root(folder=tmp_path).golden(place)

        assert str(caught.value) == (
            f"{part} {name[:80]!r}: is no name of a folder\n"
            "  help: use at most 200 letters, digits, '.', '_', '=' and '-', the first none of '.' and '-'"
        )

    @pytest.mark.parametrize("link", ["small", "small/v1", "small/v1/one.safetensors"])
    def test_a_link_that_leads_out_is_not_followed(self, link: str, tmp_path: Path) -> None:
        root = Root(folder=tmp_path / "goldens")
        elsewhere = tmp_path / "elsewhere" / "small" / "v1" / "one.safetensors"
        elsewhere.parent.mkdir(parents=True)
        elsewhere.touch()
        path = root.folder / link
        path.parent.mkdir(parents=True)
        path.symlink_to(tmp_path / "elsewhere" / link)

        with pytest.raises(LeadsOut) as caught:
            root.golden(Place(model="small", revision="v1", script="one"))

        assert str(caught.value) == (
            f"{root.folder}/small/v1/one.safetensors: leads to {elsewhere}, out of {root.folder}\n"
            "  help: put the file itself there instead of a link"
        )
        assert (list(root.goldens()), list(root.outside())) == ([], [path])

    def test_a_link_that_stays_inside_is(self, tmp_path: Path) -> None:
        (tmp_path / "small" / "v1").mkdir(parents=True)
        (tmp_path / "small" / "v2").symlink_to("v1")
        (tmp_path / "small" / "v1" / "one.safetensors").touch()

        assert [place.revision for place in Root(folder=tmp_path).goldens()] == ["v1", "v2"]

    def test_the_folder_itself_may_be_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "goldens").symlink_to("real")

        assert Root(folder=tmp_path / "goldens").ledger("small") == tmp_path / "goldens" / "small" / "LEDGER.yaml"
