from __future__ import annotations

import re
from unittest.mock import Mock

import pytest

from evseq.verdict.result import Forwards, Result
from fronts import run_pytest

pytest_plugins = ["pytester"]


class TestFixture:
    TEST = """
    def test_red(evseq):
        evseq.assert_qualified("engines:Broken", "green.evseq.yaml")

    def test_green(evseq):
        assert evseq.assert_qualified("reference:full", ["green.evseq.yaml"]).passed

    def test_result(evseq):
        assert not evseq("engines:Broken", "green.evseq.yaml").passed

    def test_named(evseq):
        assert evseq("small", "green.evseq.yaml").targets == ("reference:alibi",)
    """

    @pytest.mark.usefixtures("folder")
    def test_targets_are_qualified(self, pytester: pytest.Pytester) -> None:
        pytester.makepyprojecttoml("[tool.evseq.targets.small]\ntarget = 'reference:alibi'")
        pytester.makepyfile(self.TEST)
        result = run_pytest(pytester, "-k", "test_")
        result.assert_outcomes(passed=3, failed=1, deselected=20)
        told = result.stdout.str()
        assert re.search(r"_ test_red _+\n\ngreen\.evseq\.yaml:12:5: append: row 'a' index 3: parity: ", told)
        assert re.search(r"^FAILED: 4 of 4 cases, ", told, re.MULTILINE)

    @pytest.mark.usefixtures("folder")
    def test_candidates_it_wrote_fail_the_session(
        self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wrote = Result(cases=(), targets=(), forwards=Forwards(), seconds=0.0, candidates=("goldens/x",))
        qualify = Mock(return_value=wrote)
        monkeypatch.setattr("evseq.pipeline.qualify", qualify)
        pytester.makepyfile("def test_wrote(evseq):\n    assert evseq('reference:full').candidates == ('goldens/x',)\n")
        result = run_pytest(pytester, "-k", "test_wrote", "--evseq-update-goldens")
        result.assert_outcomes(passed=1, deselected=20)
        assert (result.ret, qualify.call_args.kwargs["settings"].goldens.update) == (pytest.ExitCode.TESTS_FAILED, True)
