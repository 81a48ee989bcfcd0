"""Every way in which a sealed file can be wrong, each its own error."""

from __future__ import annotations

from os import PathLike
from typing import ClassVar

from evseq.errors import CacheError, printable

__all__ = [
    "Damage",
    "DigestMismatch",
    "FactsDamaged",
    "FieldDamaged",
    "FingerprintMismatch",
    "HeaderDamaged",
    "HeaderTooLarge",
    "IsALink",
    "LeadsOut",
    "MissingField",
    "NotAFile",
    "NotReadable",
    "NotSealed",
    "NotThere",
    "NotWritable",
    "PlannedOtherwise",
    "SaidTwice",
    "SealBroken",
    "TensorMissing",
    "TooLarge",
    "TooManyTensors",
    "TrailingBytes",
    "Truncated",
    "UnknownAlgorithm",
    "UnknownField",
    "UnknownTensor",
    "UnknownVersion",
    "Unsealable",
    "WrongKind",
]


SHOWN = 600
"""Most characters of evidence: a file may call a field by a word of megabytes."""


class Damage(CacheError):
    """A sealed file cannot be used: `path`, the evidence with its place, and the next step."""

    help: ClassVar[str] = "the file was changed after it was written: take an undamaged copy, or write it again"

    def __init__(self, path: str | PathLike[str], evidence: str) -> None:
        super().__init__(path, evidence)
        self.path = path
        self.evidence = _shown(evidence)

    def __str__(self) -> str:
        return f"{self.path}: {self.evidence}\n  help: {self.help}"


class NotThere(Damage):
    """No file has that name."""

    help = "check the path, or write the file first"


class NotAFile(Damage):
    """The name belongs to a folder or a device."""

    help = "name the file itself"


class IsALink(Damage):
    """The name to be written is that of a link, which would be replaced and no longer lead anywhere."""

    help = "name the file that it leads to, or put the file itself there"


class LeadsOut(Damage):
    """A link inside a folder leads out of it: what lies there is not under the folder's owner."""

    help = "put the file itself there instead of a link"


class NotReadable(Damage):
    """The system refuses to read the file."""

    help = "check the permissions of the file and of its folders"


class NotWritable(Damage):
    """The system refuses to write the file. Whatever stood under its name is untouched."""

    help = "check the folder's permissions and the room on its disk"


class Unsealable(Damage):
    """Something to be written has no place in a sealed file. Nothing was written."""

    help = "leave it out, or give it as a tensor or a plain value that fits"


class Truncated(Damage):
    """The file ends before its last promised byte."""

    help = "the copy was cut short: copy the file again, or write it again"


class TrailingBytes(Damage):
    """The file goes on after its last promised byte."""


class TooLarge(Damage):
    """The file is longer than any of its kind that is ever written."""


class HeaderTooLarge(Damage):
    """The header claims more bytes than are ever written."""


class TooManyTensors(Damage):
    """The header lists more tensors than are ever written."""


class HeaderDamaged(Damage):
    """The header is not what `seal` writes."""


class NotSealed(Damage):
    """A safetensors file, but not one that evseq sealed."""

    help = "only files that evseq wrote carry an identity; write this one with evseq"


class UnknownVersion(Damage):
    """The file is of a version this evseq does not read."""

    help = "read it with the evseq that wrote it, or write it again with this one"


class UnknownAlgorithm(Damage):
    """The digests are of an algorithm that no file of its kind has."""

    help = "read it with the evseq that wrote it, or write it again with this one"


class WrongKind(Damage):
    """A sealed file of another kind: a golden where a cache belongs, or the like."""

    help = "name a file of the kind that is asked for"


class MissingField(Damage):
    """A field that every sealed file has is not there."""


class UnknownField(Damage):
    """A field is there that no sealed file has."""


class SaidTwice(Damage):
    """A key is there twice, and readers differ in which of its values they take."""


class FieldDamaged(Damage):
    """A field holds a value of another type than it should."""


class FactsDamaged(Damage):
    """A recording says what no run of its script observes."""

    help = "record the run again, or judge it with the evseq that recorded it"


class PlannedOtherwise(Damage):
    """A recording is of a script that has other steps by now."""

    help = "record the run again"


class FingerprintMismatch(Damage):
    """The identity is not the one the file was sealed with."""


class SealBroken(Damage):
    """The header's fields are not those the file was sealed with."""


class TensorMissing(Damage):
    """A tensor has a digest but no bytes."""


class UnknownTensor(Damage):
    """A tensor has bytes but no digest."""


class DigestMismatch(Damage):
    """A tensor's bytes are not those the file was sealed with."""


def _shown(evidence: str) -> str:
    """Return evidence that a terminal shows and does not obey, without its middle where it is long."""
    if len(evidence) > SHOWN:
        evidence = f"{evidence[: SHOWN // 2]} ... {evidence[-SHOWN // 2 :]}"
    return printable(evidence)
