from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from evseq.cache.canonical import Scalar
from evseq.cache.content import blake3_digest, tensor_digest
from evseq.cache.damage import Damage, DigestMismatch, HeaderDamaged, Truncated, WrongKind
from evseq.cache.header import Algorithm, SealedKind, encode, inspect_header
from evseq.cache.identity import Identity
from evseq.cache.sealed import open_sealed, seal
from evseq.errors import CacheError

SMALL = Identity(values={"salt": "tenant", "prefix.tokens": [["a", [17, 4, 59]]]})
NUMBERS = torch.arange(24, dtype=torch.float32).view(4, 6)
TENSORS: dict[str, Tensor] = {
    "layer.0.keys": NUMBERS,
    "a row of it": NUMBERS[1],
    "columns first": NUMBERS.t(),
    "every other": NUMBERS[:, ::2],
    "one for all": NUMBERS[:1].expand(4, 6),
    "nothing": torch.zeros(0, 3),
    "half": NUMBERS.bfloat16(),
    "double": -NUMBERS.double(),
    "float16": NUMBERS.half(),
    "length": torch.tensor(7),
    "mask": torch.tensor([True, False, True]),
    "bytes": torch.arange(5, dtype=torch.uint8),
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "Größe": torch.tensor([1], dtype=torch.int32),
}
SCALARS: dict[str, Scalar] = {"length": 3, "held": [1, 2.5, None, True, {"a": "b"}]}

WRITE = """
import sys, torch
from evseq.cache.identity import Identity
from evseq.cache.sealed import SealedKind, seal
names = sorted(set("abcdefgh"), key=hash)
torch.manual_seed(0)
numbers = {name: torch.randn(3, generator=torch.Generator().manual_seed(ord(name))) for name in names}
seal(
    sys.argv[1],
    kind=SealedKind.CACHE,
    identity=Identity(values={name: {other: 1 for other in names} for name in names}),
    tensors=numbers,
    scalars={name: list(name) for name in names},
)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a small sealed cache lies."""
    path = tmp_path / "mid.safetensors"
    seal(path, kind=SealedKind.CACHE, identity=SMALL, tensors={"keys": NUMBERS, "length": torch.tensor(7)}, scalars={})
    return path


def is_admitted(path: Path, content: bytes) -> bool:
    """Return whether a file of this content opens; any error but a `Damage` passes through."""
    path.write_bytes(content)
    try:
        open_sealed(path, kind=SealedKind.CACHE)
    except Damage:
        return False
    return True


