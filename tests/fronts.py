"""What front ends are tested with: a script, and engines of which some are broken."""

from __future__ import annotations

import pytest

GREEN = """\
evseq: 1
name: green
about: A step after a prefill is as good as no cache.
rows:
  a: [17, 4, 59, 3]
  b: [8, 21, 40]
arms:
  padding: [left, right]
events:
  - prefill: {rows: {a: 3, b: 2}}
  - append: {next: 1}
"""

RED = """\
evseq: 1
name: red
about: A word is misspelt.
rows:
  a: [17, 4, 59, 3]
events:
  - prefil: {rows: {a: 3}}
"""

TWICE = GREEN.replace("[left, right]", "[left, right]\n  dtype: [float64, float32]")
"""The same in two number formats."""

SLOW = """\
import pathlib
import time

from evseq.engines.reference import loader


class Slow:
    def __init__(self):
        self.healthy = loader("full")

    def __getattr__(self, name):
        return getattr(self.healthy, name)

    def load(self, dtype, options):
        if not pathlib.Path("quick").exists():
            time.sleep(300)
        return self.healthy.load(dtype, options)
"""
"""An engine that takes its time until there is a file `quick`."""

ENGINES = """\
from evseq.engines.reference import loader


class Wrapped:
    def __init__(self, healthy):
        self.healthy = healthy

    def __getattr__(self, name):
        return getattr(self.healthy, name)


class Session(Wrapped):
    def append(self, batch):
        return self.healthy.append(batch) + 1.0


class Engine(Wrapped):
    def open(self, layout):
        return Session(self.healthy.open(layout))


class Broken(Wrapped):
    def __init__(self):
        super().__init__(loader("full"))

    def load(self, dtype, options):
        return Engine(self.healthy.load(dtype, options))


class Nines(Wrapped):  # wrong after a prompt with a 9
    def __init__(self):
        super().__init__(loader("full"))

    def load(self, dtype, options):
        return NinesEngine(self.healthy.load(dtype, options))


class NinesEngine(Wrapped):
    def open(self, layout):
        return NinesSession(self.healthy.open(layout))


class NinesSession(Wrapped):
    def prefill(self, batch):
        self.off = float((batch.tokens == 9).any())
        return self.healthy.prefill(batch)

    def append(self, batch):
        return self.healthy.append(batch) + self.off


class Counted(Wrapped):
    def __init__(self):
        super().__init__(loader("full"))

    def load(self, dtype, options):
        with open("loads", "a") as file:
            file.write(f"{dtype}\\n")
        return self.healthy.load(dtype, options)
"""


def run_pytest(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest with evseq's plugin and no other."""
    return pytester.runpytest_inprocess("-p", "evseq.pytest_plugin", "-p", "no:cacheprovider", *arguments)
