"""A sealed file in words: what it says before its tensors, without reading them or loading torch."""

from __future__ import annotations

from pathlib import Path

from evseq.cache.frame import Extent
from evseq.cache.header import inspect_header
from evseq.cache.identity import FORMAT_VERSION, Identity
from evseq.errors import printable

__all__ = ["header_text"]

_SHOWN = 60
"""Most characters of a value; its digest tells the rest apart."""

_DIGITS = 12
"""Hexadecimal digits of a digest that are shown."""


def header_text(path: Path) -> str:
    """Tell kind, version, fingerprint, identity, scalars and tensors of a sealed file. Raises CacheError."""
    header = inspect_header(path)
    return "\n".join(
        [
            f"kind         {header.kind}",
            f"version      {FORMAT_VERSION}",  # a file of any other was refused
            f"fingerprint  {header.identity.fingerprint()}",
            f"bytes        {header.size:,}",
            *_table("identity", _fields(header.identity)),
            *_table("scalars", [(name, _short(value)) for name, value in header.scalars.items()]),
            *_table(
                f"tensors, by {header.algorithm}",
                [(n, _tensor(extent, header.digests[n])) for n, extent in header.extents.items()],
            ),
        ]
    )


def _fields(identity: Identity) -> list[tuple[str, str]]:
    digests = identity.digests()
    return [(name, f"{digest[:_DIGITS]}  {_short(identity.values[name])}") for name, digest in digests.items()]


def _table(title: str, rows: list[tuple[str, str]]) -> list[str]:
    shown = [(printable(name).replace("\n", "\\n"), told) for name, told in rows]
    width = max((len(name) for name, _ in shown), default=0)
    return ["", f"{title}: {len(rows)}", *(f"  {name:<{width}}  {told}" for name, told in shown)]


def _tensor(extent: Extent, digest: str) -> str:
    return f"{digest[:_DIGITS]}  {extent.dtype} {list(extent.shape)}, {extent.stop - extent.start:,} bytes"


def _short(value: object) -> str:
    told = repr(value)
    return told if len(told) <= _SHOWN else f"{told[: _SHOWN - 3]}..."
