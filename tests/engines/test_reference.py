"""The reference engine: what it says of itself, its weights, and that its two forwards agree."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path as FilePath

import pytest
import torch
from torch import Tensor

from evseq.engines.protocol import Batch
from evseq.engines.reference import configurations, loader
from evseq.engines.reference.config import NAMES, WEIGHTS, Config
from evseq.engines.reference.engine import ReferenceEngine
from evseq.errors import EngineError, TargetError
from evseq.geometry import Capability, Dtype, Layout
from evseq.history import MASKED, Path

ROOT = FilePath(__file__).parents[2]


def opened(name: str, dtype: Dtype = Dtype.FLOAT64) -> ReferenceEngine:
    return loader(name).load(dtype, {})


def counted(*tokens: int) -> Path:
    return Path(tokens=tokens, positions=tuple(range(len(tokens))))


def rolled(length: int) -> list[int]:
    return torch.randint(0, 64, (length,), generator=torch.Generator().manual_seed(length)).tolist()


def batch(*rows: list[int]) -> Batch:
    tokens = torch.tensor(rows)
    return Batch(tokens=tokens, mask=torch.ones_like(tokens, dtype=torch.bool), positions=None)


def largest(difference: Tensor) -> float:
    return float(difference.abs().max())


class TestDescription:
    def test_configurations_are_those_with_files(self) -> None:
        assert sorted(configurations()) == sorted(path.stem for path in WEIGHTS.glob("*.json"))

    def test_every_capability_is_declared(self) -> None:
        assert loader("full").describe().capabilities == frozenset(Capability)

    def test_windows_are_counted_in_tokens_and_alternate(self) -> None:
        assert [layer.window for layer in loader("window").describe().geometry.layers] == [6, None, 6, None]

    def test_every_layer_of_narrow_slides(self) -> None:
        assert [layer.window for layer in loader("narrow").describe().geometry.layers] == [5, 5, 5]

    def test_only_learned_positions_end(self) -> None:
        ends = {name: loader(name).describe().geometry.max_positions for name in NAMES}
        assert ends == {"full": None, "window": None, "learned": 640, "alibi": None, "narrow": None}

    def test_heads_are_grouped_single_and_many(self) -> None:
        heads = {name: loader(name).describe().geometry.layers[0].kv_heads for name in NAMES}
        assert heads == {"full": 2, "window": 2, "learned": 4, "alibi": 1, "narrow": 1}

    @pytest.mark.parametrize("name", NAMES)
    def test_a_configuration_survives_its_file(self, name: str) -> None:
        assert Config.read(name).plain() == json.loads((WEIGHTS / f"{name}.json").read_text())


class TestLoading:
    def test_an_option_is_refused(self) -> None:
        with pytest.raises(TargetError) as error:
            loader("full").load(Dtype.FLOAT32, {"attention": "sdpa"})
        assert str(error.value) == "reference:full: option 'attention' is unknown\n  help: this engine has no options"

    def test_float16_is_refused(self) -> None:
        with pytest.raises(TargetError) as error:
            loader("full").load(Dtype.FLOAT16, {})
        assert (
            str(error.value) == "reference:full: does not run in float16\n  help: use one of float64, float32, bfloat16"
        )

    @pytest.mark.parametrize("dtype", [Dtype.FLOAT64, Dtype.FLOAT32, Dtype.BFLOAT16])
    def test_logits_have_the_dtype(self, dtype: Dtype) -> None:
        assert opened("full", dtype).uncached(counted(3, 1)).dtype == getattr(torch, dtype)

    def test_an_unknown_cache_kind_is_answered_with_the_nearest(self) -> None:
        with pytest.raises(EngineError) as error:
            opened("full").open(Layout(rows=1, capacity=4, depth=0, cache="rings"))
        assert str(error.value) == (
            "open: no cache kind 'rings'\n"
            "  help: did you mean 'ring'? known are growing, fixed, ring, quantised, streaming, blocks"
        )


class TestTokenizer:
    def test_a_text_is_its_characters(self) -> None:
        assert loader("full").tokenize("ab z9") == (0, 1, 36, 25, 35)

    def test_case_is_folded(self) -> None:
        assert loader("full").tokenize("Ab") == loader("full").tokenize("aB")

    def test_a_strange_character_is_unknown(self) -> None:
        assert loader("full").tokenize("é") == (63,)

    def test_the_vocabulary_is_as_large_as_the_embedding(self) -> None:
        engine = opened("full")
        assert len(engine.tokenizer.vocabulary) == engine.decoder.config.vocab == 64


class TestIdentity:
    def test_a_write_past_autograd_moves_the_live_digest_alone(self) -> None:
        engine = opened("full")
        before = dict(engine.identity())
        engine.decoder.head.weight.data.numpy()[3, 4] += 1.0
        after = engine.identity()
        assert [name for name in before if before[name] != after[name]] == ["weights.live"]

    def test_the_source_is_the_same_in_every_dtype(self) -> None:
        sources = {opened("full", dtype).identity()["weights.source"] for dtype in (Dtype.FLOAT64, Dtype.BFLOAT16)}
        assert len(sources) == 1

    def test_a_window_opened_live_is_seen(self) -> None:
        engine = opened("window")
        before = dict(engine.identity())
        config = engine.decoder.config
        engine.decoder.config = replace(config, layers=tuple(replace(layer, window=9) for layer in config.layers))
        after = engine.identity()
        assert [name for name in before if before[name] != after[name]] == ["model.config"]

    def test_two_loads_are_one_identity(self) -> None:
        assert opened("alibi").identity() == opened("alibi").identity()


class TestForwarded:
    def test_rows_times_columns_are_counted(self) -> None:
        engine = opened("full")
        session = engine.open(Layout(rows=2, capacity=9, depth=0, cache="growing"))
        session.prefill(batch([1, 2, 3], [4, 5, 6]))
        assert engine.forwarded == 6

    def test_an_uncached_forward_counts_its_slots(self) -> None:
        engine = opened("full")
        engine.uncached(counted(1, 2, 3, 4))
        assert engine.forwarded == 4


class TestUncached:
    def test_masked_slots_move_nothing(self) -> None:
        engine = opened("window")
        tokens = rolled(9)
        spread = Path(
            tokens=(MASKED, *tokens[:4], MASKED, MASKED, *tokens[4:]), positions=(0, *range(4), 0, 0, *range(4, 9))
        )
        logits = engine.uncached(spread)
        assert largest(torch.cat((logits[1:5], logits[7:])) - engine.uncached(counted(*tokens))) < 1e-13

    def test_a_masked_slot_is_finite(self) -> None:
        logits = opened("full").uncached(Path(tokens=(MASKED, 5), positions=(0, 0)))
        assert bool(logits.isfinite().all())

    @pytest.mark.parametrize("name", NAMES)
    def test_a_gap_in_the_positions_shows(self, name: str) -> None:
        engine = opened(name)
        tokens = tuple(rolled(4))
        gap = Path(tokens=tokens, positions=(0, 1, 3, 4))
        assert largest(engine.uncached(gap)[3] - engine.uncached(counted(*tokens))[3]) > 1e-2

    def test_a_position_without_a_row_in_the_table_is_refused(self) -> None:
        with pytest.raises(EngineError) as error:
            opened("learned").uncached(Path(tokens=(5,), positions=(640,)))
        assert str(error.value) == ("position 640: this decoder has learned 640\n  help: keep rows to 640 tokens")


@pytest.mark.parametrize("cache", ["growing", "fixed", "ring"])
@pytest.mark.parametrize("name", NAMES)
def test_sixty_steps_stay_with_the_uncached_forward(name: str, cache: str) -> None:
    engine = opened(name)
    tokens = rolled(64)
    session = engine.open(Layout(rows=1, capacity=64, depth=0, cache=cache))
    steps = [session.prefill(batch(tokens[:4]))] + [session.append(batch([token])) for token in tokens[4:]]
    assert largest(torch.cat(steps, dim=1)[0] - engine.uncached(counted(*tokens))) < 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_stays_near_the_truth(name: str) -> None:
    tokens = rolled(20)
    session = opened(name, Dtype.BFLOAT16).open(Layout(rows=1, capacity=20, depth=0, cache="growing"))
    logits = session.prefill(batch(tokens))[0].double()
    assert largest(logits - opened(name).uncached(counted(*tokens))) < 0.25


class TestWeights:
    def test_the_tool_writes_the_same_bytes(self, tmp_path: FilePath) -> None:
        spec = importlib.util.spec_from_file_location("weights", ROOT / "tools" / "make_reference_weights.py")
        assert spec is not None
        assert spec.loader is not None
        tool = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tool)
        tool.main(tmp_path)
        written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert written == {path.name: path.read_bytes() for path in WEIGHTS.iterdir()}

    def test_they_stay_small(self) -> None:
        assert sum(path.stat().st_size for path in WEIGHTS.iterdir()) < 600_000

    @pytest.mark.parametrize("name", NAMES)
    def test_logits_spread_over_several_units(self, name: str) -> None:
        assert float(opened(name).uncached(counted(*rolled(20))).std()) > 1.5

    @pytest.mark.parametrize("tokens", [rolled(20), [7] * 20], ids=["random", "repeated"])
    @pytest.mark.parametrize("name", NAMES)
    def test_zeroing_any_visible_value_shows(self, name: str, tokens: list[int]) -> None:
        assert min(moves(opened(name), tokens)) > 1e-3


def moves(engine: ReferenceEngine, tokens: list[int]) -> list[float]:
    """Return how far the next logits move for each value vector of each head, layer and visible slot zeroed alone."""
    session = engine.open(Layout(rows=1, capacity=40, depth=0, cache="growing"))
    session.prefill(batch(tokens))
    healthy = session.fork().append(batch([5]))
    found = []
    for number, layer in enumerate(engine.decoder.config.layers):
        first = 0 if layer.window is None else len(tokens) - layer.window + 1
        for head in range(layer.kv_heads):
            for slot in range(first, len(tokens)):
                damaged = session.fork()
                damaged.storages[number].values[0, head, slot] = 0.0
                found.append(largest(damaged.append(batch([5])) - healthy))
    return found
