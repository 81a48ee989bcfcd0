"""Forcing: a refused cache is made to answer one more column, beside what is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch, Engine, Session
from evseq.errors import EngineError
from evseq.geometry import Layout, Positions
from evseq.history import MASKED, Path
from evseq.replay.altering import Changes, cast
from evseq.replay.opening import told
from evseq.replay.recording import Forced
from evseq.replay.uncached import uncached
from evseq.script import steps as st

__all__ = ["Forcing", "batch_of", "looked_at"]


def batch_of(feed: st.Feed, layout: Layout) -> Batch:
    """Return the columns of a forward for a session of this layout."""
    # All at once and by numpy, which reads tuples twice as fast as torch.
    tokens, nodes, positions = np.array((feed.tokens, feed.nodes, feed.positions), dtype=np.int64)  # row column each
    return Batch(
        tokens=torch.from_numpy(tokens),
        mask=torch.from_numpy(nodes >= 0),
        positions=torch.from_numpy(positions) if layout.positions is Positions.GIVEN else None,
    )


def looked_at(logits: object, batch: Batch, *, vocab: int) -> Float[Tensor, "row column vocab"]:
    """Return the logits on the CPU. Raises EngineError for anything but a table of them."""
    expected = (*batch.tokens.shape, vocab)
    if not isinstance(logits, Tensor) or not logits.is_floating_point() or logits.shape != expected:
        found = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise EngineError(f"a forward returned {found}, expected logits of shape {list(expected)}")
    return logits.detach().cpu()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forcing:
    """The engine that is asked, what is changed of it, and the layouts of the plan."""

    engine: Engine
    changes: Changes
    layouts: Sequence[Layout]
    vocab: int
    cache: str | None = None  # a kind of promise `masked`, under whose policy the changed engine is asked

    def forced(self, step: int, damage: st.Damage, *, group: int, stale: Callable[[], Session]) -> Forced:
        """Return what the refused cache answers. `stale` opens a copy of it, in the layout of `group`."""
        match damage.world:
            case st.World.SAME:
                return self._stale(step, damage, group=group, stale=stale)
            case st.World.ALTERED:
                scratch = self.engine.open(self.layouts[damage.group])
                *_, afresh = [self._fed(scratch, feed, group=damage.group) for feed in damage.right]
                truth = torch.stack([self._uncached(damage, row) for row in range(len(damage.right[-1].rows))])
                return self._stale(step, damage, group=group, stale=stale, truth=truth, afresh=afresh)
            case st.World.MIRRORED:
                scratch = self._filled(damage)
                state = scratch.export()
                with self.changes.undone():
                    return Forced(step=step, logits=self._mirrored(state, damage))
            case _:
                assert_never(damage.world)

    def _stale(
        self,
        step: int,
        damage: st.Damage,
        *,
        group: int,
        stale: Callable[[], Session],
        truth: Float[Tensor, "row vocab"] | None = None,
        afresh: Float[Tensor, "row vocab"] | None = None,
    ) -> Forced:
        logits, raised = None, None
        try:
            logits = self._fed(stale(), damage.right[-1], group=group)
        except EngineError as error:  # the engine itself finds that it does not fit
            raised = told(error)
        return Forced(step=step, logits=logits, truth=truth, afresh=afresh, raised=raised)

    def _mirrored(self, state: CacheState, damage: st.Damage) -> Float[Tensor, "row vocab"]:
        """Return what the engine as it was answers from a cache the changed one made."""
        stale = self.engine.open(self.layouts[damage.group])
        stale.restore(cast(state, self._filled(damage)))
        return self._fed(stale, damage.right[-1], group=damage.group)

    def _filled(self, damage: st.Damage) -> Session:
        session = self.engine.open(self.layouts[damage.group])
        for feed in damage.right[:-1]:
            self._fed(session, feed, group=damage.group)
        return session

    def _fed(self, session: Session, feed: st.Feed, *, group: int) -> Float[Tensor, "row vocab"]:
        """Feed a session whose histories are not those of the references; return the last column's logits."""
        batch = batch_of(feed, self.layouts[group])
        logits = session.prefill(batch) if feed.prefill else session.append(batch)
        return looked_at(logits, batch, vocab=self.vocab)[:, -1].clone()

    def _uncached(self, damage: st.Damage, row: int) -> Float[Tensor, " vocab"]:
        """Return what the changed engine says of a row's last column without a cache."""
        tokens: list[int] = []
        positions: list[int] = []
        for feed in damage.right:
            cells = zip(feed.tokens[row], feed.nodes[row], strict=True)
            tokens += [token if node >= 0 else MASKED for token, node in cells]
            positions += feed.positions[row]
        path = Path(tokens=tuple(tokens), positions=tuple(positions))
        return uncached(self.engine, path, vocab=self.vocab, cache=self.cache)[-1]
