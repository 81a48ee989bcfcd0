#!/usr/bin/env python3
"""Run nox from an environment of its own: `python3 tools/bootstrap.py -s tests`.

Needs a Python 3.11 or newer with `venv` and `pip`, and nothing installed. The environment is made once under
`.bootstrap/` of this repository, one for each Python and each pin of nox; every argument goes to nox, and nox's exit
code comes back.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "tools" / "constraints.txt"
OLDEST = (3, 11)

STRAYS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV", "PIP_ROOT", "PIP_TARGET")
"""Variables of the caller that would bring other packages in, or send ours elsewhere."""


class BootstrapError(Exception):
    """Nox cannot be started. The message holds the address, the evidence and the next step."""


def main(arguments: Sequence[str]) -> int:
    """Make the environment where it is missing, run nox in it, return its exit code."""
    try:
        check_python(sys.version_info[:2])
        python = prepare(ROOT / ".bootstrap", CONSTRAINTS)
    except BootstrapError as error:
        print(error, file=sys.stderr)
        return 4
    except OSError as error:
        print(f"tools/bootstrap.py: {error}\n  help: make {ROOT} writable, with room on its disk", file=sys.stderr)
        return 4
    return run(python, arguments)


def check_python(version: tuple[int, ...]) -> None:
    """Refuse a Python that is too old, or that came without `venv` or `ensurepip`."""
    if version < OLDEST:
        found, needed = (".".join(map(str, numbers)) for numbers in (version, OLDEST))
        raise BootstrapError(
            f"tools/bootstrap.py: {sys.executable} is Python {found}, evseq needs {needed} or newer\n"
            f"  help: run this file with a newer one, such as: python{needed} tools/bootstrap.py"
        )
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        raise BootstrapError(
            f"tools/bootstrap.py: {sys.executable} has no module {' and no module '.join(missing)}\n"
            f"  help: install what the system keeps apart (Debian, Ubuntu: apt install python{version[0]}.{version[1]}"
            "-venv), or run this file with another Python"
        )


def prepare(home: Path, constraints: Path) -> Path:
    """Return the interpreter of a finished environment under `home`; make it, or make it anew, where there is none."""
    pin = nox_pin(constraints)
    environment = home / f"python{'.'.join(map(str, sys.version_info[:3]))}-nox{pin}"
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    # Written last: an environment without it was interrupted half-made. It names the Python below, which may differ
    # from ours in place though not in version, and may since have gone.
    finished = environment / "finished"
    home.mkdir(exist_ok=True)
    with alone(home / "lock"):
        if not (finished.is_file() and finished.read_text(encoding="utf-8") == sys.base_prefix and python.exists()):
            print(f"bootstrap: making {environment.relative_to(home.parent)}, once", file=sys.stderr, flush=True)
            if environment.exists():
                shutil.rmtree(environment)
            call([sys.executable, "-m", "venv", str(environment)], "make an environment")
            install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            call([*install, "-c", str(constraints), "nox"], f"install nox {pin}")
            finished.write_text(sys.base_prefix, encoding="utf-8")
    return python


def nox_pin(constraints: Path) -> str:
    """Return the version of nox that `constraints` asks for."""
    found = re.search(r"^nox==(\S+)", constraints.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise BootstrapError(f"{constraints}: no line 'nox==VERSION'\n  help: restore the file from version control")
    return found[1]


def call(command: Sequence[str], purpose: str) -> None:
    """Run a step quietly; quote its last lines if it fails."""
    done = subprocess.run(
        command,
        env=clean(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
        errors="replace",
    )
    if done.returncode:
        evidence = "\n".join(f"  | {line}" for line in done.stdout.splitlines()[-8:])
        raise BootstrapError(
            f"tools/bootstrap.py: cannot {purpose}: exit code {done.returncode} of {' '.join(command)}\n{evidence}\n"
            "  help: correct what the lines above say (a package index within reach? room on the disk?) and run this"
            " again; it starts over"
        )


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's variables without those that reach into an environment."""
    kept = {name: value for name, value in environment.items() if name not in STRAYS}
    return {**kept, "PIP_USER": "0"}  # also against `user = true` in a pip.conf, which no environment can obey


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, waiting for whoever holds it; the system frees it when a holder dies."""
    with path.open("a+") as file:
        if sys.platform == "win32":
            import msvcrt  # exists on Windows only

            file.seek(0)
            while True:
                with contextlib.suppress(OSError):  # gives up after ten tries, a second apart
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                    break
            try:
                yield
            finally:
                file.seek(0)
                msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
        else:
            import fcntl  # exists everywhere else

            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def run(python: Path, arguments: Sequence[str]) -> int:
    """Hand `arguments` to nox and wait; an interrupt reaches nox too, which then ends by itself."""
    # -P: a file of the caller's folder named like a package must not be imported in its place.
    command = [str(python), "-P", "-m", "nox", "--noxfile", str(ROOT / "noxfile.py"), *arguments]
    with subprocess.Popen(command, env=clean(os.environ)) as nox:
        while True:
            with contextlib.suppress(KeyboardInterrupt):
                code = nox.wait()
                return code if code >= 0 else 128 - code  # a signal, as a shell reports it


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
