"""Rounding: storages that hold numbers of fewer bits. Held are the numbers that the codes stand for."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from evseq.engines.protocol import LayerView
from evseq.engines.reference.caches import Growing
from evseq.engines.reference.positions import wide
from evseq.errors import EngineError
from evseq.geometry import CacheKind, Layer, Layout

__all__ = ["Blocks", "Quantised", "stepped"]


class Quantised(Growing):
    """Each token's head by itself."""

    def __init__(self, layer: Layer, layout: Layout, dtype: torch.dtype, *, kind: CacheKind) -> None:
        super().__init__(layer, layout, dtype)
        how = dict(kind.quantisation)
        self.quantisation, self.bits = how, int(how["bits"])

    def append(
        self,
        keys: Float[Tensor, "row kv_head column head_dim"],
        values: Float[Tensor, "row kv_head column head_dim"],
        positions: Int[Tensor, "row column"],
    ) -> LayerView:
        """Round the columns, then put them behind the others: queries see what is held."""
        return super().append(self.rounded(keys), self.rounded(values), positions)

    def rounded(
        self, states: Float[Tensor, "row kv_head column head_dim"]
    ) -> Float[Tensor, "row kv_head column head_dim"]:
        """Return what is held of new columns."""
        return stepped(states, dim=-1, bits=self.bits)


class Blocks(Growing):
    """The last tokens of a row as they are, older ones in blocks, one scale for each channel of a head."""

    packed: Int[Tensor, " row"]
    """Tokens of each row that are rounded: its oldest ones."""

    def __init__(self, layer: Layer, layout: Layout, dtype: torch.dtype, *, kind: CacheKind) -> None:
        super().__init__(layer, layout, dtype)
        how = dict(kind.quantisation)
        self.quantisation = how
        self.bits, self.block, self.residual = (int(how[of]) for of in ("bits", "block", "residual"))

    def shapes(self, rows: int, slots: int) -> dict[str, tuple[int, ...]]:
        """Add the numbers of rounded tokens."""
        return {**super().shapes(rows, slots), "packed": (rows,)}

    def append(
        self,
        keys: Float[Tensor, "row kv_head column head_dim"],
        values: Float[Tensor, "row kv_head column head_dim"],
        positions: Int[Tensor, "row column"],
    ) -> LayerView:
        """Show the queries what was held and all new columns as they are, then round what is old enough."""
        held = super().append(keys, values, positions)
        self.pack()
        return held

    def pack(self) -> None:
        """Round whole blocks as long as the residual and one block more are there."""
        self.keys, self.values = self.keys.clone(), self.values.clone()  # queries still look at what was
        for row, length in enumerate(self.lengths().tolist()):
            slots = (self.positions[row] >= 0).nonzero().flatten()  # slot of each token, the oldest first
            first = int(self.packed[row])
            while length - first >= self.residual + self.block:
                self.pack_block(row, slots[first : first + self.block])
                first += self.block
            self.packed[row] = first

    def pack_block(self, row: int, slots: Int[Tensor, " slot"]) -> None:
        """Round one block of a row."""
        for states in (self.keys, self.values):
            chosen = states[row][:, slots]  # kv_head slot head_dim
            states[row, :, slots] = self.rounded(chosen)

    def rounded(self, states: Float[Tensor, "kv_head slot head_dim"]) -> Float[Tensor, "kv_head slot head_dim"]:
        """Return what is held of a block."""
        return stepped(states, dim=1, bits=self.bits)

    def clear(self, rows: int) -> None:
        """Drop every slot; nothing is rounded then."""
        super().clear(rows)
        self.packed.zero_()

    def check_crop(self, lengths: Int[Tensor, " row"]) -> None:
        """Raise `EngineError`: what rounding took cannot be brought back."""
        del lengths
        raise EngineError("crop: a cache of rounded blocks cannot go back\n  help: crop with another cache kind")


def stepped(states: Float[Tensor, "..."], *, dim: int, bits: int) -> Float[Tensor, "..."]:
    """Round to 2^bits numbers, evenly from the smallest to the largest along `dim`."""
    numbers = states.to(wide(states.dtype))
    low, high = numbers.amin(dim, keepdim=True), numbers.amax(dim, keepdim=True)
    step = (high - low) / (2**bits - 1)
    codes = ((numbers - low) / step.where(step > 0, 1.0)).round()
    rounded: Tensor = low + codes * step
    return rounded.to(states.dtype)
