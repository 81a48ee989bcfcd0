"""Store: where the bytes of accepted goldens lie that are not in the repository, and what they are called there.

The repository keeps what is reviewed: candidates, witnesses and the ledger, whose seals are the pinned digests. A seal
is SHA-256 over a golden's header, which has SHA-256 of every tensor, so it vouches for each byte of the file. The store
keeps one object a seal and never needs to change one, so that any commit finds the goldens that its ledger pins.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["TIMEOUT", "Store", "cache_of_goldens", "platform_cache", "store_url"]

TIMEOUT = 30
"""Seconds without a byte after which a store is given up. Slow links are not silent ones."""

URL = re.compile(r"[a-z][a-z0-9+.-]*(?:://|::)\S*[^\s/:]\S*")
"""A protocol and something in it; `::` chains protocols, as fsspec writes it."""

ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:://|::)")
"""How a text begins that means no folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Any place that fsspec opens; `cache` is the folder of what was fetched, `timeout` in seconds without a byte."""

    url: str
    cache: Path
    timeout: float = TIMEOUT

    def address(self, name: str) -> str:
        """Return an object's address as a person reads it."""
        return f"{self.url}/{name}"

    @property
    def folder(self) -> Path:
        """The part of the cache that holds goldens, whatever store and project they are of."""
        return cache_of_goldens(self.cache)


def cache_of_goldens(cache: Path) -> Path:
    """Return the part of a cache that holds goldens."""
    return cache / "goldens"


def store_url(raw: str) -> str | None:
    """Return the URL that `raw` is, None for a folder. Raises ValueError, saying what fits, for one that cannot do."""
    if not ELSEWHERE.match(raw):
        return None
    if not URL.fullmatch(raw) or "?" in raw or "#" in raw:
        raise ValueError(
            f"{raw!r} is no URL that names can be added to\n  help: write protocol://place, such as s3://bucket/evseq"
        )
    # It stands in reports, and in the command that replays a failure.
    if any(_secret(part) for part in raw.split("::")):
        said = re.sub(r"://[^/]*@", "://...@", raw)
        raise ValueError(
            f"{said!r} holds a password or a token, which reports would show\n"
            "  help: keep it where the package of the protocol looks for it, such as its own environment variables"
        )
    return raw.rstrip("/")


def _secret(part: str) -> bool:
    """Tell whether a URL holds a password, or a user's name where the protocol knows only tokens by that."""
    split = urlsplit(part)
    return split.password is not None or (split.scheme in ("http", "https") and split.username is not None)


def platform_cache(environment: Mapping[str, str]) -> Path:
    """Return where this system keeps what programs can fetch again."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "evseq"
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evseq"
