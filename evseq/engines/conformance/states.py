"""Rules for what leaves a session or shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from evseq.cache.canonical import canonical
from evseq.cache.state import CacheState
from evseq.engines.conformance.bench import Bench
from evseq.engines.conformance.rule import rule
from evseq.engines.conformance.trial import Trial, repeats
from evseq.errors import EngineError
from evseq.geometry import Capability

__all__ = ["export", "forwarded", "misfit", "restore", "view"]


@rule(Capability.SERIALIZE)
def export(bench: Bench) -> Iterator[str]:
    """Copy what is exported."""
    trial = Trial.filled(bench)
    state = trial.session.export()
    if state.kind != bench.kind.name:
        yield f"export: kind is {state.kind!r}, the session was opened with {bench.kind.name!r}"
    for name, value in state.scalars.items():
        canonical(value, place=name)
    kept = {name: tensor.clone() for name, tensor in state.tensors.items()}
    trial.step()
    yield from _moved(kept, state, "a later step")
    if bench.can(Capability.RESET):
        trial.reset()
        yield from _moved(kept, state, "a reset")
    yield from trial.found()


@rule(Capability.SERIALIZE)
def restore(bench: Bench) -> Iterator[str]:
    """Take over every tensor and counter, copied, and forward nothing."""
    trial = Trial.filled(bench)
    trial.step()
    state = trial.session.export()
    kept = {name: tensor.clone() for name, tensor in state.tensors.items()}
    before = bench.engine.forwarded
    session = bench.engine.open(trial.layout)
    session.restore(state)
    if bench.engine.forwarded != before:
        yield f"restore forwarded {bench.engine.forwarded - before} tokens"
    again = trial.twin(session)
    again.probe()
    exact = repeats(bench)
    for _ in range(3):
        fed = bench.batch(1)
        trial.feed(fed)
        again.feed(fed)
        if exact and not torch.equal(trial.logits, again.logits):
            apart = float((trial.logits - again.logits).abs().max())
            yield f"a restored cache continues {apart:.1e} from its source, not bit for bit"
    yield from _moved(kept, state, "a step of the session restored from it")
    second = bench.engine.open(trial.layout)
    second.restore(replace(state, tensors=kept))
    third = bench.engine.open(trial.layout)
    third.restore(second.export())
    if second.probe() != third.probe():
        yield "export and restore twice do not give the same probe"
    again.found()
    yield from trial.found()


@rule(Capability.SERIALIZE)
def misfit(bench: Bench) -> Iterator[str]:
    """Check kind, names, shapes and dtypes before anything is taken over."""
    state = Trial.filled(bench).session.export()
    first = min(state.tensors)
    tensors = {name: tensor for name, tensor in state.tensors.items() if name != first}
    largest = max(state.tensors, key=lambda name: state.tensors[name].numel())
    doubled = {**state.tensors, largest: torch.cat((state.tensors[largest],) * 2, dim=-1)}
    for word, wrong in (
        ("of another kind", replace(state, kind="no-such-kind")),
        (f"without {first}", replace(state, tensors=tensors)),
        (f"with {largest} twice as wide", replace(state, tensors=doubled)),
    ):
        trial = Trial.opened(bench)
        try:
            trial.session.restore(wrong)
        except EngineError:
            trial.feed(bench.batch(bench.span), prefill=True)
            trial.probe()
            yield from (f"after a refused restore: {line}" for line in trial.found())
        else:
            yield f"restore took a state {word}"


@rule()
def forwarded(bench: Bench) -> Iterator[str]:
    """Count rows times columns in a hook on the embedding."""
    trial = Trial.opened(bench, bench.layout(depth=2))
    session, before = trial.session, bench.engine.forwarded
    trial.feed(bench.batch(4), prefill=True)
    fed = bench.engine.forwarded
    if fed - before != 4 * bench.rows:
        yield f"{4 * bench.rows} tokens went through the embedding, forwarded counts {fed - before}"
    session.probe()
    session.view()
    if bench.can(Capability.FORK):
        session.fork()
    if bench.can(Capability.BEAM):
        session.select(list(range(bench.rows)))
    if bench.can(Capability.CROP) and bench.kind.crops:
        session.crop([3] * bench.rows)
    if bench.engine.forwarded != fed:
        yield f"probe, view, fork, select and crop forwarded {bench.engine.forwarded - fed} tokens"


@rule()
def view(bench: Bench) -> Iterator[str]:
    """Show what is held, with -1 as the position of masked, empty and dropped slots."""
    trial = Trial.filled(bench)
    trial.step()
    view, probe = trial.session.view(), trial.session.probe()
    if view is None:
        return
    layers = bench.description.geometry.layers
    if len(view.layers) != len(layers):
        yield f"view: {len(view.layers)} layers, not {len(layers)}"
    for number, (seen, layer) in enumerate(zip(view.layers, layers, strict=False)):
        rows, kv_heads, slots, head_dim = seen.keys.shape
        if (rows, kv_heads, head_dim) != (bench.rows, layer.kv_heads, layer.head_dim):
            yield f"view: keys of layer {number} have shape {tuple(seen.keys.shape)}"
        if seen.values.shape != seen.keys.shape or tuple(seen.positions.shape) != (rows, slots):
            yield f"view: keys, values and positions of layer {number} do not fit together"
        held = (seen.positions >= 0).sum(dim=1).tolist()
        kept_all = layer.window is None and layer.attends
        for row, (count, length, visible) in enumerate(zip(held, probe.lengths, probe.visible[number], strict=True)):
            if not visible <= count <= length or (kept_all and count != length):
                yield (
                    f"view: row {row} of layer {number} holds {count} tokens, the probe says {length}, "
                    f"{visible} of them visible"
                )
    held_bytes = sum(
        states.numel() * states.element_size() for seen in view.layers for states in (seen.keys, seen.values)
    )
    if held_bytes != probe.cache_bytes:
        yield f"view: keys and values are {held_bytes} bytes, the probe says {probe.cache_bytes}"


def _moved(kept: Mapping[str, Tensor], state: CacheState, by: str) -> Iterator[str]:
    for name, tensor in kept.items():
        if not torch.equal(tensor, state.tensors[name]):
            yield f"export: {name} was moved by {by}"
