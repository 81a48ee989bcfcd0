"""Results and files of two runs, but for what a clock says."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from evseq.cache.sealed import SealedKind, open_sealed
from evseq.replay.keep import FACTS
from evseq.verdict.result import Latency, Result

CLOCK = re.compile(r'"(started|(?:\w+_)?seconds)": ("[^"]*"|[^,}]+)')


def timeless(result: Result) -> Result:
    """Return a result in which nothing took any time."""
    cases = tuple(replace(case, seconds=0.0, latency=Latency(first=None, later=None)) for case in result.cases)
    return replace(result, seconds=0.0, cases=cases)


def timeless_lines(file: Path) -> list[str]:
    """Return the lines of a file of JSON lines without what a clock said."""
    return [CLOCK.sub(r'"\1": 0', line) for line in file.read_text().splitlines()]


def timeless_recordings(folder: Path) -> dict[str, tuple[Any, dict[str, bytes]]]:
    """Return facts and logits of every recording by name."""
    return {path.name: timeless_recording(path) for path in sorted(folder.iterdir())}


def timeless_recording(path: Path) -> tuple[Any, dict[str, bytes]]:
    """Return facts and logits of one recording."""
    tensors = dict(open_sealed(path, kind=SealedKind.RECORDING).tensors)
    facts = json.loads(CLOCK.sub(r'"\1": 0', re.sub(r'"seconds": \[[^\]]*\]', '"seconds": 0', _text(tensors))))
    return facts, {
        name: tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
        for name, tensor in tensors.items()
        if name != FACTS
    }


def _text(tensors: dict[str, Any]) -> str:
    return bytes(tensors[FACTS].numpy().tobytes()).decode()
