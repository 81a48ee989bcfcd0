"""The quick set on a new llama in memory: silent on a healthy one, and red by the right finding on broken ones."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from evseq.engines.transformers import in_memory
from evseq.faults.catalogue import FAULTS
from evseq.pipeline import qualify
from evseq.verdict.result import Check, Exit


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=128,
        max_position_embeddings=512,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made: LlamaForCausalLM = LlamaForCausalLM(config).eval()
    return made


def test_a_healthy_one_passes_in_the_dtype_that_decides(model: LlamaForCausalLM) -> None:
    result = qualify(model, scripts="quick")

    (judged,) = result.judged
    assert result.passed
    assert "float64" in judged.judged
    assert "float32" in judged.not_judged


@pytest.mark.parametrize(
    ("fault", "script", "event", "check"),
    [
        ("seven-pads", "pads-swept", "prefill", Check.PARITY),
        ("guard-skips-first-token", "refused-prefix-token", "reload", Check.REFUSAL),
        ("saved-under-one-name", "fork-chain", "append", Check.PARITY),
    ],
)
def test_a_broken_one_fails(model: LlamaForCausalLM, fault: str, script: str, event: str, check: Check) -> None:
    broken = FAULTS[fault].plant(in_memory(model), target="memory:Llama")

    result = qualify(broken, scripts="quick")

    (first, *_) = [finding for case in result.cases for finding in case.findings]
    assert result.exit is Exit.FAILED
    assert f"{script}.evseq.yaml" in first.place
    assert (first.event, first.check) == (event, check)
