"""How a run is told to treat goldens."""

from __future__ import annotations

from pathlib import Path

from evseq.golden.store import Store
from evseq.golden.terms import Terms

PROJECT = Path("project")


def test_nothing_is_said_where_goldens_are_where_they_usually_are() -> None:
    assert Terms(root=PROJECT / "goldens", project=PROJECT).flags == ()


def test_flags_hold_another_run_to_the_same() -> None:
    terms = Terms(root=Path("kept"), project=PROJECT, revision="v2", require=True)

    assert terms.flags == ("--goldens", "kept", "--revision", "v2", "--require-goldens")


def test_a_url_is_said() -> None:
    store = Store(url="s3://bucket/evseq", cache=Path("cache"))
    assert Terms(root=PROJECT / "goldens", store=store, project=PROJECT).flags == ("--goldens", "s3://bucket/evseq")
