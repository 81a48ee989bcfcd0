"""Decoder: the modules that hold the weights, and the cached step through them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from evseq.engines.protocol import LayerView
from evseq.engines.reference.config import Coding, Config, FeedForward, Norm
from evseq.engines.reference.positions import rotary, slopes, turn, wide
from evseq.engines.reference.storage import Storage, early
from evseq.geometry import Layer

__all__ = ["Block", "Decoder", "attend", "column_by_column"]

EPSILON = 1e-5
"""Keeps a norm of a zero vector finite."""

Angles = tuple[Float[Tensor, "row 1 query half"], Float[Tensor, "row 1 query half"]]


class Scale(nn.Module):
    """Root mean square or layer norm, computed wide and cast back."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.hidden))
        self.bias = nn.Parameter(torch.empty(config.hidden)) if config.norm is Norm.LAYER else None

    def forward(self, hidden: Float[Tensor, "*row query hidden"]) -> Float[Tensor, "*row query hidden"]:
        """Return `hidden` at unit size, then scaled and shifted."""
        dtype, size = wide(hidden.dtype), hidden.shape[-1:]
        states, weight = hidden.to(dtype), self.weight.to(dtype)  # row query hidden, hidden
        if self.bias is None:
            scaled = nn.functional.rms_norm(states, size, weight, eps=EPSILON)  # row query hidden
        else:
            scaled = nn.functional.layer_norm(
                states, size, weight, self.bias.to(dtype), eps=EPSILON
            )  # row query hidden
        return scaled.to(hidden.dtype)


class Linear(nn.Linear):
    """A linear map whose weights are loaded later: first ones would take as long as all the rest of loading."""

    def reset_parameters(self) -> None:
        """Draw nothing."""


