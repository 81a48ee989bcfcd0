"""Recurrent layers whose state does not follow what happens to their rows, in real models that have some."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from unittest.mock import patch

from evseq.cache.state import CacheState
from evseq.engines.protocol import Batch, Session
from evseq.faults.broken import BrokenSession, Logits
from evseq.faults.fault import FALCON_H1, LFM2, Area, fault
from evseq.faults.inside import module, raw, recurrent
from evseq.faults.needs import stateful
from evseq.verdict.result import Check

STATEFUL: Mapping[str, Mapping[str, str]] = {FALCON_H1: {}, LFM2: {}}


@fault(
    area=Area.HYBRID,
    report="vllm-project/vllm#53912",
    catches=("fork-chain", "append", Check.PARITY),
    shows=STATEFUL,
    needs=(stateful,),
)
class StateSharedByFork(BrokenSession):
    """A fork copies keys and values; the states stay those of its source, which both go on writing."""

    def fork(self) -> Session:
        twin = self.twin()
        for own, its in zip(recurrent(twin), recurrent(self), strict=True):
            own.update(its)
        return twin


@fault(
    area=Area.HYBRID,
    report="huggingface/transformers#46612",
    catches=("beams-swapped-each-step", "append", Check.PARITY),
    shows=STATEFUL,
    needs=(stateful,),
)
class StateKeepsItsRow(BrokenSession):
    """A beam selection moves keys and values to their new rows; the states stay in theirs."""

    def select(self, parents: Sequence[int]) -> None:
        before = [dict(held) for held in recurrent(self)]
        self.inner.select(parents)
        for now, then in zip(recurrent(self), before, strict=True):
            for number, state in then.items():
                stays = None if state is None else [row % len(state) for row in range(len(parents))]
                now[number] = state if stays is None else state[stays]


@fault(
    area=Area.HYBRID,
    report="huggingface/transformers#32677",
    catches=("unequal-rows", "prefill", Check.PARITY),
    shows={target: {"padding": "left"} for target in STATEFUL},
    needs=(stateful,),
)
class PadsUnmaskedInState(BrokenSession):
    """Attention does not see left pads; recurrent layers are given no mask, and take them for tokens."""

    def prefill(self, batch: Batch) -> Logits:
        own = sys.modules[type(module(self.engine)).__module__]
        with patch.object(own, "create_recurrent_attention_mask", return_value=None):
            return self.inner.prefill(batch)


@fault(
    area=Area.HYBRID,
    report="vllm-project/vllm#55600",
    catches=("reload-continues", "append", Check.PARITY),
    shows=STATEFUL,
    needs=(stateful,),
)
class StateNotRestored(BrokenSession):
    """Of a saved cache keys and values come back; the states are as empty as in a new one."""

    def restore(self, state: CacheState) -> None:
        self.inner.restore(state)
        for held in recurrent(self):
            for tensor in held.values():
                if tensor is not None:
                    tensor.zero_()


@fault(
    area=Area.HYBRID,
    report="eullm/eullm#217",
    catches=("rolled-back-or-refused", "append", Check.PARITY),
    shows={FALCON_H1: {}},
    needs=(stateful,),
)
class RollbackLeavesState(BrokenSession):
    """A rollback cuts keys and values, and reports success; the states still hold what was dropped."""

    def crop(self, lengths: Sequence[int]) -> None:
        own = raw(self)
        columns = own.columns - int(own.mask[0].sum()) + lengths[0]
        for layer in own.cache.layers:
            if getattr(layer, "keys", None) is not None:
                layer.keys, layer.values = layer.keys[:, :, :columns], layer.values[:, :, :columns]
        own.mask, own.positions = own.mask[:, :columns], own.positions[:, :columns]
