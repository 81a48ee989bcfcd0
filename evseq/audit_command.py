"""The command `evseq audit`: what the suite is worth, measured by faults planted on purpose."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evseq import flags
from evseq.config import configure
from evseq.errors import Exit, UsageError, nearest

if TYPE_CHECKING:
    from evseq.audit.healthy import Sound
    from evseq.audit.trial import Tried

__all__ = ["audit"]

BESIDE = "float32,bfloat16"
"""What is compared with where nobody says."""

NONE = "none"
"""The word for no dtype."""


@click.command(
    epilog=flags.endings("evseq audit -n 2 --json audit.json", "evseq audit 'guard-*' --target reference:full")
)
@click.argument("faults", nargs=-1)
@click.option("--script", "scripts", multiple=True, metavar="NAME", help="Only these scripts of the suite.")
@click.option("--beside", metavar="DTYPE,...", show_default=BESIDE, help=f"Dtypes to compare with; or {NONE}.")
@click.option(
    "--full",
    is_flag=True,
    help="Play every case; otherwise one of each script, and more where nothing catches a fault.",
)
@click.option(
    "--seeds",
    type=click.IntRange(0, 1000),
    default=0,
    metavar="N",
    help="Play healthy targets again with all random rows drawn anew, N times, and with repeated tokens.",
)
@click.option("--json", "file", type=click.Path(path_type=Path), metavar="FILE", help="Also write all of it as JSON.")
@click.option("--quick", is_flag=True, help="Play the quick set only, for each fault until it is caught; no --beside.")
@click.option("--quick-file", type=click.Path(path_type=Path), metavar="FILE", help="Write the cheapest set here.")
@click.option("--quick-keep", is_flag=True, help="Keep what that file has, and add what catches the rest.")
@flags.settings("target", "threads", "workers", "goldens")
def audit(  # noqa: PLR0913 - one for each flag
    faults: tuple[str, ...],
    *,
    scripts: tuple[str, ...],
    beside: str | None,
    full: bool,
    seeds: int,
    file: Path | None,
    quick: bool,
    quick_file: Path | None,
    quick_keep: bool,
    **given: Any,
) -> Exit:
    """Prove that the suite can fail.

    Each planted fault meets each script that asks for what it breaks, in the dtype that decides, on a configuration
    where it can show. Told are who caught it, what led, and how far beyond its allowance it was; then the cheapest
    cases that still catch all, which are the quick set. Healthy targets meet the same scripts in every arm, where
    nothing may fail; with --seeds also with other rows, which no golden knows. With --quick both meet the quick set
    that ships, and no other is told.

    FAULTS are names or shell patterns, all if left out. A fault that survives is a failure. So is, on the reference
    engine and with nothing left out, a script or a check that catches nothing, and a quick set that is not the one
    found.
    """
    if quick and (full or quick_file or quick_keep or beside not in (None, NONE)):
        raise UsageError(
            "--quick plays each case of the quick set as it is, and finds no other\n"
            "  help: leave out --beside, --full, --quick-file and --quick-keep"
        )
    from evseq.audit.audit import Settings
    from evseq.audit.audit import audit as audited
    from evseq.audit.report import lines, write
    from evseq.checking import read_scripts
    from evseq.faults.catalogue import FAULTS
    from evseq.report.output import fixed, put

    kept = _picks(quick_file) if quick_keep else ()
    for path in (file, quick_file):
        if path is not None:
            fixed(path)
    config = configure(given)
    suite = tuple(script.name for script in read_scripts([], suite=not quick, quick=quick))
    settings = Settings(
        faults=_matching(faults, FAULTS, "fault"),
        scripts=_matching(scripts, suite, "script of the suite"),
        beside=_dtypes(BESIDE if beside is None else beside),
        full=full,
        seeds=seeds,
        quick=quick,
        workers=config.workers,
        threads=config.threads,
        goldens=config.terms(),
    )
    progress = _Progress()
    result = audited(config.open_names(), settings, suite=suite, watch=progress)
    progress.close()
    for line in lines(result):
        click.echo(line)
    if file is not None:
        write(result, file)
    if quick_file is not None and not result.interrupted:
        put(quick_file, "".join(f"{name}\n" for name in result.picking.cheapest(kept)))
    return result.exit


class _Progress:
    """A line on the terminal that counts; nothing where nobody looks on."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._trials, self._done = 0, 0

    def planned(self, trials: int) -> None:
        self._trials = trials

    def finished(self, ended: Tried | Sound) -> None:
        self._done += 1
        if self._shown:
            click.echo(
                f"\r\x1b[K{self._done}/{self._trials} {getattr(ended, 'fault', ended.target)}", nl=False, err=True
            )

    def close(self) -> None:
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)


def _matching(asked: Sequence[str], known: Iterable[str], what: str) -> tuple[str, ...]:
    """Return the names that any pattern fits, in their own order. Raises UsageError for a pattern that fits none."""
    names = list(known)
    for pattern in asked:
        if not any(fnmatchcase(name, pattern) for name in names):
            close = nearest(pattern, names)
            hint = f"did you mean {close!r}?" if close else "name one, or leave it out for all"
            raise UsageError(f"{pattern}: no {what} has this name\n  help: {hint}")
    return tuple(name for name in names if any(fnmatchcase(name, pattern) for pattern in asked))


def _dtypes(text: str) -> tuple[str, ...]:
    from evseq.geometry import Dtype

    words = [] if text == NONE else text.split(",")
    for word in words:
        if word not in tuple(Dtype):
            raise UsageError(f"--beside: {word!r} is no dtype\n  help: name {', '.join(Dtype)}, or {NONE}")
    return tuple(words)


def _picks(file: Path | None) -> tuple[str, ...]:
    from evseq.script.quick import quick

    if file is None:
        raise UsageError("--quick-keep: of what file?\n  help: name one with --quick-file")
    return tuple(map(str, quick(file)))
