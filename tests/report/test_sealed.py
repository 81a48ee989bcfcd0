from __future__ import annotations

from pathlib import Path

import pytest
import torch

from evseq.cache.content import blake3_digest
from evseq.cache.identity import Identity
from evseq.cache.sealed import SealedKind, seal
from evseq.errors import CacheError
from evseq.report.sealed import header_text


class TestHeaderText:
    def test_a_file_is_told_field_by_field(self, tmp_path: Path) -> None:
        identity = Identity(values={"numeric.dtype": "float64", "prefix.tokens": [["a", list(range(40))]]})
        tensors = {"layer.0.keys": torch.zeros(1, 2, 3, dtype=torch.float64)}
        file = tmp_path / "mid.cache.safetensors"
        seal(file, kind=SealedKind.CACHE, identity=identity, tensors=tensors, scalars={"columns": 3})
        digests = identity.digests()
        assert header_text(file).splitlines() == [
            "kind         cache",
            "version      1",
            f"fingerprint  {identity.fingerprint()}",
            f"bytes        {file.stat().st_size:,}",
            "",
            "identity: 2",
            f"  numeric.dtype  {digests['numeric.dtype'][:12]}  'float64'",
            f"  prefix.tokens  {digests['prefix.tokens'][:12]}  {str([['a', list(range(40))]])[:57]}...",
            "",
            "scalars: 1",
            "  columns  3",
            "",
            "tensors, by BLAKE3: 1",
            f"  layer.0.keys  {blake3_digest(tensors['layer.0.keys'])[:12]}  F64 [1, 2, 3], 48 bytes",
        ]

    def test_no_name_says_what_a_terminal_obeys_or_begins_a_line(self, tmp_path: Path) -> None:
        seal(
            tmp_path / "file",
            kind=SealedKind.CACHE,
            identity=Identity(values={}),
            tensors={"keys\x1b[2J\nsound": torch.zeros(1)},
            scalars={"\x1b[8m": "\x1b[0m"},
        )

        told = header_text(tmp_path / "file").splitlines()

        assert told[8:9] == ["  \\x1b[8m  '\\x1b[0m'"]
        assert told[-1].startswith("  keys\\x1b[2J\\nsound  ")

    def test_a_file_that_is_none_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "no.safetensors").write_bytes(b"nothing")
        with pytest.raises(CacheError):
            header_text(tmp_path / "no.safetensors")
