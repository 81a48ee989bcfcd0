"""Scripts for the tests of the script room: the example of the language, and any script at all."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from evseq.geometry import Capability, Dtype, Positions
from evseq.script import events as ev
from evseq.script.arms import BUILT_IN, Arm, Padding
from evseq.script.document import Ids, Random, Script, Text
from evseq.script.number import NUMBER_WORDS

_EXAMPLE = """\
# yaml-language-server: $schema=evseq.schema.json
evseq: 1
name: reload-continues
about: A cache saved mid-sequence continues bit for bit, here and in a new process.
rows:                                  # a row owns its text; events feed it piece by piece
  a: {random: {length: 10, seed: 1}}
  b: [17, 4, 59, 3, 8, 21]
arms:                                  # each combination is one case and one pytest item
  padding: [left, right]
  chunk: [whole, 2]
  dtype: [float64, float32]
events:
  - prefill: {rows: {a: 7, b: 3}}      # the first 7 and 3 tokens; `prefill: [a, b]` feeds whole rows
  - serialize: {to: mid}
  - append: {next: 2}                  # the next two tokens of every row, one forward each
  - reload: {from: mid, as: again}
  - append: {next: 2, on: again}       # same histories as above: must be bit-equal
  - reload: {from: mid, as: elsewhere, process: fresh}
  - append: {next: 2, on: elsewhere, together: true}
  - mutate-prefix-token: {row: a, index: 2, token: 24}
  - reload: {from: mid, as: changed, expect: {refused: prefix.tokens}}
