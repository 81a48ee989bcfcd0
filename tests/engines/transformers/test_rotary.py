"""Models whose rotary tables depend on length: no cache can be right once the length they grew up with is passed."""

from __future__ import annotations

from functools import cache

import pytest

from evseq.engines.transformers import loader
from evseq.engines.transformers.engine import TransformersEngine
from evseq.geometry import Dtype
from evseq.history import Path
from evseq.pipeline import Run, Settings
from evseq.script.document import parse
from evseq.script.source import parse_yaml
from evseq.verdict.result import Case, Check, Outcome

DYNAMIC = (
    'transformers:new/llama?rope_parameters={"rope_type":"dynamic","rope_theta":10000.0,"factor":4.0}'
    "&max_position_embeddings=16"
)
LONG = (
    "transformers:new/phi3?original_max_position_embeddings=16&rope_parameters="
    '{"rope_type":"longrope","rope_theta":10000.0,"short_factor":[1,1,1,1,1,1,1,1],"long_factor":[1,2,3,4,5,6,7,8]}'
)
YARN = (
    'transformers:new/llama?rope_parameters={"rope_type":"yarn","rope_theta":10000.0,"factor":4.0,'
    '"original_max_position_embeddings":16}'
)

SHORT = Path(tokens=tuple(range(3, 23)), positions=tuple(range(20)))
"""Past the length of 16 that all three were born with, and shorter than `FAR`."""

FAR = Path(tokens=tuple(range(3, 33)), positions=tuple(range(30)))

CAUSE = (
    "this model's logits depend on the length of what runs, as dynamic and long rotary scaling make them: cached keys "
    "stay turned by the length they were made at"
)


@cache
def engine(target: str) -> TransformersEngine:
    found = loader(target.removeprefix("transformers:")).load(Dtype.FLOAT64, {})
    assert isinstance(found, TransformersEngine)
    return found


def played(target: str, *, fed: int) -> Case:
    """Prefill 8 tokens and save, append `fed` more, reload, append 2 again."""
    text = "\n".join(
        [
            "evseq: 1",
            "name: grows",
            "about: A row grows step by step.",
            "rows: {a: {random: {length: 30, seed: 1}}}",
            "events:",
            "  - prefill: {rows: {a: 8}}",
            "  - serialize: {to: early}",
            f"  - append: {{next: {fed}}}",
            "  - reload: {from: early, as: again}",
            "  - append: {next: 2, on: again}",
            "",
        ]
    )
    script = parse(parse_yaml(text, file="grows.evseq.yaml"))
    with Run(Settings()) as running:
        (case,) = running.run_script(script, target, running.selected(script, target)).cases
    return case


@pytest.mark.parametrize("target", [DYNAMIC, LONG])
def test_past_its_length_the_first_finding_says_why_no_cache_is_right(target: str) -> None:
    case = played(target, fed=12)
    assert {finding.check for finding in case.findings} == {Check.PARITY}
    assert (case.findings[0].event, case.findings[0].index) == ("append", 16)
    assert case.findings[0].cause == CAUSE


@pytest.mark.parametrize("target", [DYNAMIC, LONG])
def test_below_its_length_it_is_healthy(target: str) -> None:
    assert played(target, fed=8).outcome is Outcome.PASSED


def test_a_scaling_that_is_fixed_from_the_beginning_is_healthy_past_its_length() -> None:
    assert played(YARN, fed=12).outcome is Outcome.PASSED


@pytest.mark.parametrize("target", [DYNAMIC, LONG])
def test_what_ran_before_moves_no_uncached_forward(target: str) -> None:
    before = engine(target).uncached(SHORT)
    engine(target).uncached(FAR)
    assert engine(target).uncached(SHORT).equal(before)


def test_an_uncached_forward_leaves_the_tables_of_the_live_model_as_they_are() -> None:
    rotary = engine(DYNAMIC).model.model.rotary_emb
    held = rotary.inv_freq
    engine(DYNAMIC).uncached(FAR)
    assert rotary.inv_freq is held
    assert rotary.max_seq_len_cached == 16


@pytest.mark.parametrize("target", [DYNAMIC, LONG])
def test_tables_written_anew_are_no_part_of_the_identity(target: str) -> None:
    named = engine(target).identity()["weights.live"]
    assert isinstance(named, dict)
    assert [name for name in named if "inv_freq" in name] == ["model.rotary_emb.original_inv_freq"]
