"""Damage that only a forger makes: files whose frame is sound and whose fields are not, and the other way round."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evseq.cache import damage
from evseq.cache.canonical import Scalar
from evseq.cache.header import Algorithm, SealedKind, encode, inspect_header
from evseq.cache.identity import Identity
from hostile.forged import FIELDS, FORMS, IDENTITY, PAYLOAD, REWRITE, framed, packed, resealed

CAPITAL = Identity(values={"salt": "Tenant"})
DIGESTS = {"keys": "aa" * 32, "long": "bb" * 32}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_a_sound_header_reads_back(path: Path) -> None:
    header, order, seal = encode(
        kind=SealedKind.GOLDEN,
        algorithm=Algorithm.SHA256,
        identity=IDENTITY,
        digests=DIGESTS,
        scalars={"length": 3},
        forms=FORMS,
    )
    path.write_bytes(header + PAYLOAD)

    found = inspect_header(path)

    assert (order, seal) == (("long", "keys"), found.seal)
    assert (found.kind, found.digests, found.scalars) == (SealedKind.GOLDEN, DIGESTS, {"length": 3})
    assert found.identity.values == IDENTITY.values
    assert [(name, extent.dtype, extent.shape) for name, extent in found.extents.items()] == [
        ("long", "I64", (1,)),
        ("keys", "F32", (2, 3)),
    ]
    assert [(extent.start, extent.stop) for extent in found.extents.values()] == [
        (len(header), len(header) + 8),
        (len(header) + 8, len(header) + 32),
    ]
    assert found.size == len(header) + 32


@pytest.mark.parametrize(("word", "algorithm"), [({}, Algorithm.SHA256), ({"algorithm": "BLAKE3"}, Algorithm.BLAKE3)])
def test_what_the_forger_starts_from_is_sound(word: dict[str, Scalar], algorithm: Algorithm, path: Path) -> None:
    path.write_bytes(framed(packed(resealed({**FIELDS, **word}))))

    found = inspect_header(path)

    assert (found.kind, found.algorithm) == (SealedKind.CACHE, algorithm)


@pytest.mark.parametrize("kind", ["golden", "recording"])
def test_only_a_cache_says_a_word_for_its_digests(kind: str, path: Path) -> None:
    path.write_bytes(framed(packed(resealed({**FIELDS, "kind": kind, "algorithm": "BLAKE3"}))))

    with pytest.raises(damage.UnknownAlgorithm) as caught:
        inspect_header(path)

    assert str(caught.value) == (
        f"{path}: algorithm: 'BLAKE3', expected none, which is SHA-256\n"
        "  help: read it with the evseq that wrote it, or write it again with this one"
    )


@pytest.mark.parametrize("name", ["added", "taken away"])
def test_a_word_that_was_not_sealed_breaks_the_seal(name: str, path: Path) -> None:
    swift: dict[str, Scalar] = {**FIELDS, "algorithm": "BLAKE3"}
    fields, vouched = {"added": (swift, FIELDS), "taken away": (FIELDS, swift)}[name]
    path.write_bytes(framed(packed({**fields, "seal": resealed(vouched)["seal"]})))

    with pytest.raises(damage.SealBroken):
        inspect_header(path)


@pytest.mark.parametrize(
    ("fields", "error", "evidence"),
    [
        (
            {**FIELDS, "version": 2},
            damage.UnknownVersion,
            "version: 2, this evseq reads 1\n  help: read it with the evseq that wrote it, or write it again with this",
        ),
        ({"version": 2, "layers": []}, damage.UnknownVersion, "version: 2, this evseq reads 1\n"),
        ({**FIELDS, "version": True}, damage.UnknownVersion, "version: True, this evseq reads 1\n"),
        (
            {**FIELDS, "kind": "golden"},
            damage.WrongKind,
            "kind: 'golden', expected cache\n  help: name a file of the kind that is asked for",
        ),
        ({**FIELDS, "kind": "kettle"}, damage.WrongKind, "kind: 'kettle', expected cache\n"),
        ({**FIELDS, "kind": ["cache"]}, damage.WrongKind, "kind: ['cache'], expected cache\n"),
        (
            {**FIELDS, "algorithm": "MD5"},
            damage.UnknownAlgorithm,
            "algorithm: 'MD5', expected 'BLAKE3' or none, which is SHA-256\n  help: read it with the evseq that ",
        ),
        (
            {**FIELDS, "algorithm": "SHA-256"},
            damage.UnknownAlgorithm,
            "algorithm: 'SHA-256', expected 'BLAKE3' or none",
        ),
        ({**FIELDS, "algorithm": "blake3"}, damage.UnknownAlgorithm, "algorithm: 'blake3', expected 'BLAKE3' or none"),
        ({**FIELDS, "algorithm": ["BLAKE3"]}, damage.UnknownAlgorithm, "algorithm: ['BLAKE3'], expected 'BLAKE3' or "),
        ({**FIELDS, "algorithm": None}, damage.UnknownAlgorithm, "algorithm: None, expected 'BLAKE3' or none"),
        (
            {**FIELDS, "colour": "red"},
            damage.UnknownField,
            f"colour: no sealed file of version 1 has it{REWRITE}",
        ),
        ({**FIELDS, "identity": ["salt"]}, damage.FieldDamaged, f"identity: a list, expected a dict{REWRITE}"),
        ({**FIELDS, "fingerprint": None}, damage.FieldDamaged, "fingerprint: a NoneType, expected a str\n"),
        ({**FIELDS, "digests": {"keys": 1}}, damage.FieldDamaged, "digests.keys: a int, expected a str\n"),
        (
            {**FIELDS, "identity": {"salt": "Tenant"}},
            damage.FingerprintMismatch,
            f"identity: its fingerprint is {CAPITAL.fingerprint()}, recorded {IDENTITY.fingerprint()}{REWRITE}",
        ),
        (
            {**FIELDS, "digests": {**DIGESTS, "values": "cc" * 32}},
            damage.TensorMissing,
            f"tensor 'values': in the digests, not in the file{REWRITE}",
        ),
        (
            {**FIELDS, "digests": {"long": "bb" * 32}},
            damage.UnknownTensor,
            f"tensor 'keys': in the file, not in the digests{REWRITE}",
        ),
    ],
)
def test_fields_that_no_writer_gives_are_refused_by_name(
    fields: dict[str, Scalar], error: type[damage.Damage], evidence: str, path: Path
) -> None:
    path.write_bytes(framed(packed(resealed(fields))))

    with pytest.raises(error) as caught:
        inspect_header(path, kind=SealedKind.CACHE)

    assert str(caught.value).startswith(f"{path}: {evidence}")


@pytest.mark.parametrize("name", [*FIELDS, "seal"])
def test_a_missing_field_is_refused_by_name(name: str, path: Path) -> None:
    fields = {field: value for field, value in resealed(FIELDS).items() if field != name}
    path.write_bytes(framed(packed(fields)))

    with pytest.raises(damage.MissingField) as caught:
        inspect_header(path)

    assert str(caught.value) == f"{path}: {name}: missing, every sealed file has it{REWRITE}"


def test_changed_scalars_break_the_seal(path: Path) -> None:
    longer: dict[str, Scalar] = {**FIELDS, "scalars": {"length": 4}}
    path.write_bytes(framed(packed({**longer, "seal": resealed(FIELDS)["seal"]})))

    with pytest.raises(
        damage.SealBroken, match=r"file: seal: the other fields give [0-9a-f]{64}, recorded [0-9a-f]{64}"
    ):
        inspect_header(path)


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("?", "metadata: not base64: "),
        ("AAA", "metadata: not base64: "),
        ("AB==", "metadata: not canonical base64"),
        ("ä", "metadata: not base64: "),
        ("", "metadata: not msgpack: Unpack failed: incomplete input"),
        (packed([1]), "metadata: a list, not a mapping"),
        (packed(resealed(FIELDS)) + "AAAA", "metadata: not msgpack: unpack(b) received extra data."),
    ],
)
def test_a_text_in_another_form_is_refused_with_the_reason(text: str, evidence: str, path: Path) -> None:
    path.write_bytes(framed(text))

    with pytest.raises(damage.HeaderDamaged) as caught:
        inspect_header(path)

    assert str(caught.value).startswith(f"{path}: {evidence}")
    assert str(caught.value).endswith(REWRITE)


class TestOpening:
    def test_a_missing_file_is_named(self, path: Path) -> None:
        with pytest.raises(damage.NotThere) as caught:
            inspect_header(path)

        assert str(caught.value) == f"{path}: no such file\n  help: check the path, or write the file first"

    def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(damage.NotAFile) as caught:
            inspect_header(tmp_path)

        assert str(caught.value) == f"{tmp_path}: not a regular file\n  help: name the file itself"

    def test_a_pipe_is_no_file_and_is_not_waited_for(self, path: Path) -> None:
        os.mkfifo(path)

        with pytest.raises(damage.NotAFile):
            inspect_header(path)

    def test_a_file_the_system_refuses_is_named_with_its_reason(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path.touch()

        def refused(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("evseq.cache.opening.os.open", refused)

        with pytest.raises(damage.NotReadable) as caught:
            inspect_header(path)

        assert str(caught.value) == (
            f"{path}: cannot be read: Permission denied\n  help: check the permissions of the file and of its folders"
        )

    def test_a_path_through_a_file_is_not_readable(self, path: Path) -> None:
        path.touch()

        with pytest.raises(damage.NotReadable, match="cannot be read: Not a directory"):
            inspect_header(path / "under")
