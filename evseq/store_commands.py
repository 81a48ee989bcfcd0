"""The commands `evseq golden push|pull|cache`: goldens between here and a store."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from evseq import flags
from evseq.config import configure
from evseq.errors import Exit, UsageError
from evseq.golden.store import cache_of_goldens
from evseq.report.figures import counted

if TYPE_CHECKING:
    from evseq.cache.damage import Damage
    from evseq.golden.root import Place, Root
    from evseq.golden.store import Store
    from evseq.golden.stored import Moved

__all__ = ["COMMANDS"]

DAY = 86400
"""Seconds."""


@click.command(epilog=flags.endings("evseq golden push", "evseq golden push --goldens s3://bucket/evseq"))
@flags.settings("goldens")
def push(**given: Any) -> Exit:
    """Send accepted goldens to the URL that lacks them.

    They are taken from the goldens folder or the cache. The exit code is 1 if one is nowhere.
    """
    from evseq.golden.stored import push

    root, store = _stored(given)
    return _told(store, push(root, store))


@click.command(epilog=flags.endings("evseq golden pull && evseq qualify"))
@flags.settings("goldens")
def pull(**given: Any) -> Exit:
    """Fetch accepted goldens from the URL into the cache.

    Runs then need no network. The exit code is 1 if one is not there.
    """
    from evseq.golden.stored import pull

    root, store = _stored(given)
    return _told(store, pull(root, store))


@click.command(epilog=flags.endings("evseq golden cache", "evseq golden cache --prune 90"))
@click.option("--prune", type=click.IntRange(min=0), metavar="DAYS", help="Delete what was not used for so many days.")
def cache(*, prune: int | None) -> Exit:
    """Tell or delete what the cache of fetched goldens holds.

    What is deleted is fetched again when a run needs it.
    """
    from evseq.golden.stored import entries, forget

    config = configure()
    folder = cache_of_goldens(config.cache_folder())
    held = entries(folder)
    if prune is None:
        click.echo(f"{folder}: {counted(len(held), 'golden')}, {_megabytes(entry.size for entry in held)}")
        return Exit.PASSED
    old = tuple(entry for entry in held if entry.used <= time.time() - prune * DAY)
    forget(old)
    kept = sum(entry.size for entry in held if entry not in old)
    click.echo(
        f"{folder}: {counted(len(old), 'golden')} deleted, {_megabytes(entry.size for entry in old)}; "
        f"{len(held) - len(old)} kept, {_megabytes([kept])}"
    )
    return Exit.PASSED


COMMANDS = (push, pull, cache)


def _stored(given: dict[str, Any]) -> tuple[Root, Store]:
    """Return the project's goldens and where their bytes lie. Raises UsageError where that is their folder."""
    root = configure({"goldens": given["goldens"]}).root()
    if root.store is None:
        raise UsageError(
            f"{root.folder}: goldens are kept in this folder, not at a URL\n"
            '  help: name one: --goldens, EVSEQ_GOLDENS, or goldens = "s3://bucket/evseq" under [tool.evseq]'
        )
    return root, root.store


def _told(store: Store, moves: Iterator[tuple[Place, Moved | Damage]]) -> Exit:
    """Tell what happened to each golden as it happens, what was there already only counted."""
    from evseq.golden.stored import Moved

    seen: Counter[Moved] = Counter()
    lost = 0
    for place, happened in moves:
        if not isinstance(happened, Moved):
            lost += 1
            click.echo(str(happened))
            continue
        seen[happened] += 1
        if happened is not Moved.THERE:
            click.echo(f"{place}: {happened}")
    parts = [f"{seen[word]} {word}" for word in Moved if seen[word]] + ([f"{lost} lost"] if lost else [])
    click.echo(f"{store.url}: {', '.join(parts) or 'no golden is accepted here'}")
    return Exit.FAILED if lost else Exit.PASSED


def _megabytes(sizes: Iterator[int] | list[int]) -> str:
    return f"{sum(sizes) / 1e6:.1f} MB"
