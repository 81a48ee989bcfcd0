"""Every refusal of acceptance, word by word, and that nothing has moved."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evseq.errors import CacheError
from evseq.geometry import Dtype
from evseq.golden.acceptance import Refused, accept, reject
from evseq.golden.candidate import Candidate, JudgedCase, Told
from evseq.golden.choice import chosen
from evseq.golden.golden import Golden
from evseq.golden.root import Place, Root
from evseq.verdict.result import Check, Outcome

ONE = Place(model="small", revision="v1", script="one")

Make = Callable[..., Candidate]


def ask(root: Root, *places: Place, **says: Any) -> None:
    usual: dict[str, Any] = {"reason": "why", "environment": {}, "today": dt.date(2026, 3, 2)}
    accept(root, places or (ONE,), **(usual | says))


def refused(root: Root, *places: Place, **says: Any) -> str:
    """Return why nothing is accepted; no file of any kind has changed."""
    before = files(root)
    with pytest.raises(Refused) as caught:
        ask(root, *places, **says)
    assert files(root) == before
    assert caught.value.exit_code == 4
    return str(caught.value)


def files(root: Root) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.folder.rglob("*") if path.is_file()}


def failing(*told: Told, outcome: Outcome = Outcome.FAILED) -> tuple[JudgedCase, ...]:
    return (
        JudgedCase(id="one[left]", outcome=Outcome.PASSED, dtype=Dtype.FLOAT64),
        JudgedCase(id="one[right]", outcome=outcome, dtype=Dtype.FLOAT64, told=told),
    )


class TestWhoAndWhy:
    def test_in_ci(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root)
        assert refused(root, environment={"CI": "true"}) == (
            "CI is 'true' here: goldens are accepted by a person\n"
            "  help: take the candidates to a desk: their review needs neither the model nor its device"
        )

    def test_an_empty_ci_is_none(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root)
        ask(root, environment={"CI": ""})
        assert root.golden(ONE).exists()

    @pytest.mark.parametrize("reason", ["", " \n\t"])
    def test_no_reason(self, root: Root, make_candidate: Make, reason: str) -> None:
        make_candidate(root)
        assert refused(root, reason=reason) == (
            'no reason given\n  help: tell the ledger why these logits are right now: --reason "..."'
        )


class TestTravellingAlone:
    def test_changes_now(self, root: Root, make_candidate: Make, git: Callable[..., str], tmp_path: Path) -> None:
        make_candidate(root)
        names = [f"{letter}.py" for letter in "abdefgh"]
        for name in names:
            (tmp_path / name).touch()
        git("add", *names)

        assert refused(root) == (
            f"tracked files outside {root.folder} have uncommitted changes: a.py, b.py, d.py, e.py, f.py, g.py and 1 "
            "more: golden changes travel alone\n  help: commit or stash them first"
        )

    def test_changed_goldens_are_no_obstacle(self, root: Root, make_candidate: Make, git: Callable[..., str]) -> None:
        make_candidate(root)
        ask(root)
        git("add", "goldens")
        git("commit", "--quiet", "--message", "golden")
        make_candidate(root, "small/v2/one")

        ask(root, Place(model="small", revision="v2", script="one"))

        assert git("status", "--porcelain", "--untracked-files=no") == " M goldens/small/LEDGER.yaml\n"

    def test_changes_when_it_was_made(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root, unclean=("code.py",))
        assert refused(root) == (
            f"{root.candidate(ONE)}: was made while tracked files had uncommitted changes: code.py: no commit holds "
            "what produced it\n  help: commit them, then make the candidate again: --update-goldens"
        )


class TestSoundness:
    def test_logits_that_are_not_finite(
        self, root: Root, make_candidate: Make, make_golden: Callable[..., Golden]
    ) -> None:
        make_candidate(root, golden=make_golden(by=float("nan")))
        assert refused(root) == (
            f"{root.candidate(ONE)}: holds logits that are not finite\n"
            "  help: mend the model or the script, then make the candidate again: --update-goldens"
        )

    def test_logits_that_were_not_finite_when_computed(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root, finite=False)
        assert "holds logits that are not finite" in refused(root)

    def test_two_computations_that_differ(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root, repeats=False)
        assert refused(root) == (
            f"{root.candidate(ONE)}: its logits were computed twice and differed\n"
            "  help: let the model repeat itself bit for bit (one thread, deterministic kernels), then make the "
            "candidate again: --update-goldens"
        )

    def test_oracle_and_cached_path_that_disagree(self, root: Root, make_candidate: Make) -> None:
        told = (
            Told(check=Check.ACCOUNTING, place="s:3:5", message="s:3:5: append: accounting: 3 are visible"),
            Told(check=Check.PARITY, place="s:4:5", message="s:4:5: append: parity: logit 3 is off"),
        )
        make_candidate(root, cases=failing(*told))
        assert refused(root) == (
            f"{root.candidate(ONE)}: oracle and cached path disagree in case one[right]: s:4:5: append: parity: logit "
            "3 is off\n  help: mend the one that is wrong, then make the candidate again: --update-goldens"
        )

    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.PASSED])
    def test_another_check_that_failed(self, root: Root, make_candidate: Make, outcome: Outcome) -> None:
        told = Told(check=Check.ACCOUNTING, place="s:3:5", message="s:3:5: append: accounting: 3 are visible")
        make_candidate(root, cases=failing(told, outcome=outcome))
        assert refused(root) == (
            f"{root.candidate(ONE)}: check 'accounting' failed in case one[right]: s:3:5: append: accounting: 3 are "
            "visible\n  help: mend what it names, then make the candidate again: --update-goldens"
        )

    def test_a_case_that_only_its_golden_failed_is_no_obstacle(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root, cases=failing())
        ask(root)
        assert root.golden(ONE).exists()

    @pytest.mark.parametrize("cases", [(), (JudgedCase(id="one[left]", outcome=Outcome.UNSUPPORTED),)])
    def test_nothing_that_was_judged(self, root: Root, make_candidate: Make, cases: tuple[JudgedCase, ...]) -> None:
        make_candidate(root, cases=cases)
        assert refused(root) == (
            f"{root.candidate(ONE)}: no case of its script was judged\n"
            "  help: run one that the target supports, then make the candidate again: --update-goldens"
        )

    def test_nothing_that_passed_where_it_counts(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root, cases=(JudgedCase(id="one[left]", outcome=Outcome.PASSED, dtype=Dtype.BFLOAT16),))
        assert refused(root) == (
            f"{root.candidate(ONE)}: no case of its script passed in float64, which decides what is right\n"
            "  help: let one run in it, --arm dtype=float64, then make the candidate again: --update-goldens"
        )

    def test_one_unsound_candidate_keeps_the_others_waiting(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root)
        make_candidate(root, "small/v1/two", repeats=False)
        assert "computed twice" in refused(root, ONE, Place(model="small", revision="v1", script="two"))


class TestPresence:
    def test_no_candidates_at_all(self, root: Root) -> None:
        assert refused(root) == f"{root.folder}: no candidates\n  help: `evseq run --update-goldens` writes them"

    def test_none_chosen(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root)
        with pytest.raises(Refused) as caught:
            accept(root, (), reason="why", environment={}, today=dt.date(2026, 3, 2))
        assert str(caught.value) == f"{root.folder}: no candidate is chosen\n  help: candidates are small/v1/one"

    def test_a_place_without_one(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root)
        other = Place(model="small", revision="v1", script="ones")
        expected = f"{root.folder}: no candidate small/v1/ones\n  help: did you mean 'small/v1/one'?"
        with pytest.raises(Refused) as caught:
            reject(root, (other,))
        assert (refused(root, other), str(caught.value)) == (expected, expected)

    @pytest.mark.parametrize(
        ("filters", "message"),
        [
            ({"scripts": ["on?", "tow"]}, "no candidate of script 'tow'\n  help: did you mean 'two'?"),
            ({"scripts": ["zzz"]}, "no candidate of script 'zzz'\n  help: scripts with candidates are one, two"),
            ({"model": "smal"}, "no candidate of model 'smal'\n  help: did you mean 'small'?"),
            ({"revision": "v9"}, "no candidate of revision 'v9'\n  help: did you mean 'v2'?"),
            (
                {"revision": "v2", "scripts": ["one"]},
                "no candidate of script 'one'\n  help: scripts with candidates are two",
            ),
        ],
    )
    def test_a_filter_that_matches_nothing(
        self, root: Root, make_candidate: Make, filters: dict[str, Any], message: str
    ) -> None:
        make_candidate(root)
        make_candidate(root, "small/v2/two")
        with pytest.raises(Refused) as caught:
            chosen(root, **filters)
        assert str(caught.value) == message

    def test_half_a_candidate(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root)
        root.sidecar(ONE).unlink()
        with pytest.raises(CacheError, match="no such file: its candidate cannot be reviewed"):
            ask(root)

    def test_a_candidate_of_other_weights(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root)
        said = json.loads(root.sidecar(ONE).read_text()) | {"weights": "9a" * 32}
        root.sidecar(ONE).write_text(json.dumps(said))
        with pytest.raises(CacheError, match="weights: 9a9a9a9a9a9a, in the file beside it 3f3f3f3f3f3f"):
            ask(root)

    def test_a_candidate_whose_file_is_another(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root)
        said = json.loads(root.sidecar(ONE).read_text()) | {"seal": "00" * 32}
        root.sidecar(ONE).write_text(json.dumps(said))
        with pytest.raises(CacheError, match="it is about another candidate than the file beside it"):
            ask(root)


class TestLabels:
    def test_two_models_under_one_label(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root)
        make_candidate(root, "small/v1/two")
        two = Place(model="small", revision="v1", script="two")
        ask(root, ONE, two)
        make_candidate(root, weights="9a" * 32)

        assert refused(root) == (
            "small/v1/one: the model changed under the label 'v1': weights.source is 9a9a9a9a9a9a, for two it is "
            "3f3f3f3f3f3f\n  help: give the new model a label of its own with --revision, or accept all its scripts at "
            "once"
        )
        make_candidate(root, "small/v1/two", weights="9a" * 32)
        ask(root, ONE, two)

    def test_two_models_under_a_new_label(self, root: Root, make_candidate: Make) -> None:
        make_candidate(root)
        make_candidate(root, "small/v1/two", weights="9a" * 32)
        two = Place(model="small", revision="v1", script="two")
        assert refused(root, ONE, two).startswith("small/v1/one: the model changed under the label 'v1'")
