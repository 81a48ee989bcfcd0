"""The kinds of storage: growing, fixed, ring. They differ in the slot a new column gets."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from evseq.cache.state import CacheState, Scalar
from evseq.engines.protocol import LayerView
from evseq.engines.reference.storage import Storage
from evseq.errors import EngineError
from evseq.geometry import Layout

__all__ = ["Fixed", "Growing", "Ring"]


class Growing(Storage):
    """One slot per column fed."""

    @property
    def slots(self) -> int:
        """None until something is fed."""
        return 0

    def append(
        self,
        keys: Float[Tensor, "row kv_head column head_dim"],
        values: Float[Tensor, "row kv_head column head_dim"],
        positions: Int[Tensor, "row column"],
    ) -> LayerView:
        """Put the columns behind the others."""
        self.keys = torch.cat((self.keys, keys), dim=2)  # row kv_head slot head_dim
        self.values = torch.cat((self.values, values), dim=2)  # row kv_head slot head_dim
        self.positions = torch.cat((self.positions, positions), dim=1)  # row slot
        return LayerView(keys=self.keys, values=self.values, positions=self.positions)

    def crop(self, lengths: Int[Tensor, " row"]) -> None:
        """Mark dropped tokens and cut off the columns behind the last kept one."""
        positions = self.kept(lengths)  # row slot
        columns = _columns(positions)
        self.keys = self.keys[:, :, :columns].clone()  # row kv_head slot head_dim
        self.values = self.values[:, :, :columns].clone()  # row kv_head slot head_dim
        self.positions = positions[:, :columns].clone()  # row slot

    def join(self, other: Storage) -> None:
        """Put empty slots in front of the side that has fewer."""
        assert isinstance(other, Growing)
        short = self.positions.shape[1] - other.positions.shape[1]
        (other if short > 0 else self).front(abs(short))
        self.add_rows(other)

    def front(self, slots: int) -> None:
        """Put so many empty slots in front."""
        pads = (slots, 0)
        self.keys, self.values = (pad(states, (0, 0, *pads)) for states in (self.keys, self.values))
        self.positions = pad(self.positions, pads, value=-1)  # row slot

    def clear(self, rows: int) -> None:
        """Drop every slot: there is no buffer to keep."""
        self.fill(rows)

    def restored_slots(self, slots: int) -> int:
        """Return `slots`: any number fits."""
        return slots


class Fixed(Storage):
    """All slots of the layout, allocated at once; column i is slot i."""

    columns = 0
    """How many columns were fed; a slot behind them and a masked one look the same."""

    @property
    def slots(self) -> int:
        """Those of the layout."""
        return self.layout.capacity

    def append(
        self,
        keys: Float[Tensor, "row kv_head column head_dim"],
        values: Float[Tensor, "row kv_head column head_dim"],
        positions: Int[Tensor, "row column"],
    ) -> LayerView:
        """Write the columns into the next slots; attend over all slots, empty ones hidden by their position."""
        new = slice(self.columns, self.columns + positions.shape[1])
        self.keys[:, :, new] = keys
        self.values[:, :, new] = values
        self.positions[:, new] = positions
        self.columns = new.stop
        return LayerView(keys=self.keys, values=self.values, positions=self.positions)

    def join(self, other: Storage) -> None:
        """Move the columns of the side that has fewer to where the other's end."""
        assert isinstance(other, Fixed)
        short = self.columns - other.columns
        (other if short > 0 else self).front(abs(short))
        self.add_rows(other)

    def front(self, slots: int) -> None:
        """Move every column back by so many slots; those that come round to the front were not written yet."""
        for part, tensor in self.parts().items():
            setattr(self, part, tensor.roll(slots, dims=1 if part == "positions" else 2))
        self.columns += slots

    def check_room(self, mask: Bool[Tensor, "row column"]) -> None:
        """Raise `EngineError` if the columns reach beyond the last slot."""
        _check_capacity(self.columns + mask.shape[1], self.layout)

    def crop(self, lengths: Int[Tensor, " row"]) -> None:
        """Mark dropped tokens and go back to the column behind the last kept one."""
        self.positions = self.kept(lengths)  # row slot
        self.columns = _columns(self.positions)

    def clear(self, rows: int) -> None:
        """Go back to the first column; what the slots held stays in them, unseen."""
        super().clear(rows)
        self.columns = 0

    def scalars(self) -> dict[str, Scalar]:
        """Return the number of columns fed."""
        return {"columns": self.columns}

    def restored(self, state: CacheState, prefix: str) -> Fixed:
        """Take over the number of columns too."""
        twin = super().restored(state, prefix)
        assert isinstance(twin, Fixed)
        columns = state.scalars[f"{prefix}.columns"]
        least, most = _columns(twin.positions), self.layout.capacity
        if not isinstance(columns, int) or isinstance(columns, bool) or not least <= columns <= most:
            raise EngineError(
                f"restore: {prefix}.columns is {columns!r}, its tensors need {least} to {most}\n"
                "  help: restore an export as it was made"
            )
        twin.columns = columns
        return twin


