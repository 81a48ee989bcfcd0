"""Recurrent layers of a cache of transformers: states without slots, which stand beside keys and values or alone.

The state of a short convolution is its last columns, which may be recorded and cut. Any other state is a sum over all
that was fed, from which nothing is ever taken back.
"""

# mypy: disable-error-code="no-untyped-call"
# Parts of transformers and torch have no types.

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import LinearAttentionLayer

from evseq.errors import EngineError

__all__ = ["born", "check_crop", "crop", "forget", "join", "narrow"]

Columns = Float[Tensor, "row channel column"]


def _columns(layer: LinearAttentionLayer) -> Iterator[tuple[int, Columns, int]]:
    """Yield number, held columns and kernel width of each convolution of `layer`."""
    for number, state in layer.conv_states.items():
        kernel = layer.conv_kernel_size[number]
        if state is not None and kernel is not None:
            yield number, state, kernel


def check_crop(layer: object, columns: int, *, fed: int, number: int) -> None:
    """Raise `EngineError` where the state of `layer` cannot go back by `columns` of the `fed` ones."""
    if not isinstance(layer, LinearAttentionLayer):
        return
    if not layer.is_croppable:
        raise EngineError(
            f"crop: layer {number} has a recurrent state, from which no token is taken back\n"
            "  help: fork the session before what may be rolled back, or expect `loud`"
        )
    for _, held, kernel in _columns(layer):
        if not layer.record_past or held.shape[-1] - columns < min(fed - columns, kernel):
            raise EngineError(
                f"crop: layer {number} was fed {fed} columns and holds {held.shape[-1]} of its convolution, too few to "
                f"go back by {columns}\n"
                "  help: use cache dynamic opened with a depth"
            )


def crop(layer: object, columns: int) -> None:
    """Cut the last `columns` columns off the convolutions of `layer`, as `check_crop` allowed."""
    if not isinstance(layer, LinearAttentionLayer):
        return
    before = list(_columns(layer))
    LinearAttentionLayer.crop(layer, -columns)
    for (number, held, kernel), (_, kept, _) in zip(before, list(_columns(layer)), strict=True):
        # The library's crop forgets what it had recorded beyond the kernel, and a second crop would find nothing.
        older = max(held.shape[-1] - columns - kernel, 0)
        layer.conv_states[number] = torch.cat((held[..., :older], kept), dim=-1)


def join(layer: object, entering: object) -> None:
    """Put the states of the rows of `entering` behind those of `layer`; a shorter record gets zeros in front."""
    if not isinstance(layer, LinearAttentionLayer) or not isinstance(entering, LinearAttentionLayer):
        return
    for (number, mine, _), (_, its, _) in zip(list(_columns(layer)), _columns(entering), strict=True):
        width = max(mine.shape[-1], its.shape[-1])
        layer.conv_states[number] = torch.cat([pad(one, (width - one.shape[-1], 0)) for one in (mine, its)])
    for number, sums in layer.recurrent_states.items():
        others = entering.recurrent_states[number]
        if sums is not None and others is not None:  # a layer that only convolves has none
            layer.recurrent_states[number] = torch.cat((sums, others))


def forget(layer: object, *, rows: int) -> None:
    """Empty the states of `layer`; those of another number of rows, or that grew, are made anew when next fed."""
    if not isinstance(layer, LinearAttentionLayer):
        return
    LinearAttentionLayer.reset(layer)
    for held, made in (
        (layer.conv_states, layer.is_conv_states_initialized),
        (layer.recurrent_states, layer.is_recurrent_states_initialized),
    ):
        for number, state in held.items():
            made[number] = state is not None and len(state) == rows and not layer.record_past


def born(layer: object, like: object, *, rows: int) -> None:
    """Give a new layer empty states for `rows`, of the shapes and number formats those of `like` have."""
    if not isinstance(layer, LinearAttentionLayer) or not isinstance(like, LinearAttentionLayer):
        return
    for number, state, kernel in _columns(like):
        empty = state.new_zeros((rows, *state.shape[1:]))  # row channel column
        LinearAttentionLayer.lazy_initialization(layer, conv_states=empty, state_idx=number, conv_kernel_size=kernel)
    for number, sums in like.recurrent_states.items():
        if sums is not None:
            empty = sums.new_zeros((rows, *sums.shape[1:]))
            LinearAttentionLayer.lazy_initialization(layer, recurrent_states=empty, state_idx=number)


def narrow(layer: object) -> None:
    """Keep of restored convolutions what this session needs: all that was recorded, or as much as the kernel."""
    if not isinstance(layer, LinearAttentionLayer) or layer.record_past:
        return
    for number, held, kernel in list(_columns(layer)):
        layer.conv_states[number] = pad(held, (max(kernel - held.shape[-1], 0), 0))[..., -kernel:]
