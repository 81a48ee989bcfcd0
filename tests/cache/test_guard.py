from __future__ import annotations

import subprocess
import sys

import pytest

from evseq.cache.canonical import Scalar
from evseq.cache.guard import Admitted, Refused, admit
from evseq.cache.identity import FIELDS, Difference, Identity


def test_the_same_identity_is_admitted(values: dict[str, Scalar]) -> None:
    assert admit(Identity(values=values), Identity(values=dict(values))) == Admitted()


@pytest.mark.parametrize("name", FIELDS)
def test_any_other_value_of_any_field_is_refused_by_name(name: str, values: dict[str, Scalar]) -> None:
    verdict = admit(Identity(values=values), Identity(values={**values, name: "another"}))

    assert isinstance(verdict, Refused)
    assert [difference.field for difference in verdict.differences] == [name]


def test_the_first_field_leads(values: dict[str, Scalar]) -> None:
    other = {**values, "salt": "x", "padding": "right", "numeric.dtype": "float32"}

    assert str(admit(Identity(values=values), Identity(values=other))) == (
        "numeric.dtype: recorded 'float64', now 'float32'\n"
        "padding: recorded 'left', now 'right'\n"
        "salt: recorded None, now 'x'"
    )


def test_a_long_refusal_is_cut_to_its_first_lines_and_a_count(values: dict[str, Scalar]) -> None:
    assert str(admit(Identity(values={}), Identity(values=values))) == (
        "model.architecture: missing in the file\n"
        "model.config: missing in the file\n"
        "weights.source: missing in the file\n"
        "weights.live: missing in the file\n"
        "model.adapters: missing in the file\n"
        "and 25 more"
    )


def test_a_refusal_without_a_difference_cannot_be_made() -> None:
    with pytest.raises(ValueError, match=r"^a refusal names at least one difference$"):
        Refused(differences=())


def test_a_refusal_of_one_difference_is_one_line() -> None:
    refused = Refused(differences=(Difference(field="salt", recorded="x", now="y"),))

    assert str(refused) == "salt: recorded 'x', now 'y'"


def test_guard_identity_and_header_load_without_torch() -> None:
    code = "import evseq.cache.claim, evseq.cache.guard, evseq.cache.header, sys; print('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
