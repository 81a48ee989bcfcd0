"""The quantised cache of transformers: what it promises and cannot do, and that it survives copy and file whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch
from evseq.engines.registry import find
from evseq.engines.transformers import quantised
from evseq.engines.transformers.engine import TransformersEngine
from evseq.engines.transformers.session import TransformersSession
from evseq.errors import EngineError
from evseq.geometry import Dtype, Layer, Layout, Promise
from evseq.verdict.accounting import accounting
from playing import lines, observed, played

pytest.importorskip("optimum.quanto")

LAYOUT = Layout(rows=2, capacity=20, depth=0, cache="quantised")


@pytest.fixture(scope="module")
def engine() -> TransformersEngine:
    loaded = find("transformers:new/llama").load(Dtype.FLOAT64, {"attention": "sdpa"})
    assert isinstance(loaded, TransformersEngine)
    return loaded


def batch(*rows: list[int], start: int) -> Batch:
    tokens = torch.tensor(rows)
    places = torch.arange(start, start + tokens.shape[1]).expand(tokens.shape)
    return Batch(tokens=tokens, mask=torch.ones_like(tokens, dtype=torch.bool), positions=places)


def filled(engine: TransformersEngine) -> TransformersSession:
    """Return two rows of five tokens packed and two that wait, their order changed since."""
    session = engine.open(LAYOUT)
    session.prefill(batch([5, 9, 2, 7, 11], [3, 1, 4, 1, 5], start=0))
    session.append(batch([8, 8], [6, 3], start=5))
    session.select([1, 0])
    return session


def going_on(session: TransformersSession) -> torch.Tensor:
    return torch.cat([session.append(batch([20 + at], [30 + at], start=7 + at)) for at in range(3)], dim=1)


def test_it_is_lossy_and_says_how_it_rounds() -> None:
    kind = find("transformers:new/llama").describe().cache("quantised")

    assert kind is not None
    assert (kind.promise, kind.crops, kind.joins, kind.packs) == (Promise.LOSSY, False, False, True)
    assert dict(kind.quantisation) | {"backend": ""} == {"backend": "", "bits": 4, "group": 16, "residual": 4}


def test_windows_have_none_and_say_why() -> None:
    result = played(
        "rows: {a: [1, 2]}\narms: {cache: [quantised]}\nevents:\n  - prefill: [a]\n", "transformers:new/mistral"
    )

    assert result.cases[0].reason == (
        "no cache kind 'quantised': transformers quantises caches of full attention alone"
    )


def test_mixtures_of_experts_have_none_and_say_why() -> None:
    described = find("transformers:new/mixtral").describe()

    assert described.cache("quantised") is None
    assert described.absent == (
        (
            "quantised",
            "a router may choose other experts for what is rounded, and no distance bounds what that changes",
        ),
    )


def test_heads_whose_groups_are_too_small_to_save_anything_have_none() -> None:
    assert quantised.missing((Layer(kv_heads=1, head_dim=6),), routed=False) == (
        "heads of 6 numbers are rounded in groups of 2, and nothing is saved by that"
    )
    assert quantised.missing((Layer(kv_heads=1, head_dim=20),), routed=False) is None


def test_without_the_package_it_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantised, "is_optimum_quanto_available", lambda: False)

    assert quantised.missing((Layer(kv_heads=1, head_dim=8),), routed=False) == (
        "optimum-quanto is not installed: pip install 'evseq[quantised]'"
    )
    assert find("transformers:new/llama").describe().cache("quantised") is None


def test_a_fork_goes_on_bit_for_bit_and_shares_nothing(engine: TransformersEngine) -> None:
    session = filled(engine)
    twin = session.fork()

    expected = going_on(session)

    assert torch.equal(going_on(twin), expected)


def test_a_restored_session_goes_on_bit_for_bit(engine: TransformersEngine) -> None:
    session = filled(engine)
    again = engine.open(LAYOUT)
    again.restore(session.export())

    assert torch.equal(going_on(again), going_on(session))


def test_an_empty_session_survives_too(engine: TransformersEngine) -> None:
    again = engine.open(LAYOUT)
    again.restore(engine.open(LAYOUT).export())

    assert again.probe().lengths == (0, 0)


def test_it_holds_fewer_bytes_than_its_numbers(engine: TransformersEngine) -> None:
    probe = filled(engine).probe()

    # 2 rows, 2 layers, keys and values, 2 heads of 16: five tokens of 8 bytes of codes and a scale and a zero point in
    # float64, and two tokens as they are.
    assert probe.cache_bytes == 2 * 2 * 2 * 2 * (5 * (8 + 2 * 8) + 2 * 16 * 8)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("layer.0.packed.keys.scale", "layer.0: keys are not what its codes stand for"),
        ("layer.1.values", "layer.1: values are not what its codes stand for"),
    ],
)
def test_a_part_that_does_not_fit_the_others_is_refused(engine: TransformersEngine, name: str, told: str) -> None:
    state = filled(engine).export()
    tensors = {**state.tensors, name: state.tensors[name] * 2}

    with pytest.raises(EngineError) as error:
        engine.open(LAYOUT).restore(replace(state, tensors=tensors))

    assert str(error.value).startswith(f"restore: {told}\n  help: ")


def test_a_part_that_is_missing_is_refused(engine: TransformersEngine) -> None:
    state = filled(engine).export()
    tensors = {name: tensor for name, tensor in state.tensors.items() if name != "layer.1.tail.keys"}

    with pytest.raises(EngineError, match=r"^restore: layer\.1: KeyError: 'layer\.1\.tail\.keys'\n"):
        engine.open(LAYOUT).restore(CacheState(kind=state.kind, tensors=tensors, scalars=state.scalars))


def test_columns_that_were_not_fed_are_refused(engine: TransformersEngine) -> None:
    state = filled(engine).export()
    scalars = {**state.scalars, "layer.0.cumulative_length": 9}

    with pytest.raises(EngineError, match=r"^restore: layer\.0: fed 9 columns, not 7\n"):
        engine.open(LAYOUT).restore(replace(state, scalars=scalars))


def test_it_cannot_go_back(engine: TransformersEngine) -> None:
    with pytest.raises(EngineError, match=r"^crop: layer 0 has rounded what it would go back to\n"):
        filled(engine).crop([5, 5])


def test_no_rows_enter_it(engine: TransformersEngine) -> None:
    with pytest.raises(EngineError, match=r"^join: rows of quantised layers wait at different edges\n"):
        filled(engine).join(filled(engine))


def test_halved_bits_are_what_opens_while_they_are_changed(engine: TransformersEngine) -> None:
    with engine.altered("cache.quantisation", {}) as key:
        session = engine.open(LAYOUT)
        session.prefill(batch([5, 9], [3, 1], start=0))

    assert (key, session.quantisation["bits"], filled(engine).quantisation["bits"]) == ("bits", 2, 4)


def test_a_cache_that_packs_nothing_is_a_finding() -> None:
    text = "rows: {a: [1, 2, 3, 4, 5]}\narms: {cache: [quantised]}\nevents:\n  - prefill: [a]\n"
    evidence = observed(text, "transformers:new/llama")
    (probed,) = evidence.recording.probed
    whole = 5 * 2 * 2 * 2 * 16 * 8  # tokens, layers, keys and values, heads of 16, float64

    assert list(accounting(evidence)) == []
    evidence.recording.probed[0] = replace(probed, probe=replace(probed.probe, cache_bytes=whole))
    assert [finding.message for finding in accounting(evidence)] == [
        "cache bytes: 5120, expected less than 5120",
    ]


@pytest.mark.parametrize(
    ("fault", "told"),
    [("packed-not-selected", ": solo: "), ("zero-point-dropped", ": envelope: "), ("", None)],
)
def test_a_row_is_held_to_itself_alone_and_to_an_envelope(fault: str, told: str | None) -> None:
    text = """\
    rows:
      a: {random: {length: 13, seed: 92}}
      b: {random: {length: 13, seed: 93}}
    arms:
      cache: [quantised]
    events:
      - prefill: {rows: {a: 9, b: 7}}
      - append: {next: 2}
      - beam-select: {x: b, y: a}
      - append: {ids: {x: [1], y: [2]}}
    """
    found = lines(played(text, f"transformers:new/llama{'+' if fault else ''}{fault}"))

    assert (told in found[0]) if told else (found == [])