"""

_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", fullmatch=True) | st.sampled_from(
    ["true", "null", "No", "on", "rows", "expect", "as", "e5", "_", "a-", "a.b"]
)
_ARM_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)
_WORDS = st.from_regex(r"([1-9][0-9]{0,3}\*)?[A-Za-z_][A-Za-z0-9_]{0,20}([+-][0-9]{1,5})?", fullmatch=True)
_NUMBERS = st.integers(0, 1_000_000) | _WORDS
_TOKENS = st.integers(0, 10**17)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=150) | st.lists(
    st.sampled_from(["a", "word", "- x", "# no", "k: v", "", "  two", "1", "null", "\n", "\\", '"', "'", "{[", "é"])
).map(" ".join).filter(bool)


def _maps(values: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    return st.dictionaries(_NAMES, values, min_size=1, max_size=6)


def _lists(values: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
    return st.lists(values, min_size=1, max_size=7)


_REUSED = st.one_of(
    st.builds(ev.Reused, most=_NUMBERS), st.builds(ev.Reused, least=_NUMBERS), st.builds(ev.Reused, exactly=_NUMBERS)
)
_EXPECT = st.none() | st.one_of(
    st.builds(ev.Expect, refused=_NAMES),
    st.builds(ev.Expect, reused=_REUSED),
    st.just(ev.Expect(invalid=True)),
    st.just(ev.Expect(loud=True)),
)
_COUNTS = _NUMBERS | _maps(_NUMBERS)


def _event(kind: type[ev.Event], **fields: st.SearchStrategy[object]) -> st.SearchStrategy[ev.Event]:
    """Draw an event; what was drawn as None is left out, as an author would."""
    drawn = st.fixed_dictionaries({**fields, "expect": _EXPECT})
    return drawn.map(lambda given: kind(**{key: value for key, value in given.items() if value is not None}))


_ON = st.just(ev.MAIN) | _NAMES
_EVENTS = st.one_of(
    _event(ev.Prefill, rows=_lists(_NAMES) | _maps(_NUMBERS), salt=st.none() | _NAMES, as_=_ON),
    _event(ev.Append, next=_NUMBERS, rows=st.none() | _lists(_NAMES), on=_ON, together=st.booleans()),
    _event(ev.Append, ids=_maps(_lists(_TOKENS)), on=_ON),
    _event(ev.Append, greedy=_NUMBERS, on=_ON),
    _event(ev.BeamSelect, rows=_maps(_NAMES), on=_ON),
    _event(ev.Crop, by=_COUNTS, on=_ON),
    _event(ev.Crop, to=_NUMBERS, row=_NAMES, on=_ON),
    _event(ev.Fork, as_=_NAMES, on=_ON),
    _event(ev.Serialize, to=_NAMES, on=_ON),
    _event(ev.Reload, from_=_NAMES, as_=_ON, process=st.sampled_from(ev.Process)),
    _event(ev.MutatePrefixToken, row=_NAMES, index=_NUMBERS, token=_NUMBERS),
    _event(ev.Probe, on=_ON),
    _event(ev.Drop, on=_ON, keep=st.none() | st.sampled_from(ev.Keep)),
)
_EVENTS |= st.one_of(
    _event(ev.Speculate, next=_NUMBERS, accept=_COUNTS, on=_ON),
    _event(ev.Speculate, ids=_maps(_lists(_TOKENS)), accept=_COUNTS, on=_ON),
    _event(ev.Retire, rows=_lists(_NAMES), on=_ON),
    _event(ev.Join, rows=_lists(_NAMES) | _maps(_NUMBERS), on=_ON),
)


def _repeats(events: st.SearchStrategy[ev.Event]) -> st.SearchStrategy[ev.Event]:
    return events | st.builds(ev.Repeat, times=_NUMBERS, events=st.lists(events, min_size=1, max_size=3))


_EVENTS = _repeats(_repeats(_EVENTS))
_ROWS = st.one_of(
    st.builds(Ids, ids=st.lists(_TOKENS, min_size=1, max_size=40).map(tuple)),
    st.builds(Random, length=st.integers(1, 1_000_000) | _WORDS, seed=_NUMBERS),
    st.builds(Text, text=_TEXTS),
)
_WHEN = st.lists(st.sampled_from([str(word) for word in Capability]), unique=True, max_size=3).map(tuple)


def _arm(values: st.SearchStrategy[int | str]) -> st.SearchStrategy[Arm]:
    return st.builds(Arm, values=st.lists(values, min_size=1, max_size=6, unique=True).map(tuple), when=_WHEN)


_SIZES = st.integers(1, 1_000_000) | st.sampled_from(["window", "window+1", "3*window-2"])
_BUILT_IN = {
    "padding": _arm(st.sampled_from([str(value) for value in Padding])),
    "chunk": _arm(_SIZES | st.just("whole")),
    "dtype": _arm(st.sampled_from([str(value) for value in Dtype])),
    "cache": _arm(_NAMES.filter(lambda name: name != "all")) | st.just(Arm(values=("all",))),
    "positions": _arm(st.sampled_from([str(value) for value in Positions])),
    "capacity": _arm(_SIZES),
}


@st.composite
def _scripts(draw: st.DrawFn) -> Script:
    rows = draw(st.dictionaries(_NAMES.filter(lambda name: name not in NUMBER_WORDS), _ROWS, min_size=1, max_size=5))
    taken = {*rows, *NUMBER_WORDS, *BUILT_IN}
    own = draw(st.dictionaries(_ARM_NAMES.filter(lambda name: name not in taken), _arm(_NAMES | _NUMBERS), max_size=3))
    options = draw(st.dictionaries(_ARM_NAMES.map(lambda name: f"engine.{name}"), _arm(_NAMES), max_size=2))
    built_in = draw(st.fixed_dictionaries({}, optional=_BUILT_IN))
    options = {name: arm for name, arm in options.items() if name not in rows}
    uses = [ev.Append(next=name) for name in own]
    needs = st.lists(st.sampled_from([*(str(word) for word in Capability), "window"]), unique=True, max_size=4)
    return Script(
        name=draw(_NAMES),
        about=draw(_TEXTS.filter(str.strip)),
        rows=rows,
        arms={name: arm for name, arm in {**built_in, **own, **options}.items() if name not in rows},
        events=(*draw(st.lists(_EVENTS, min_size=1, max_size=6)), *uses),
        needs=tuple(draw(needs)),
        targets=tuple(draw(st.lists(_TEXTS.filter(str.strip), max_size=3))),
    )


@pytest.fixture(scope="session")
def example() -> str:
    """Return the script that explains the language."""
    return _EXAMPLE


@pytest.fixture(scope="session")
def scripts() -> st.SearchStrategy[Script]:
    """Return a strategy for any script that can be written, rows from files aside."""
    return _scripts()
