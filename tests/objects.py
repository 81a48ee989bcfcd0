"""A real object store on loopback, which signs, checks signatures and refuses as others do."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ACCESS, SECRET = "evseq-test-key", "evseq-test-secret"  # no key of anybody

SERVER = Path(sys.executable).with_name("rclone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """One bucket of a running server; its objects are files in `folder`."""

    url: str
    folder: Path
    endpoint: str
    server: subprocess.Popen[bytes]

    def objects(self) -> list[str]:
        """Return the names of all objects."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())

    def one(self) -> Path:
        """Return the file of the only object."""
        (path,) = (path for path in self.folder.rglob("*") if path.is_file())
        return path


@contextlib.contextmanager
def serving(folder: Path, protocol: str = "s3") -> Iterator[Bucket]:
    """Serve a folder on a free port of loopback until the block is left."""
    bucket, log = folder / "objects" / "bucket", folder / "log"
    bucket.mkdir(parents=True)
    keys = ["--auth-key", f"{ACCESS},{SECRET}", "--vfs-cache-mode", "off"] if protocol == "s3" else []
    command = [str(SERVER), "serve", protocol, "--addr", "127.0.0.1:0", *keys, str(bucket.parent)]
    environment = {**os.environ, "RCLONE_CONFIG": os.devnull}
    with log.open("wb") as told, subprocess.Popen(command, env=environment, stderr=told) as server:
        try:
            while not (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())):
                assert server.poll() is None, log.read_text()
                time.sleep(0.02)
            endpoint = found.group()
            url = "s3://bucket" if protocol == "s3" else f"{endpoint}/bucket"
            yield Bucket(url=url, folder=bucket, endpoint=endpoint, server=server)
        finally:
            server.kill()


def known_to(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, *, secret: str = SECRET) -> None:
    """Give what asks the store its address and a key, as a person does."""
    from s3fs import S3FileSystem  # most tests ask no store

    for name, value in (
        ("AWS_ENDPOINT_URL", bucket.endpoint),
        ("AWS_ACCESS_KEY_ID", ACCESS),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_EC2_METADATA_DISABLED", "true"),  # nobody asks the machine's own network for keys
        ("AWS_MAX_ATTEMPTS", "1"),
    ):
        monkeypatch.setenv(name, value)
    S3FileSystem.clear_instance_cache()  # it reads them once