class Ring(Storage):
    """The last `window + depth` tokens of each row. A token's slot is its number in the row modulo the slots.

    Masked columns take no slot. The positions of a row must increase.
    """

    counts: Int[Tensor, " row"]
    """Tokens of each row, those overwritten since included."""

    @property
    def slots(self) -> int:
        """What the window and the deepest crop need, never more than the layout."""
        assert self.layer.window is not None
        return min(self.layer.window + self.layout.depth, self.layout.capacity)

    def shapes(self, rows: int, slots: int) -> dict[str, tuple[int, ...]]:
        """Add the counts."""
        return {**super().shapes(rows, slots), "counts": (rows,)}

    def append(
        self,
        keys: Float[Tensor, "row kv_head column head_dim"],
        values: Float[Tensor, "row kv_head column head_dim"],
        positions: Int[Tensor, "row column"],
    ) -> LayerView:
        """Show the queries the ring as it was and all new columns, then overwrite the oldest slots."""
        held = LayerView(
            keys=torch.cat((self.keys, keys), dim=2),
            values=torch.cat((self.values, values), dim=2),
            positions=torch.cat((self.positions, positions), dim=1),
        )
        real = positions >= 0  # row column
        numbers = self.counts[:, None] + real.cumsum(dim=-1) - 1  # row column
        self.counts = self.counts + real.sum(dim=-1)  # row
        # Of more new tokens than slots only the last are written, so that no slot is written twice.
        rows, columns = (real & (numbers >= self.counts[:, None] - self.slots)).nonzero(as_tuple=True)
        slots = numbers[rows, columns] % self.slots
        self.keys[rows, :, slots] = keys[rows, :, columns]
        self.values[rows, :, slots] = values[rows, :, columns]
        self.positions[rows, slots] = positions[rows, columns]
        return held

    def join(self, other: Storage) -> None:
        """Take the rows as they are: masked slots have no place in a ring."""
        self.add_rows(other)

    def numbers(self) -> Int[Tensor, "row slot"]:
        """Return which token of its row each slot is for: the last one that falls on it; negative if none yet."""
        last = self.counts[:, None] - 1  # row 1
        return last - (last - torch.arange(self.slots)) % self.slots  # row slot

    def check_room(self, mask: Bool[Tensor, "row column"]) -> None:
        """Raise `EngineError` if a row outgrows the layout: a ring as small as that could be too small."""
        _check_capacity(int((self.counts + mask.sum(dim=-1)).max()), self.layout)

    def check_crop(self, lengths: Int[Tensor, " row"]) -> None:
        """Raise `EngineError` if a row would end before what its next query attends to."""
        assert self.layer.window is not None
        numbers = self.numbers()  # row slot
        ends = lengths[:, None]  # row 1
        needed = max(self.layer.window - 1, 1)  # one at least: the next position comes from it
        usable = (self.positions >= 0) & (numbers < ends) & (numbers >= ends - needed)  # row slot
        short = (usable.sum(dim=-1) < lengths.clamp(max=needed)).nonzero()
        if len(short):
            row = int(short[0])
            raise EngineError(
                f"crop: row {row} cannot go back from {int(self.counts[row])} to {int(lengths[row])} tokens: a ring "
                f"of {self.slots} slots has overwritten them\n"
                f"  help: open the session with a depth above {self.layout.depth}"
            )

    def crop(self, lengths: Int[Tensor, " row"]) -> None:
        """Mark dropped tokens; their slots are written next."""
        self.positions = self.positions.masked_fill(self.numbers() >= lengths[:, None], -1)
        self.counts = lengths.clone()

    def clear(self, rows: int) -> None:
        """Start each row at token 0; what the slots held stays in them, unseen."""
        super().clear(rows)
        self.counts.zero_()

    def counted(self, held: Sequence[Sequence[int]]) -> list[int]:
        """Return each row's tokens, overwritten ones included: they shaped what is held."""
        del held
        counts: list[int] = self.counts.tolist()
        return counts


def _columns(positions: Int[Tensor, "row slot"]) -> int:
    """Return how many columns reach up to the last token of the longest-reaching row."""
    used = (positions >= 0).any(dim=0).nonzero()  # column 1
    return int(used[-1]) + 1 if len(used) else 0


def _check_capacity(columns: int, layout: Layout) -> None:
    if columns > layout.capacity:
        raise EngineError(
            f"append: {columns} columns do not fit, the layout has room for {layout.capacity}\n"
            "  help: open the session with a larger capacity"
        )
