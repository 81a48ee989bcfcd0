"""Files whose frame no writer makes: each is refused at the place where it differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from evseq.cache import damage
from evseq.cache.frame import frame
from evseq.cache.header import inspect_header
from hostile.forged import FIELDS, FORMS, REWRITE, entries, framed, packed, raw, resealed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_the_tensors_begin_on_a_multiple_of_eight() -> None:
    headers = [frame("x" * length, FORMS)[0] for length in range(8)]

    assert [len(header) % 8 for header in headers] == [0] * 8


@pytest.mark.parametrize(
    ("content", "error", "evidence"),
    [
        (b"", damage.Truncated, "ends at byte 0, the header's length alone takes 8"),
        (b"\1\0\0\0\0\0\0", damage.Truncated, "ends at byte 7, the header's length alone takes 8"),
        (b"\x80\0\0\0\0\0\0\0{", damage.Truncated, "ends at byte 9, its header at byte 136"),
        (
            b"\1\0\0\1\0\0\0\0{",
            damage.HeaderTooLarge,
            "bytes 0 to 8: a header of 16777217 bytes, at most 16777216 are read",
        ),
        (raw(b"{,}"), damage.HeaderDamaged, "byte 9: not JSON: "),
        (raw(b'{"\xff"}'), damage.HeaderDamaged, "byte 10: not UTF-8: invalid start byte"),
        (raw(b"[" * 100_000), damage.HeaderDamaged, "bytes 8 to 100008: not JSON: "),
        (raw(b'{"a":' + b"9" * 5000 + b"}"), damage.HeaderDamaged, "bytes 8 to 5014: not JSON: "),
        (raw(b"[]"), damage.HeaderDamaged, "byte 8: a JSON list, not an object"),
        (raw(b"{}"), damage.NotSealed, "__metadata__: none, expected one text under the key 'evseq'"),
        (
            raw(entries(__metadata__={"format": "pt"})),
            damage.NotSealed,
            "__metadata__: keys ['format'], expected one text under the key 'evseq'",
        ),
        (
            raw(entries(__metadata__={"evseq": "", "format": "pt"})),
            damage.NotSealed,
            "__metadata__: keys ['evseq', 'format'], expected one text under the key 'evseq'",
        ),
        (raw(entries(__metadata__=[])), damage.NotSealed, "__metadata__: a list, expected one text under the key"),
        (raw(entries(long=1)), damage.HeaderDamaged, "tensor 'long': expected dtype, shape and data_offsets"),
        (
            raw(entries(long={"dtype": "I64", "shape": [1], "data_offsets": [0, 8], "more": 1})),
            damage.HeaderDamaged,
            "tensor 'long': expected dtype, shape and data_offsets",
        ),
        (
            raw(entries(long={"dtype": "I65", "shape": [1], "data_offsets": [0, 8]})),
            damage.HeaderDamaged,
            "tensor 'long': dtype 'I65' is not one of F64, I64, F32, I32, BF16, F16, I16, BOOL, I8, U8",
        ),
        (
            raw(entries(long={"dtype": "I64", "shape": [-1], "data_offsets": [0, 8]})),
            damage.HeaderDamaged,
            "tensor 'long': shape [-1] is not a list of lengths",
        ),
        (
            raw(entries(long={"dtype": "I64", "shape": [1 << 70, 0], "data_offsets": [0, 0]})),
            damage.HeaderDamaged,
            "tensor 'long': I64 of shape [1180591620717411303424, 0] is too large",
        ),
        (
            raw(entries(long={"dtype": "I64", "shape": [1], "data_offsets": [8, 16]})),
            damage.HeaderDamaged,
            "tensor 'long': data_offsets [8, 16], its place is [0, 8]",
        ),
        (
            raw(entries(keys={"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]})),
            damage.HeaderDamaged,
            "tensor 'keys': data_offsets [0, 24], its place is [8, 32]",
        ),
        (raw(entries() + b" " * 8), damage.HeaderDamaged, "bytes 8 to 640: not spelled as a header is written"),
        (raw(entries(long=None)[:-1] + b',"long":{}}'), damage.HeaderDamaged, "tensor 'long': expected dtype"),
        (framed(packed(resealed(FIELDS)))[:-1], damage.Truncated, "ends at byte 663 of 664"),
        (
            framed(packed(resealed(FIELDS))) + b"x",
            damage.TrailingBytes,
            "goes on to byte 665, its last tensor ends at byte",
        ),
    ],
)
def test_a_frame_in_another_form_is_refused_with_the_place(
    content: bytes, error: type[damage.Damage], evidence: str, path: Path
) -> None:
    path.write_bytes(content)

    with pytest.raises(error) as caught:
        inspect_header(path)

    assert str(caught.value).startswith(f"{path}: {evidence}")


def test_more_tensors_than_are_ever_written_are_refused(path: Path) -> None:
    many = {str(number): {"dtype": "I8", "shape": [0], "data_offsets": [0, 0]} for number in range(65_535)}
    path.write_bytes(raw(entries(**many)))

    with pytest.raises(damage.TooManyTensors) as caught:
        inspect_header(path)

    assert str(caught.value) == f"{path}: 65537 tensors, at most 65536 are read{REWRITE}"


class TestFrame:
    def test_keeps_the_format_s_own_name(self) -> None:
        with pytest.raises(ValueError, match=r"^tensor '__metadata__': the format keeps this name for itself$"):
            frame("", {"__metadata__": ("I8", (1,))})

    def test_writes_no_more_tensors_than_are_read(self) -> None:
        with pytest.raises(ValueError, match=r"^65537 tensors, at most 65536 are read$"):
            frame("", {str(number): ("I8", (0,)) for number in range(65_537)})

    def test_writes_no_larger_header_than_is_read(self) -> None:
        with pytest.raises(ValueError, match=r"^a header of 16777248 bytes, at most 16777216 are read$"):
            frame("x" * (1 << 24), {})

    def test_writes_no_shape_that_is_not_read(self) -> None:
        with pytest.raises(ValueError, match=r"^tensor 'a': I8 of shape \[4611686018427387904, 2\] is too large$"):
            frame("", {"a": ("I8", (1 << 62, 2))})
