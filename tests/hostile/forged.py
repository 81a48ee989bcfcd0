"""Headers as a forger writes them: sound in all but what a test changes."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping

from evseq.cache.canonical import Scalar, canonical
from evseq.cache.frame import Form, frame
from evseq.cache.identity import Identity

IDENTITY = Identity(values={"salt": "tenant"})


FORMS: dict[str, Form] = {"keys": ("F32", (2, 3)), "long": ("I64", (1,))}


PAYLOAD = bytes(32)


REWRITE = "\n  help: the file was changed after it was written: take an undamaged copy, or write it again"


FIELDS: dict[str, Scalar] = {
    "version": 1,
    "kind": "cache",
    "identity": {"salt": "tenant"},
    "fingerprint": IDENTITY.fingerprint(),
    "digests": {"keys": "aa" * 32, "long": "bb" * 32},
    "scalars": {"length": 3},
}


def resealed(fields: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the fields with the seal a forger would give them."""
    return {**fields, "seal": hashlib.sha256(canonical(dict(fields))).hexdigest()}


def packed(fields: Scalar) -> str:
    return base64.b64encode(canonical(fields)).decode()


def framed(text: str, *, forms: Mapping[str, Form] = FORMS) -> bytes:
    header, _ = frame(text, forms)
    return header + PAYLOAD


def raw(header: bytes) -> bytes:
    """Return a file with any bytes for its header."""
    return len(header).to_bytes(8, "little") + header + PAYLOAD


def entries(**changed: object) -> bytes:
    """Return the JSON of a sound header with some of its entries replaced."""
    sound = {
        "__metadata__": {"evseq": packed(resealed(FIELDS))},
        "long": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]},
        "keys": {"dtype": "F32", "shape": [2, 3], "data_offsets": [8, 32]},
    }
    return json.dumps({**sound, **changed}, separators=(",", ":")).encode()