class Mix(nn.Module):
    """The feed-forward block: each token alone."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        bias = config.norm is Norm.LAYER
        gated = config.feed_forward is FeedForward.GATED
        self.gate = Linear(config.hidden, config.width, bias=bias) if gated else None
        self.up = Linear(config.hidden, config.width, bias=bias)
        self.down = Linear(config.width, config.hidden, bias=bias)

    def forward(self, hidden: Float[Tensor, "*row query hidden"]) -> Float[Tensor, "*row query hidden"]:
        """Return what the block adds."""
        inner = self.up(hidden)  # row query width
        inner = nn.functional.gelu(inner) if self.gate is None else nn.functional.silu(self.gate(hidden)) * inner
        return self.down(inner)  # type: ignore[no-any-return]


class Block(nn.Module):
    """One layer: attention over what a cache holds, then the feed-forward block."""

    def __init__(self, config: Config, layer: Layer) -> None:
        super().__init__()
        self.head_dim = layer.head_dim
        bias = config.norm is Norm.LAYER
        cached = layer.kv_heads * layer.head_dim
        self.attention_norm = Scale(config)
        self.queries = Linear(config.hidden, config.hidden, bias=bias)
        self.keys = Linear(config.hidden, cached, bias=bias)
        self.values = Linear(config.hidden, cached, bias=bias)
        self.out = Linear(config.hidden, config.hidden, bias=bias)
        self.mix_norm = Scale(config)
        self.mix = Mix(config)

    def project(
        self, hidden: Float[Tensor, "row query hidden"]
    ) -> tuple[
        Float[Tensor, "row head query head_dim"],
        Float[Tensor, "row kv_head query head_dim"],
        Float[Tensor, "row kv_head query head_dim"],
    ]:
        """Return queries, keys and values of each head, before any position is worked in."""
        normed = self.attention_norm(hidden)  # row query hidden
        queries, keys, values = (
            linear(normed).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # row head query head_dim
            for linear in (self.queries, self.keys, self.values)
        )
        return queries, keys, values

    def finish(
        self, hidden: Float[Tensor, "row query hidden"], mixed: Float[Tensor, "row head query head_dim"]
    ) -> Float[Tensor, "row query hidden"]:
        """Add what the attention and the feed-forward block found."""
        hidden = hidden + self.out(mixed.transpose(1, 2).flatten(2))  # row query hidden
        return hidden + self.mix(self.mix_norm(hidden))  # type: ignore[no-any-return]


def attend(
    queries: Float[Tensor, "row head query head_dim"],
    positions: Int[Tensor, "row query"],
    held: LayerView,
    *,
    window: int | None,
    falls: Float[Tensor, " head"] | None,
    sinks: int = 0,
) -> Float[Tensor, "row head query head_dim"]:
    """Attend from each query to the held slots at its position or before, inside the window or among the first `sinks`.

    A masked query (position -1) sees nothing and returns zeros; a masked or empty slot (position -1) is seen by none.
    """
    rows, heads, columns, head_dim = queries.shape
    kv_heads = held.keys.shape[1]
    shape = (rows, kv_heads, heads // kv_heads, columns, -1)
    # The heads of a group stand behind each other as queries of their kv head, so that no key is copied for them.
    grouped = queries.reshape(rows, kv_heads, -1, head_dim)  # row kv_head group*query head_dim
    keys, values = held.keys.to(queries.dtype), held.values.to(queries.dtype)  # row kv_head slot head_dim
    scores = grouped @ keys.transpose(-1, -2) / math.sqrt(head_dim)  # row kv_head group*query slot
    scores = scores.to(wide(queries.dtype)).view(shape)  # row kv_head group query slot

    distance = positions[:, :, None] - held.positions[:, None, :]  # row query slot
    hidden = (held.positions < 0)[:, None, :] | (distance < 0)  # row query slot
    if window is not None:
        hidden = hidden | (distance >= window) & ~early(held.positions, sinks)[:, None, :]  # row query slot
    hidden = hidden[:, None, None]  # row 1 1 query slot

    if falls is not None:
        steep = falls.view(1, kv_heads, -1, 1, 1)  # 1 kv_head group 1 1
        scores = scores - steep * distance[:, None, None]  # row kv_head group query slot
    # The lowest finite number, not -inf: a masked query hides every slot, and its NaN would reach the cache.
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1).masked_fill(hidden, 0.0).to(queries.dtype)  # row kv_head group query slot
    mixed: Tensor = weights.flatten(2, 3) @ values  # row kv_head group*query head_dim
    return mixed.reshape(queries.shape)


def column_by_column(
    queries: Float[Tensor, "row head query head_dim"],
    positions: Int[Tensor, "row query"],
    held: LayerView,
    *,
    window: int | None,
    falls: Float[Tensor, " head"] | None,
    sinks: int = 0,
) -> Float[Tensor, "row head query head_dim"]:
    """Attend as the plain kernel does, one column of queries after the other."""
    columns = [
        attend(queries[:, :, at : at + 1], positions[:, at : at + 1], held, window=window, falls=falls, sinks=sinks)
        for at in range(queries.shape[2])
    ]
    return torch.cat(columns, dim=2)


def _table(entries: int, hidden: int) -> nn.Embedding:
    """Return an embedding whose weights are loaded later.

    Initialising one without memory imports all of torch's compiler: two seconds for numbers nobody reads.
    """
    return nn.Embedding(entries, hidden, _weight=torch.empty(entries, hidden))


class Decoder(nn.Module):
    """The whole decoder. `config` and `kernel` are read at every forward: what they say is what runs."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.kernel: Callable[..., Tensor] = attend
        self.embedding = _table(config.vocab, config.hidden)
        learned = config.coding is Coding.LEARNED
        self.places = _table(config.max_positions or 0, config.hidden) if learned else None
        self.blocks = nn.ModuleList(Block(config, layer) for layer in config.layers)
        self.norm = Scale(config)
        self.head = Linear(config.hidden, config.vocab, bias=False)

    def forward(
        self,
        tokens: Int[Tensor, "row query"],
        positions: Int[Tensor, "row query"],
        storages: Sequence[Storage],
    ) -> Float[Tensor, "row query vocab"]:
        """Feed new columns onto what `storages` hold, one per layer. `positions` is -1 in masked columns."""
        config = self.config
        hidden = self.embedding(tokens)  # row query hidden
        if self.places is not None:
            hidden = hidden + self.places(positions.clamp(min=0))  # row query hidden
        dtype = hidden.dtype
        angles: Angles | None = None
        if config.coding is Coding.ROTARY:
            angles = rotary(positions, head_dim=config.head_dim, theta=config.theta, dtype=dtype)
        falls = slopes(config.heads, dtype=dtype) if config.coding is Coding.ALIBI else None
        for block, layer, storage in zip(self.blocks, config.layers, storages, strict=True):
            assert isinstance(block, Block)
            queries, keys, values = block.project(hidden)  # row head query head_dim
            if angles is not None:
                queries, keys = turn(queries, angles), turn(keys, angles)
            held = storage.append(keys.to(storage.dtype), values.to(storage.dtype), positions)
            shown = storage.shown(layer)
            mixed = self.kernel(queries, positions, held, window=shown.window, falls=falls, sinks=shown.sinks)
            hidden = block.finish(hidden, mixed)  # row query hidden
        return self.head(self.norm(hidden))  # type: ignore[no-any-return]
