"""Storage: what one layer holds, slot by slot.

Every slot carries the position of its token, or -1 where nothing may attend to it: masked, empty, dropped. Nothing is
zeroed to make it disappear.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from evseq.cache.state import CacheState, Scalar
from evseq.engines.protocol import LayerView
from evseq.errors import EngineError
from evseq.geometry import CacheKind, Layer, Layout

__all__ = ["Storage", "behind", "early"]


class Storage(ABC):
    """Keys, values and positions of one layer; the kinds differ in the slot a new column gets."""

    keys: Float[Tensor, "row kv_head slot head_dim"]
    values: Float[Tensor, "row kv_head slot head_dim"]
    positions: Int[Tensor, "row slot"]

    kind: CacheKind | None = None
    """The kind of cache it belongs to, where one was asked for."""

    quantisation: Mapping[str, Scalar] | None = None
    """How numbers are rounded; None where they are held as computed."""

    def __init__(self, layer: Layer, layout: Layout, dtype: torch.dtype) -> None:
        self.layer = layer
        self.layout = layout
        self.dtype = dtype
        self.fill(layout.rows)

    @property
    @abstractmethod
    def slots(self) -> int:
        """How many slots an empty storage allocates."""

    @abstractmethod
    def append(
        self,
        keys: Float[Tensor, "row kv_head column head_dim"],
        values: Float[Tensor, "row kv_head column head_dim"],
        positions: Int[Tensor, "row column"],
    ) -> LayerView:
        """Take in new columns; return everything their queries may look at."""

    @abstractmethod
    def crop(self, lengths: Int[Tensor, " row"]) -> None:
        """Keep the first `lengths` tokens of each row."""

    @abstractmethod
    def join(self, other: Storage) -> None:
        """Take over the rows of `other`, which is of the same kind, so that the last columns stand side by side."""

    def check_room(self, mask: Bool[Tensor, "row column"]) -> None:  # noqa: B027 - a growing one has room
        """Raise `EngineError` if these columns do not fit."""

    def check_crop(self, lengths: Int[Tensor, " row"]) -> None:  # noqa: B027 - only a ring forgets
        """Raise `EngineError` if what the next query needs is no longer held."""

    def shapes(self, rows: int, slots: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each tensor that makes it up; the row axis is first."""
        states = (rows, self.layer.kv_heads, slots, self.layer.head_dim)
        return {"keys": states, "values": states, "positions": (rows, slots)}

    def parts(self) -> dict[str, Tensor]:
        """Return the tensors that make it up."""
        return {part: getattr(self, part) for part in self.shapes(0, 0)}

    def scalars(self) -> dict[str, Scalar]:
        """Return what the tensors do not say."""
        return {}

    def dtype_of(self, part: str) -> torch.dtype:
        """Return the engine's dtype for keys and values, int64 for the rest."""
        return self.dtype if part in ("keys", "values") else torch.int64

    def fill(self, rows: int) -> None:
        """Allocate empty slots for `rows` rows."""
        for part, shape in self.shapes(rows, self.slots).items():
            setattr(self, part, torch.zeros(shape, dtype=self.dtype_of(part)))
        self.positions.fill_(-1)

    def clear(self, rows: int) -> None:
        """Forget everything and be ready for `rows` rows, in the buffers already there if they are large enough."""
        if rows > len(self.positions):
            self.fill(rows)
        for part, tensor in self.parts().items():
            setattr(self, part, tensor[:rows])
        self.positions.fill_(-1)

    def select(self, parents: Int[Tensor, " row"]) -> None:
        """Make row i a copy of row `parents[i]`."""
        for part, tensor in self.parts().items():
            setattr(self, part, tensor[parents])

    def add_rows(self, other: Storage) -> None:
        """Put the rows of `other`, which has as many slots, behind these."""
        its = other.parts()
        for part, tensor in self.parts().items():
            setattr(self, part, torch.cat((tensor, its[part])))

    def copy(self) -> Storage:
        """Return a storage of equal contents that shares nothing."""
        twin = copy.copy(self)
        for part, tensor in self.parts().items():
            setattr(twin, part, tensor.clone())
        return twin

    def lengths(self) -> Int[Tensor, " row"]:
        """Return each row's cached tokens."""
        return torch.tensor(self.counted(self.held()))

    def next_positions(self) -> Int[Tensor, " row"]:
        """Return the position behind each row's last held token; 0 for an empty row."""
        return torch.tensor(behind(self.held()))

    def held(self) -> list[list[int]]:
        """Return the positions of each row's held tokens, ascending.

        They are counted in plain Python: every layer is probed after every step, and the smallest operation on a tensor
        costs as much as sorting a hundred numbers that are nearly in order.
        """
        rows = (sorted(row) for row in self.positions.tolist())
        return [row[bisect_left(row, 0) :] for row in rows]

    def counted(self, held: Sequence[Sequence[int]]) -> list[int]:
        """Return each row's cached tokens where these are held."""
        return [len(row) for row in held]

    def shown(self, layer: Layer) -> Layer:
        """Return `layer`, which is this one's as it is now, as queries see it through this kind of cache."""
        return layer if self.kind is None else self.kind.shown(layer)

    def visible(self, layer: Layer, held: Sequence[Sequence[int]]) -> list[int]:
        """Return how many of these the query at each row's next position sees."""
        shown = self.shown(layer)
        return [len(row) - _unseen(row, shown) for row in held]

    def exported(self) -> dict[str, Tensor]:
        """Return a copy of each part. What nothing may attend to is blanked: no dropped token reaches a file."""
        unseen = (self.positions < 0)[:, None, :, None]  # row 1 slot 1
        copies = {part: tensor.clone() for part, tensor in self.parts().items()}
        copies["keys"].masked_fill_(unseen, 0.0)
        copies["values"].masked_fill_(unseen, 0.0)
        return copies

    def restored(self, state: CacheState, prefix: str) -> Storage:
        """Return this storage with the contents of `state` under `prefix`, copied. Raise `EngineError` on a misfit."""
        twin = copy.copy(self)
        positions = state.tensors[f"{prefix}.positions"]
        rows, slots = positions.shape if positions.dim() == 2 else (0, 0)  # noqa: PLR2004 - row and slot
        for part, shape in self.shapes(rows, self.restored_slots(slots)).items():
            tensor = state.tensors[f"{prefix}.{part}"]
            actual, expected = (tuple(tensor.shape), tensor.dtype), (shape, self.dtype_of(part))
            if actual != expected:
                raise EngineError(
                    f"restore: {prefix}.{part} is {actual[1]} {actual[0]}, this session holds {expected[1]} "
                    f"{expected[0]}\n  help: open the session with the layout and dtype of the exported one"
                )
            setattr(twin, part, tensor.clone())
        return twin

    def restored_slots(self, slots: int) -> int:
        """Return how many slots a restored storage must have when the state brings `slots`."""
        del slots
        return self.slots

    def kept(self, lengths: Int[Tensor, " row"]) -> Int[Tensor, "row slot"]:
        """Return the positions with -1 behind the first `lengths` tokens of each row."""
        rank = (self.positions >= 0).cumsum(dim=-1)  # row slot: 1 for a row's first token
        return self.positions.masked_fill(rank > lengths[:, None], -1)


def behind(held: Sequence[Sequence[int]]) -> list[int]:
    """Return the position behind the last of each row's; 0 for an empty row."""
    return [row[-1] + 1 if row else 0 for row in held]


def _unseen(held: Sequence[int], shown: Layer) -> int:
    """Return how many of a row's positions are before the window of its next query and behind the first ones."""
    if shown.window is None or not held:
        return 0
    near = bisect_left(held, held[-1] + 2 - shown.window)
    return max(0, near - bisect_left(held, held[0] + shown.sinks))


def early(positions: Int[Tensor, "row slot"], sinks: int) -> Bool[Tensor, "row slot"]:
    """Tell which slots stand less than `sinks` places behind the first token of their row."""
    last = torch.iinfo(positions.dtype).max
    none = positions.new_full((len(positions), 1), last)  # row 1: a row may have no slot at all
    first = torch.cat((none, positions.masked_fill(positions < 0, last)), dim=-1).amin(dim=-1, keepdim=True)  # row 1
    return positions - first < sinks
