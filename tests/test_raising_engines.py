"""Whatever an engine raises, in whatever method: a finding at its event or a clear error, never a traceback."""

from __future__ import annotations

import pytest

from evseq.cli import main
from evseq.engines.registry import find
from evseq.errors import TargetError
from evseq.geometry import Description
from evseq.pipeline import Settings, check, qualify, selected
from evseq.verdict.result import Exit
from planted import raising
from playing import first, lines, played, script

EVERYTHING = """\
rows:
  a: {random: {length: 10, seed: 1}}
  b: [17, 4, 59, 3, 8, 21]
events:
  - prefill: {rows: {a: 7, b: 3}}
  - serialize: {to: mid}
  - append: {next: 2}
  - reload: {from: mid, as: again}
  - append: {next: 2, on: again}
  - fork: {as: twin, on: again}
  - append: {next: 1, on: twin}
  - crop: {by: 1, on: again}
  - append: {ids: {a: [5], b: [6]}, on: again}
  - beam-select: {rows: {x: b, y: a}, on: twin}
  - drop: {keep: buffers}
  - prefill: {rows: {a: 2, b: 2}}
  - probe: {on: twin}
"""

GREEDY = """\
rows:
  a: {random: {length: 10, seed: 1}}
events:
  - prefill: [a]
  - append: {greedy: 2}
"""

ELSEWHERE = """\
rows:
  a: {random: {length: 10, seed: 1}}
events:
  - prefill: {rows: {a: 7}}
  - serialize: {to: mid}
  - reload: {from: mid, process: fresh, as: elsewhere}
  - append: {next: 1, on: elsewhere}
"""

FIRST = {
    "load": "8:5: prefill: reference: loading planted.raising:load in float64 raised OSError: load has failed",
    "uncached": "8:5: prefill: reference: the uncached forward raised OSError: uncached has failed",
    "open": "8:5: prefill: completed: session 'main': OSError: open has failed",
    "forwarded": "8:5: prefill: completed: session 'main': OSError: forwarded has failed",
    "prefill": "8:5: prefill: completed: session 'main': OSError: prefill has failed",
    "probe": "8:5: prefill: completed: session 'main': OSError: probe has failed",
    "view": "8:5: prefill: completed: session 'main': OSError: view has failed",
    "dtype": "8:5: prefill: completed: session 'main': OSError: dtype has failed",
    "identity": "9:5: serialize: completed: session 'main': OSError: identity has failed",
    "export": "9:5: serialize: completed: session 'main': OSError: export has failed",
    "append": "10:5: append: completed: session 'main': OSError: append has failed",
    "restore": "11:5: reload: completed: session 'again': OSError: restore has failed",
    "fork": "13:5: fork: completed: session 'twin': OSError: fork has failed",
    "crop": "15:5: crop: completed: session 'again': OSError: crop has failed",
    "select": "17:5: beam-select: completed: session 'twin': OSError: select has failed",
    "reset": "18:5: drop: completed: session 'main': OSError: reset has failed",
}
"""By the method that raises: how the failure begins."""


class Nothing:
    """A loader that says nothing."""

    def describe(self) -> None:
        return None

    def tokenize(self, text: str) -> None:
        return None

    def load(self, dtype: object, options: object) -> None:
        return None


def test_every_method_of_the_protocols_is_here() -> None:
    assert {*raising.LOADER, *raising.ENGINE, *raising.SESSION} == {*FIRST, "describe", "tokenize"}


@pytest.mark.parametrize("method", FIRST)
def test_it_is_a_finding_at_its_event(method: str) -> None:
    result = played(EVERYTHING, f"planted.raising:{method}")

    assert result.exit is Exit.FAILED
    assert first(result) == f"case.evseq.yaml:{FIRST[method]}"


def test_a_target_that_cannot_be_described_is_an_error() -> None:
    told = (
        "planted.raising:describe: describing it raised OSError: describe has failed\n"
        "  help: `describe` of its loader must work without weights"
    )

    with pytest.raises(TargetError) as raised:
        played(EVERYTHING, "planted.raising:describe")

    assert str(raised.value) == told


def test_front_ends_print_it_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["qualify", "--target", "planted.raising:describe"])

    assert code == Exit.USAGE
    assert capsys.readouterr().err == (
        "planted.raising:describe: describing it raised OSError: describe has failed\n"
        "  help: `describe` of its loader must work without weights\n"
    )


def test_checking_and_selecting_say_the_same() -> None:
    parsed = script("rows: {a: [1, 2]}\nevents: [{prefill: [a]}]\n")

    with pytest.raises(TargetError, match="describing it raised OSError: describe has failed"):
        check([parsed], "planted.raising:describe", Settings())
    with pytest.raises(TargetError, match="describing it raised OSError: describe has failed"):
        selected(parsed, "planted.raising:describe", Settings())


def test_a_text_that_cannot_be_tokenized_is_an_error() -> None:
    parsed = script('rows: {a: {text: "the fox"}}\nevents: [{prefill: [a]}]\n')
    told = (
        "planted.raising:tokenize: tokenizing raised OSError: tokenize has failed\n"
        "  help: `tokenize` of its loader must work without weights, or leave out the capability `text`"
    )

    with pytest.raises(TargetError) as raised:
        played(parsed, "planted.raising:tokenize")
    assert str(raised.value) == told

    with pytest.raises(TargetError) as raised:
        check([parsed], "planted.raising:tokenize", Settings())
    assert str(raised.value) == told


@pytest.mark.parametrize("method", ["load", "uncached"])
def test_greedy_tokens_that_cannot_be_chosen_are_a_finding(method: str) -> None:
    assert lines(played(GREEDY, f"planted.raising:{method}")) == [
        f"case.evseq.yaml:{FIRST[method].replace('8:5', '7:5')}"
    ]


def test_a_fresh_process_that_raises_is_a_finding_too() -> None:
    assert lines(played(ELSEWHERE, "planted.raising:restore", "planted.raising:append")) == [
        "case.evseq.yaml:9:5: reload: completed: session 'elsewhere': EngineError: OSError: restore has failed",
        "case.evseq.yaml:10:5: append: completed: session 'elsewhere': EngineError: OSError: append has failed",
    ]


def test_a_loader_that_describes_nothing_is_an_error() -> None:
    with pytest.raises(TargetError) as raised:
        qualify(Nothing())

    assert str(raised.value) == (
        "memory:Nothing: describing it gave a NoneType\n"
        "  help: `describe` of its loader must return an evseq.geometry.Description"
    )


def test_what_a_loader_says_in_words_of_its_own_is_left_so() -> None:
    loader = Refusing()

    with pytest.raises(TargetError, match="no such folder"):
        qualify(loader)
    loader.described = True
    with pytest.raises(TargetError, match="no such text"):
        played('rows: {a: {text: "the fox"}}\nevents: [{prefill: [a]}]\n', loader)


class Refusing:
    """A loader that knows what is wrong."""

    described = False

    def describe(self) -> Description:
        if not self.described:
            raise TargetError("no such folder")
        return find("reference:full").describe()

    def tokenize(self, text: str) -> tuple[int, ...]:
        raise TargetError("no such text")

    def load(self, dtype: object, options: object) -> None:
        return None
