"""A second engine in under 100 lines: a two-layer decoder with learned positions, opened as `planted.second:Second`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from evseq import Batch, Probe
from evseq import geometry as geo
from evseq.cache.content import root, tensor_digest
from evseq.cache.fields import FIELDS, Part
from evseq.cache.state import CacheState, Scalar
from evseq.engines.protocol import CacheView, LayerView
from evseq.history import Path

LAYERS, HEADS, DIM, VOCAB, LIMIT, WIDTH = 2, 2, 16, 64, 640, 32


class Second:
    """Loader and engine in one: `load` returns another in the dtype asked for."""

    def __init__(self, dtype: geo.Dtype = geo.Dtype.FLOAT64) -> None:
        seed = torch.Generator().manual_seed(1)
        shapes = {"tokens": (VOCAB, WIDTH), "places": (LIMIT, WIDTH), "qkv": (LAYERS, WIDTH, 3 * WIDTH)}
        drawn = {name: torch.randn(shape, generator=seed) * 0.3 for name, shape in shapes.items()}
        self.source = root({name: tensor_digest(tensor) for name, tensor in drawn.items()})
        self.weights = {name: tensor.to(getattr(torch, dtype)) for name, tensor in drawn.items()}
        self.dtype, self.forwarded = dtype, 0

    def describe(self) -> geo.Description:
        layers, mask = (geo.Layer(kv_heads=HEADS, head_dim=DIM),) * LAYERS, geo.PositionRule.MASK
        return geo.Description(
            geometry=geo.Geometry(layers=layers, vocab=VOCAB, position_rule=mask, max_positions=LIMIT),
            capabilities=frozenset(geo.Capability) - {geo.Capability.TEXT, geo.Capability.JOIN, geo.Capability.POOL},
            caches=(geo.CacheKind(name="plain", full=geo.Keep.EVERY, sliding=geo.Keep.EVERY),),
            dtypes=(geo.Dtype.FLOAT64, geo.Dtype.FLOAT32),
            deciding=geo.Deciding.PURE,
            options={},
        )

    def load(self, dtype: geo.Dtype, options: Mapping[str, str]) -> Second:
        return Second(dtype)

    def tokenize(self, text: str) -> tuple[int, ...]:
        raise NotImplementedError(f"no tokenizer for {text!r}: the capability `text` is not declared")

    def identity(self) -> dict[str, Scalar]:
        known: dict[str, Scalar] = {"model.architecture": "second", "weights.source": self.source, "model.adapters": []}
        known |= {"weights.live": {name: tensor_digest(tensor) for name, tensor in self.weights.items()}}
        none = {name: None for name, field in FIELDS.items() if field.part is Part.MODEL}
        return {**none, **known, "numeric.dtype": self.dtype.value}

    def uncached(self, path: Path) -> Tensor:
        tokens = torch.tensor([path.tokens])
        return self.run(tokens.clamp_min(0), torch.tensor([path.positions]).where(tokens >= 0, -1), None)[0]

    def open(self, layout: geo.Layout) -> SecondSession:
        return SecondSession(self)

    def run(self, tokens: Tensor, places: Tensor, session: SecondSession | None) -> Tensor:
        self.forwarded += tokens.numel()
        weights, hidden = self.weights, self.weights["tokens"][tokens] + self.weights["places"][places.clamp_min(0)]
        held = places if session is None else torch.cat([session.places, places], 1)
        seen = (held[:, None] >= 0).expand(-1, places.shape[1], -1).tril(held.shape[1] - places.shape[1])
        for layer in range(LAYERS):
            mixed = torch.layer_norm(hidden, (WIDTH,)) @ weights["qkv"][layer]
            query, keys, values = mixed.unflatten(-1, (3, HEADS, DIM)).permute(2, 0, 3, 1, 4)  # row head query dim
            if session is not None:
                keys, values = (torch.cat(pair, 2) for pair in zip(session.cache[layer], (keys, values), strict=True))
                session.cache[layer] = (keys, values)
            scores = (query @ keys.mT / DIM**0.5).masked_fill(~seen[:, None], -1e9)
            hidden = hidden + (scores.softmax(-1) @ values).transpose(1, 2).flatten(2)
        if session is not None:
            session.places = held
        return torch.matmul(torch.layer_norm(hidden, (WIDTH,)), weights["tokens"].T)


class SecondSession:
    def __init__(self, engine: Second) -> None:
        self.engine, self.places = engine, torch.empty(0)
        self.cache: list[tuple[Tensor, Tensor]] = []

    def prefill(self, batch: Batch) -> Tensor:
        if not self.cache:
            empty = torch.zeros(len(batch.tokens), HEADS, 0, DIM, dtype=getattr(torch, self.engine.dtype))
            self.cache, self.places = [(empty, empty)] * LAYERS, torch.zeros(len(batch.tokens), 0, dtype=torch.long)
        counted = (self.places >= 0).sum(1, keepdim=True) + batch.mask.cumsum(1) - 1
        places = counted if batch.positions is None else batch.positions
        return self.engine.run(batch.tokens, places.where(batch.mask, -1), self)

    append = prefill

    def select(self, parents: Sequence[int]) -> None:
        self.places, self.cache = self.places[[*parents]], [(k[[*parents]], v[[*parents]]) for k, v in self.cache]

    def crop(self, lengths: Sequence[int]) -> None:
        self.places = self.places.where((self.places >= 0).cumsum(1) <= torch.tensor(lengths)[:, None], -1)
        width = int(max(((row >= 0).nonzero().max() + 1 for row in self.places if (row >= 0).any()), default=0))
        self.places, self.cache = self.places[:, :width], [(k[:, :, :width], v[:, :, :width]) for k, v in self.cache]

    def fork(self) -> SecondSession:
        return copy.deepcopy(self, {id(self.engine): self.engine})

    def export(self) -> CacheState:
        tensors = {f"layer.{n}.keys": keys.clone() for n, (keys, _) in enumerate(self.cache)}
        tensors |= {f"layer.{n}.values": values.clone() for n, (_, values) in enumerate(self.cache)}
        return CacheState(kind="plain", tensors={**tensors, "places": self.places.clone()}, scalars={})

    def reset(self) -> None:
        self.cache = []

    def restore(self, state: CacheState) -> None:
        held, self.places = state.tensors, state.tensors["places"].clone()
        self.cache = [(held[f"layer.{n}.keys"].clone(), held[f"layer.{n}.values"].clone()) for n in range(LAYERS)]

    def probe(self) -> Probe:
        lengths = tuple((self.places >= 0).sum(1).tolist())
        size = sum(tensor.numel() * tensor.element_size() for pair in self.cache for tensor in pair)
        after = tuple((torch.nn.functional.pad(self.places, (1, 0), value=-1).amax(1) + 1).tolist())
        return Probe(lengths=lengths, next_positions=after, visible=(lengths,) * LAYERS, cache_bytes=size)

    def view(self) -> CacheView:
        return CacheView(layers=tuple(LayerView(keys=k, values=v, positions=self.places) for k, v in self.cache))
