"""Rules for the engine as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from evseq.cache.canonical import canonical
from evseq.cache.identity import FIELDS, Part
from evseq.engines.conformance.bench import Bench
from evseq.engines.conformance.rule import rule
from evseq.engines.conformance.trial import Trial, path
from evseq.engines.protocol import Engine, Session
from evseq.errors import EngineError
from evseq.geometry import Capability
from evseq.history import MASKED

__all__ = ["description", "identity", "layout", "tokenizer", "uncached"]


@rule(every_cache=False)
def description(bench: Bench) -> Iterator[str]:
    """Describe the same decoder every time, and give it every member of the protocol."""
    description = bench.description
    if bench.loader.describe() != description:
        yield "two descriptions of one loader differ"
    if description.deciding.dtype not in description.dtypes:
        yield f"the deciding dtype {description.deciding.dtype} is not among the dtypes"
    names = [kind.name for kind in description.caches]
    if not names or len(set(names)) != len(names):
        yield f"cache kinds {names} are not at least one, each with its own name"
    engine: object = bench.engine
    session: object = bench.engine.open(bench.layout())
    if not isinstance(engine, Engine):
        yield f"{type(engine).__name__} lacks a member of evseq.engines.protocol.Engine"
    if not isinstance(session, Session):
        yield f"{type(session).__name__} lacks a member of evseq.engines.protocol.Session"
    again = bench.loader.load(bench.engine.dtype, {name: words[0] for name, words in description.options.items()})
    if again.dtype != bench.engine.dtype:
        yield f"loaded in {bench.engine.dtype}, the engine says {again.dtype}"


@rule(every_cache=False)
def identity(bench: Bench) -> Iterator[str]:
    """Return every model field of evseq.cache.identity.FIELDS, read from the live objects."""
    first = dict(bench.engine.identity())
    expected = {name for name, registered in FIELDS.items() if registered.part is Part.MODEL}
    for name in sorted(expected - set(first)):
        yield f"identity: {name} is missing"
    for name in sorted(set(first) - expected):
        yield f"identity: {name} is not a field of the model"
    for name, value in first.items():
        canonical(value, place=name)
    live = first.get("weights.live")
    if not isinstance(live, dict) or not live:
        yield "identity: weights.live names no tensor"
    if first.get("numeric.dtype") != bench.engine.dtype.value:
        yield f"identity: numeric.dtype is {first.get('numeric.dtype')!r}, the engine runs in {bench.engine.dtype}"
    if first.get("numeric.device") not in (None, bench.description.device):
        yield f"identity: numeric.device is {first.get('numeric.device')!r}, described is {bench.description.device!r}"
    Trial.filled(bench)
    second = bench.engine.identity()
    for name in sorted(name for name in first if canonical(first[name]) != canonical(second.get(name))):
        yield f"identity: {name} changed though nothing but a prefill happened"


@rule(Capability.TEXT, every_cache=False)
def tokenizer(bench: Bench) -> Iterator[str]:
    """Let loader and engine ask the same tokenizer."""
    text = "one row, two beams"
    loaded, described = bench.engine.tokenize(text), bench.loader.tokenize(text)
    if loaded != described:
        yield f"the engine reads {text!r} as {loaded}, its loader as {described}"
    vocab = bench.description.geometry.vocab
    if not loaded or any(not 0 <= token < vocab for token in loaded):
        yield f"{text!r} became {loaded}, not ids below {vocab}"


@rule(every_cache=False)
def uncached(bench: Bench) -> Iterator[str]:
    """Run the path in one causal forward without a cache, masked slots hidden, its positions kept."""
    tokens = bench.tokens(bench.span)
    row = list(zip(tokens, range(bench.span), strict=True))
    whole = bench.engine.uncached(path(row))  # position vocab
    shape = (bench.span, bench.description.geometry.vocab)
    if tuple(whole.shape) != shape or not bool(whole.isfinite().all()):
        yield f"uncached logits are not finite numbers of shape {shape}"
        return
    if not torch.equal(whole, bench.engine.uncached(path(row))):
        yield "two uncached forwards of one path differ"
    start = bench.engine.uncached(path(row[:3]))  # position vocab
    if float((whole[:3] - start).abs().max()) > bench.allowed(start):
        yield "later tokens move the logits of earlier ones"
    other = [((tokens[0] + 1) % shape[1], 0), *row[1:]]
    if float((whole[1] - bench.engine.uncached(path(other))[1]).abs().max()) <= bench.allowed(whole[1]):
        yield "another first token does not move the second token's logits: nothing can be judged with these weights"
    if bench.can(Capability.PADDING):
        padded = bench.engine.uncached(path([(MASKED, 0), *row]))[1:]  # position vocab
        if float((whole - padded).abs().max()) > bench.allowed(whole):
            yield "a masked slot in front moves the logits"


@rule(every_cache=False)
def layout(bench: Bench) -> Iterator[str]:
    """Raise EngineError for a cache kind that the description does not list."""
    try:
        bench.engine.open(replace(bench.layout(), cache="no-such-kind"))
    except EngineError:
        return
    yield "open took a layout with cache 'no-such-kind'"
