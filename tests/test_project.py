from __future__ import annotations

from pathlib import Path

import pytest

from evseq.errors import UsageError
from evseq.golden.terms import Need
from evseq.project import NamedTarget, Project, nearest_project

SMALL = "[tool.evseq.targets.small]\n"


def project(folder: Path, text: str) -> Project:
    (folder / "pyproject.toml").write_text(text)
    found = nearest_project(folder)
    assert found is not None
    return found


class TestTargets:
    def test_a_target_is_enough(self, tmp_path: Path) -> None:
        named = project(tmp_path, f"{SMALL}target = 'a:b'\n").targets()
        assert named == {"small": NamedTarget(target="a:b", revision=None, golden=Need.OPTIONAL)}

    def test_goldens_it_is_held_to_may_be_said(self, tmp_path: Path) -> None:
        named = project(tmp_path, f"{SMALL}target = 'a:b'\nrevision = 'v1'\ngolden = 'required'\n").targets()
        assert named == {"small": NamedTarget(target="a:b", revision="v1", golden=Need.REQUIRED)}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "[tool.evseq]\ntargets = 'small'\n",
                "2: targets: 'small' is no table\n  help: write [tool.evseq.targets.NAME]",
            ),
            (
                SMALL,
                (
                    "1: targets.small: {} names no target\n"
                    '  help: write target = "ENGINE:REST" under [tool.evseq.targets.small]'
                ),
            ),
            (
                "[tool.evseq.targets]\nsmall = 'a:b'\n",
                (
                    "2: targets.small: 'a:b' names no target\n"
                    '  help: write target = "ENGINE:REST" under [tool.evseq.targets.small]'
                ),
            ),
            (
                f"{SMALL}taget = 'a:b'\n",
                "2: [tool.evseq.targets.small]: unknown key 'taget'\n  help: did you mean 'target'?",
            ),
            (
                f"{SMALL}target = 'a:b'\nzzz = 'x'\n",
                "3: [tool.evseq.targets.small]: unknown key 'zzz'\n  help: known are target, revision, golden",
            ),
            (
                f"{SMALL}target = 'a:b'\ngolden = 'requird'\n",
                ("3: golden: 'requird' does not say whether a golden must be there\n  help: did you mean 'required'?"),
            ),
            (
                f"{SMALL}target = 'a:b'\ngolden = true\n",
                ("3: golden: True does not say whether a golden must be there\n  help: use required or optional"),
            ),
            (
                f"{SMALL}target = 'a:b'\nrevision = 1\n",
                (
                    "3: revision: 1 is no label\n"
                    "  help: use at most 64 letters, digits, '.', '_' and '-', the first a letter or a digit"
                ),
            ),
            (
                "[tool.evseq.targets.'my model']\ntarget = 'a:b'\n",
                (
                    "1: targets: 'my model' is no label\n"
                    "  help: use at most 64 letters, digits, '.', '_' and '-', the first a letter or a digit"
                ),
            ),
            (
                "[tool.evseq.targets.reference]\ntarget = 'a:b'\n",
                "1: targets.reference: an engine has this name\n  help: the target needs another",
            ),
            (
                f"{SMALL}target = 'a:b'\n[tool.evseq.targets.other]\ntarget = 'a:b'\n",
                "3: targets.other: 'a:b' is targets.small already\n  help: keep one of the names",
            ),
        ],
    )
    def test_what_does_not_fit_is_refused_with_its_line(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(UsageError) as error:
            project(tmp_path, text).targets()
        assert str(error.value) == f"{tmp_path}/pyproject.toml:{message}"


def test_a_folder_outside_any_project_has_none() -> None:
    assert nearest_project(Path("/")) is None
