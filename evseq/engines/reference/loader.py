"""ReferenceLoader: a configuration by name; torch is imported by `load` only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evseq.engines.reference.config import NAMES, WEIGHTS, Config
from evseq.engines.reference.tokenizer import Tokenizer
from evseq.errors import TargetError, nearest
from evseq.geometry import Description, Dtype

if TYPE_CHECKING:
    from evseq.engines.reference.engine import ReferenceEngine

__all__ = ["ReferenceLoader"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceLoader:
    """One of the decoders in the package."""

    name: str

    @classmethod
    def named(cls, name: str) -> ReferenceLoader:
        """Return the loader of a configuration. Raise `TargetError` for a name not in the package."""
        if name not in NAMES:
            close = nearest(name, NAMES)
            hint = f"did you mean 'reference:{close}'? " if close else ""
            raise TargetError(
                f"reference:{name}: no configuration {name!r}\n"
                f"  help: {hint}known are {', '.join(NAMES)}; 'reference' alone means all of them"
            )
        return cls(name=name)

    def describe(self) -> Description:
        """Read the JSON file beside the weights."""
        return Config.read(self.name).describe()

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Return one id per character."""
        return Tokenizer().tokenize(text)

    def load(self, dtype: Dtype, options: Mapping[str, str]) -> ReferenceEngine:
        """Read the float32 weights and cast them to `dtype`. There are no options."""
        from evseq.engines.reference.engine import ReferenceEngine  # only now: a description needs no torch

        target = f"reference:{self.name}"
        if options:
            raise TargetError(f"{target}: option {min(options)!r} is unknown\n  help: this engine has no options")
        known = self.describe().dtypes
        if dtype not in known:
            raise TargetError(f"{target}: does not run in {dtype}\n  help: use one of {', '.join(known)}")
        return ReferenceEngine.load(Config.read(self.name), WEIGHTS / f"{self.name}.safetensors", dtype)