class TestRoundTrip:
    @pytest.mark.parametrize("name", TENSORS)
    def test_a_tensor_comes_back_bit_for_bit(self, name: str, tmp_path: Path) -> None:
        seal(tmp_path / "file", kind=SealedKind.CACHE, identity=SMALL, tensors=TENSORS, scalars=SCALARS)

        found = open_sealed(tmp_path / "file", kind=SealedKind.CACHE).tensors[name]

        assert (found.dtype, found.shape, found.is_contiguous()) == (TENSORS[name].dtype, TENSORS[name].shape, True)
        assert tensor_digest(found) == tensor_digest(TENSORS[name])

    def test_scalars_and_identity_come_back(self, tmp_path: Path) -> None:
        seal(tmp_path / "file", kind=SealedKind.RECORDING, identity=SMALL, tensors={}, scalars=SCALARS)

        found = open_sealed(tmp_path / "file", kind=SealedKind.RECORDING)

        assert (found.scalars, found.tensors) == (SCALARS, {})
        assert found.identity.fingerprint() == SMALL.fingerprint()

    def test_hundreds_of_tensors_come_back(self, tmp_path: Path) -> None:
        tensors = {f"layer.{number}.keys": torch.tensor([number]) for number in range(700)}
        seal(tmp_path / "file", kind=SealedKind.CACHE, identity=SMALL, tensors=tensors, scalars={})

        found = open_sealed(tmp_path / "file", kind=SealedKind.CACHE).tensors

        assert {name: tensor.item() for name, tensor in found.items()} == {
            name: tensor.item() for name, tensor in tensors.items()
        }

    def test_any_safetensors_tool_opens_it_and_finds_one_metadata_key(self, tmp_path: Path) -> None:
        seal(tmp_path / "file", kind=SealedKind.CACHE, identity=SMALL, tensors=TENSORS, scalars=SCALARS)

        with safe_open(tmp_path / "file", framework="pt") as file:
            digests = {name: tensor_digest(file.get_tensor(name)) for name in TENSORS}
            metadata = list(file.metadata())

        assert metadata == ["evseq"]
        assert digests == {name: tensor_digest(tensor) for name, tensor in TENSORS.items()}

    def test_two_processes_write_the_same_bytes(self, tmp_path: Path) -> None:
        for seed in ("1", "2"):
            environment = {**os.environ, "PYTHONHASHSEED": seed}
            subprocess.run([sys.executable, "-c", WRITE, tmp_path / seed], env=environment, check=True)

        assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()

    def test_strides_do_not_show_in_the_bytes(self, tmp_path: Path) -> None:
        for name, tensor in {"strided": NUMBERS.t(), "plain": NUMBERS.t().contiguous()}.items():
            seal(tmp_path / name, kind=SealedKind.CACHE, identity=SMALL, tensors={"keys": tensor}, scalars={})

        assert (tmp_path / "strided").read_bytes() == (tmp_path / "plain").read_bytes()

    def test_what_is_written_into_a_tensor_does_not_reach_the_file(self, path: Path) -> None:
        before = path.read_bytes()

        open_sealed(path, kind=SealedKind.CACHE).tensors["keys"].zero_()

        assert path.read_bytes() == before

    def test_tensors_outlive_the_file_they_came_from(self, path: Path) -> None:
        tensors = open_sealed(path, kind=SealedKind.CACHE).tensors

        seal(path, kind=SealedKind.CACHE, identity=SMALL, tensors={"keys": -NUMBERS}, scalars={})
        path.unlink()

        assert torch.equal(tensors["keys"], NUMBERS)


class TestAlgorithm:
    @pytest.mark.parametrize(
        ("kind", "digest"),
        [
            (SealedKind.CACHE, blake3_digest),
            (SealedKind.GOLDEN, tensor_digest),
            (SealedKind.RECORDING, tensor_digest),
        ],
    )
    def test_each_kind_has_the_digests_it_is_written_with(
        self, kind: SealedKind, digest: Callable[[Tensor], str], tmp_path: Path
    ) -> None:
        seal(tmp_path / "file", kind=kind, identity=SMALL, tensors=TENSORS, scalars=SCALARS)

        digests = inspect_header(tmp_path / "file").digests

        assert digests == {name: digest(tensor) for name, tensor in TENSORS.items()}

    def test_a_cache_sealed_under_sha256_still_opens(self, tmp_path: Path) -> None:
        sealed_otherwise(tmp_path / "file", algorithm=Algorithm.SHA256, digest=tensor_digest)

        found = open_sealed(tmp_path / "file", kind=SealedKind.CACHE)

        assert torch.equal(found.tensors["keys"], NUMBERS)

    def test_a_flipped_bit_under_sha256_is_still_told_with_it(self, tmp_path: Path) -> None:
        sealed_otherwise(tmp_path / "file", algorithm=Algorithm.SHA256, digest=tensor_digest)
        content = (tmp_path / "file").read_bytes()

        with pytest.raises(DigestMismatch, match=f"SHA-256 is [0-9a-f]{{64}}, recorded {tensor_digest(NUMBERS)}"):
            open_content(tmp_path / "file", content[:-1] + bytes([content[-1] ^ 1]))

    @pytest.mark.parametrize(
        ("algorithm", "digest"), [(Algorithm.SHA256, blake3_digest), (Algorithm.BLAKE3, tensor_digest)]
    )
    def test_digests_of_the_other_algorithm_are_refused(
        self, algorithm: Algorithm, digest: Callable[[Tensor], str], tmp_path: Path
    ) -> None:
        sealed_otherwise(tmp_path / "file", algorithm=algorithm, digest=digest)

        with pytest.raises(DigestMismatch, match=f"tensor 'keys', bytes .*: {algorithm} is "):
            open_sealed(tmp_path / "file", kind=SealedKind.CACHE)


