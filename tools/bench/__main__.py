"""Bench: what evseq costs beside the bare operations, in one run. `nox -s bench -- PART...`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import torch

from tools.bench import files, replaying, starting
from tools.bench.timing import Line

PARTS: dict[str, Callable[[], Iterable[Line]]] = {
    "replay": replaying.replays,
    "run": replaying.runs,
    "oracle": lambda: [replaying.oracle()],
    "files": files.files,
    "contents": lambda: [files.contents()],
    "start": starting.starts,
}

HEADING = f"{'ours / bare':<58} {'median':<22} {'quartiles':<13} {'seconds':<19} target"


def main(parts: list[str]) -> int:
    """Print the table of the parts asked for, all if none is. A target that is missed is a figure, not a failure."""
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        print(f"bench: no part {unknown[0]!r}\n  help: name some of {', '.join(PARTS)}", file=sys.stderr)
        return 4
    torch.set_num_threads(1)
    print(HEADING, flush=True)
    for part in parts or PARTS:
        for line in PARTS[part]():
            print(line.told().rstrip(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
