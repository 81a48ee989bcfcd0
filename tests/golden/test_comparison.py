from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from candidates import adopt
from evseq.errors import UsageError
from evseq.golden.comparison import between
from evseq.golden.root import Place, Root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(folder=tmp_path / "goldens")
    adopt(root, at="small/v1/crop")
    adopt(root, (1, 1, 1.5), at="small/v2/crop")
    adopt(root, at="large/v1/crop")
    return root


class TestBetween:
    def test_shared_scripts_are_compared(self, root: Root) -> None:
        (one,) = between(root, "v2", "v1")
        assert (one.model, one.layers, list(one.drifts), one.added, one.removed) == ("small", 2, ["crop"], (), ())
        assert len(one.drifts["crop"].moved) == 1

    def test_a_revision_is_itself(self, root: Root) -> None:
        large, small = between(root, "v1", "v1")
        assert (large.model, small.model) == ("large", "small")
        assert small.drifts["crop"].moved == ()

    def test_one_model_is_chosen(self, root: Root) -> None:
        assert [one.model for one in between(root, "v1", "v1", model="large")] == ["large"]

    @pytest.mark.parametrize(
        ("revision", "parent", "model", "told"),
        [
            ("v2", "v11", None, "no model has goldens of both 'v2' and 'v11'\n  help: did you mean 'v1'?"),
            ("v2", "june", None, "no model has goldens of both 'v2' and 'june'\n  help: other revisions are v1"),
            (
                "v2",
                "v1",
                "large",
                "no model 'large' has goldens of both 'v2' and 'v1'\n  help: there are no other revisions",
            ),
        ],
    )
    def test_what_no_model_has_is_told(
        self, root: Root, revision: str, parent: str, model: str | None, told: str
    ) -> None:
        with pytest.raises(UsageError) as raised:
            between(root, revision, parent, model=model)
        assert str(raised.value) == f"{root.folder}: {told}"

    def test_revisions_of_two_models_are_no_pair(self, root: Root) -> None:
        adopt(root, at="large/v3/crop")
        with pytest.raises(UsageError, match=r"'v3' and 'v2'\n  help: name two of one model$"):
            between(root, "v3", "v2")


def test_a_golden_copied_over_another_is_not_compared(root: Root) -> None:
    copied = root.golden(Place(model="small", revision="v2", script="crop"))
    shutil.copy(root.golden(Place(model="small", revision="v1", script="crop")), copied)

    with pytest.raises(UsageError) as refused:
        between(root, "v2", "v1")

    assert str(refused.value) == (
        f"{copied}: is not the file that {root.ledger('small')} says was accepted\n"
        "  help: take it from version control, or accept its candidate"
    )