def sealed_otherwise(path: Path, *, algorithm: Algorithm, digest: Callable[[Tensor], str]) -> None:
    """Write a cache that says this algorithm and has these digests, under a seal that fits."""
    header, _, _ = encode(
        kind=SealedKind.CACHE,
        algorithm=algorithm,
        identity=SMALL,
        digests={"keys": digest(NUMBERS)},
        scalars={},
        forms={"keys": ("F32", (4, 6))},
    )
    path.write_bytes(header + NUMBERS.numpy().tobytes())


class TestDamage:
    def test_the_small_file_is_sound(self, path: Path) -> None:
        assert is_admitted(path, path.read_bytes())

    def test_a_file_cut_at_any_length_is_refused(self, path: Path) -> None:
        sound = path.read_bytes()

        assert [length for length in range(len(sound)) if is_admitted(path, sound[:length])] == []

    @pytest.mark.parametrize("bit", [0, 5])  # 5 turns case, and a space into nothing
    def test_a_flipped_bit_in_any_byte_is_refused(self, bit: int, path: Path) -> None:
        sound = path.read_bytes()
        flipped = [
            sound[:place] + bytes([sound[place] ^ (1 << bit)]) + sound[place + 1 :] for place in range(len(sound))
        ]

        assert [place for place, content in enumerate(flipped) if is_admitted(path, content)] == []

    def test_a_flipped_bit_in_a_tensor_names_it_with_its_bytes(self, path: Path) -> None:
        content = bytearray(path.read_bytes())
        extent = inspect_header(path).extents["keys"]
        content[extent.start + 5] ^= 1
        path.write_bytes(content)
        changed = NUMBERS.clone()
        changed.view(torch.uint8).view(-1)[5] ^= 1

        with pytest.raises(DigestMismatch) as caught:
            open_sealed(path, kind=SealedKind.CACHE)

        assert str(caught.value) == (
            f"{path}: tensor 'keys', bytes {extent.start} to {extent.start + 96}: "
            f"BLAKE3 is {blake3_digest(changed)}, recorded {blake3_digest(NUMBERS)}\n"
            "  help: the file was changed after it was written: take an undamaged copy, or write it again"
        )

    def test_two_tensors_exchanged_are_refused(self, tmp_path: Path) -> None:
        tensors = {"keys": torch.zeros(4), "values": torch.ones(4)}
        seal(tmp_path / "file", kind=SealedKind.CACHE, identity=SMALL, tensors=tensors, scalars={})
        sound = (tmp_path / "file").read_bytes()

        with pytest.raises(DigestMismatch, match="tensor 'keys', bytes"):
            open_content(tmp_path / "file", sound[:-32] + sound[-16:] + sound[-32:-16])

    def test_the_payload_of_another_file_is_refused(self, path: Path, tmp_path: Path) -> None:
        other = {"keys": NUMBERS + 1, "length": torch.tensor(7)}
        seal(tmp_path / "other", kind=SealedKind.CACHE, identity=SMALL, tensors=other, scalars={})

        with pytest.raises(DigestMismatch, match="tensor 'keys', bytes"):
            open_content(path, path.read_bytes()[:-104] + (tmp_path / "other").read_bytes()[-104:])

    def test_an_empty_file_is_truncated(self, path: Path) -> None:
        with pytest.raises(Truncated, match="ends at byte 0, the header's length alone takes 8"):
            open_content(path, b"")

    def test_a_text_file_is_no_header(self, path: Path) -> None:
        with pytest.raises(HeaderDamaged, match="byte 8: not JSON"):
            open_content(path, b"\x08" + bytes(7) + b"evseq: 1")

    def test_a_golden_is_no_cache(self, path: Path) -> None:
        with pytest.raises(WrongKind) as caught:
            open_sealed(path, kind=SealedKind.GOLDEN)

        assert str(caught.value) == (
            f"{path}: kind: 'cache', expected golden\n  help: name a file of the kind that is asked for"
        )

    def test_every_damage_is_a_cache_error_that_says_what_to_do(self) -> None:
        kinds = [kind for kind in Damage.__subclasses__() if kind.__module__ == Damage.__module__]

        assert issubclass(Damage, CacheError)
        assert len(kinds) == 28
        assert [kind for kind in kinds if not (kind.help and kind.__doc__)] == []


def open_content(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    open_sealed(path, kind=SealedKind.CACHE)
