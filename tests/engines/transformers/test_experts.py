"""Mixtures of experts: double precision decides, and a near tie of a router is no false alarm below it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from evseq.engines.transformers import newborn
from evseq.engines.transformers.loader import ModelLoader
from evseq.geometry import Dtype
from evseq.pipeline import qualify
from evseq.verdict.result import Case, Check, Outcome

TEXT = """\
evseq: 1
name: routed
about: Two rows go on step by step.
rows:
  a: {random: {length: 20, seed: 1}}
  b: {random: {length: 16, seed: 2}}
arms: {dtype: [float64, float32]}
events:
  - prefill: {rows: {a: 9, b: 5}}
  - append: {next: 8}
"""


Played = Callable[[object], dict[str, Case]]


@pytest.fixture
def played(tmp_path: Path) -> Played:
    """Qualify a target or a model, and return the case of each dtype."""
    file = tmp_path / "routed.evseq.yaml"
    file.write_text(TEXT, encoding="utf-8")
    return lambda target: {case.dtype: case for case in qualify(target, [file]).cases}


@pytest.fixture(scope="module")
def undecided() -> PreTrainedModel:
    """A mixtral of four experts, three of which are equal to every router but for a part in ten million."""
    model = newborn.build(newborn.configure("mixtral", {}))
    dice = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("gate.weight"):
                weight[1:3] = weight[0] + 1e-7 * torch.randn(2, weight.shape[1], generator=dice)
                weight[3] = -weight[0]
    return model


@pytest.mark.parametrize("target", ["mixtral", "qwen3_moe", "olmoe"])
def test_a_healthy_mixture_of_experts_is_silent(played: Played, target: str) -> None:
    assert {case.outcome for case in played(f"transformers:new/{target}").values()} == {Outcome.PASSED}


def test_experts_run_eager_in_double_precision(undecided: PreTrainedModel) -> None:
    engine = ModelLoader(undecided).load(Dtype.FLOAT64, {})
    assert engine.identity()["numeric.attention"] == "sdpa, experts eager"


def test_a_near_tie_of_a_router_is_told_and_no_alarm(played: Played, undecided: PreTrainedModel) -> None:
    cases = played(undecided)
    assert {case.outcome for case in cases.values()} == {Outcome.PASSED}
    assert "not judged" not in {note.kind for note in cases["float64"].notes}
    (told,) = [note.message for note in cases["float32"].notes if note.kind == "not judged"]
    assert told.startswith("float32 at ")
    assert told.endswith("rounding decides a near tie of a router for another expert; float64 judges logic there")


def test_a_fault_behind_a_router_shows_in_double_precision(played: Played) -> None:
    case = played("transformers:new/mixtral+pads-seen")["float64"]
    assert case.findings[0].check is Check.PARITY


def test_a_cached_step_that_alone_goes_to_another_expert_is_explained(played: Played) -> None:
    case = played("transformers:new/mixtral+pads-seen")["float32"]
    assert "near tie of a router: rounding chose another expert in the cached step alone" in f"{case.findings[0].cause}"
