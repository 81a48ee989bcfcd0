"""Any script that is possible, its numbers spelled in any way that a target with this window understands."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from hypothesis import strategies as st

from evseq.cache.fields import FIELDS
from evseq.cache.regions import ERRORS, Region
from evseq.script import events as ev
from evseq.script.document import Ids, Random, RowSource, Script, Text

__all__ = ["TEXTS", "possible", "tokenize"]

TEXTS = {"a": tuple(range(10, 20)), "b": tuple(range(10, 16)), "c": tuple(range(30, 37))}
"""The rows and their tokens."""


def tokenize(text: str) -> tuple[int, ...]:
    """Return the tokens of the row that `text` names."""
    return TEXTS[text]


@dataclass
class Held:
    """What a writer must remember of a row: its text and, for each token held, the place in the text after it."""

    text: str
    places: list[int] = field(default_factory=list)

    @property
    def taken(self) -> int:
        """Tokens of the text that were taken."""
        return self.places[-1] if self.places else 0

    @property
    def left(self) -> int:
        """Tokens of the text that are left."""
        return len(TEXTS[self.text]) - self.taken


class Writer:
    """Draws one event after the other, each possible after those before it, or expected not to be."""

    def __init__(self, draw: st.DrawFn, *, window: int | None, spelled: bool) -> None:
        self.draw = draw
        self.window = window
        self.spelled = spelled
        self.sessions: dict[str, dict[str, Held]] = {}
        self.saved: dict[str, dict[str, Held]] = {}
        self.left: dict[str, set[str]] = {}  # rows that were retired, of each session and file
        self.rows: dict[str, int] = {}  # of each session when it was opened
        self.events: list[ev.Event] = []

    def script(self) -> Script:
        """Draw a script."""
        self.prefill("main")
        kinds = [self.next, self.ids, self.beams, self.crop, self.fork, self.save, self.load, self.refuse, self.again]
        files = [self.damage, self.forge]
        more = [*kinds, *files, self.greedy, self.too_much, self.speculate, self.leave, self.enter, self.rounds]
        for kind in self.draw(st.lists(st.sampled_from(more), max_size=9)):
            kind(self.draw(st.sampled_from(sorted(self.sessions))))
        for file in self.saved:
            name = self.new("last")
            self.events += [ev.Reload(from_=file, as_=name), ev.Probe(on=name)]
        fed = {row for event in self.events if isinstance(event, ev.Prefill | ev.Join) for row in event.rows}
        rows = {name: self.source(name) for name in TEXTS if name in fed}
        return Script(name="any", about="Any.", rows=rows, arms={}, events=tuple(self.events))

    def source(self, name: str) -> RowSource:
        """Draw where a row's tokens come from."""
        ids = Ids(ids=TEXTS[name])
        sources: list[RowSource] = [ids, Random(length=self.number(len(ids.ids)), seed=1), Text(text=name)]
        return self.draw(st.sampled_from(sources)) if self.spelled else ids

    def number(self, value: int, **words: int) -> int | str:
        """Draw a spelling of `value`."""
        known = words | ({"window": self.window} if self.window is not None else {})
        spellings: list[int | str] = [value, *(f"{word}{value - base:+d}" for word, base in known.items())]
        return self.draw(st.sampled_from(spellings)) if self.spelled else value

    def new(self, letter: str) -> str:
        """Return a name not used yet."""
        return f"{letter}{len(self.events)}"

    def prefill(self, name: str, *, rows: int | None = None) -> None:
        """Open a session."""
        sizes = st.lists(st.sampled_from(sorted(TEXTS)), unique=True, min_size=rows or 1, max_size=rows or 3)
        fed = {text: self.draw(st.integers(1, len(TEXTS[text]))) for text in self.draw(sizes)}
        self.sessions[name] = {text: Held(text, list(range(1, count + 1))) for text, count in fed.items()}
        self.rows[name], self.left[name] = len(fed), set()
        spelled = {text: self.number(count, length=len(TEXTS[text])) for text, count in fed.items()}
        self.events.append(ev.Prefill(rows=spelled, as_=name))

    def next(self, on: str) -> None:
        """Feed the next tokens of some rows."""
        able = [name for name, row in self.sessions[on].items() if row.left]
        if able:
            names = self.draw(st.lists(st.sampled_from(able), min_size=1, unique=True))
            count = self.draw(st.integers(1, min(self.sessions[on][name].left for name in names)))
            for name in names:
                row = self.sessions[on][name]
                row.places += range(row.taken + 1, row.taken + count + 1)
            self.events.append(ev.Append(next=self.number(count), rows=names, on=on, together=self.draw(st.booleans())))

    def ids(self, on: str) -> None:
        """Feed ids to some rows."""
        tokens = st.lists(st.integers(0, 63), min_size=1, max_size=3)
        fed = self.draw(st.dictionaries(st.sampled_from(sorted(self.sessions[on])), tokens, min_size=1))
        for name, given in fed.items():
            self.sessions[on][name].places += [self.sessions[on][name].taken] * len(given)
        self.events.append(ev.Append(ids=fed, on=on, together=self.draw(st.booleans())))

    def greedy(self, on: str) -> None:
        """Feed greedy ids to every row."""
        count = self.draw(st.integers(1, 3))
        for row in self.sessions[on].values():
            row.places += [row.taken] * count
        self.events.append(ev.Append(greedy=self.number(count), on=on))

    def beams(self, on: str) -> None:
        """Replace rows by beams."""
        parents = self.draw(st.lists(st.sampled_from(sorted(self.sessions[on])), min_size=1, max_size=4))
        beams = {self.new(letter): parent for letter, parent in zip("wxyz", parents, strict=False)}
        self.sessions[on] = {new: copy.deepcopy(self.sessions[on][parent]) for new, parent in beams.items()}
        self.events += [ev.BeamSelect(rows=beams, on=on), ev.Probe(on=on)]

    def crop(self, on: str) -> None:
        """Roll rows back."""
        rows = self.sessions[on]
        dropped = {name: self.draw(st.integers(0, len(row.places))) for name, row in rows.items()}
        if any(dropped.values()):
            spelled = {name: self.number(count, length=len(rows[name].places)) for name, count in dropped.items()}
            for name, count in dropped.items():
                del rows[name].places[len(rows[name].places) - count :]
            self.events += [ev.Crop(by=spelled, on=on), ev.Probe(on=on)]

    def speculate(self, on: str) -> None:
        """Draft own or given tokens and keep some."""
        rows = self.sessions[on]
        least = min(row.left for row in rows.values())
        count = self.draw(st.integers(1, max(1, min(3, least))))
        accepted = {name: self.draw(st.integers(0, count)) for name in rows}
        spelled = {name: self.number(kept, length=count) for name, kept in accepted.items()}
        for name, row in rows.items():
            step = 1 if least else 0
            row.places += [row.taken + step * kept for kept in range(1, accepted[name] + 1)]
        if least:
            self.events.append(ev.Speculate(next=self.number(count), accept=spelled, on=on))
        else:
            self.events.append(ev.Speculate(ids={name: [7] * count for name in rows}, accept=spelled, on=on))
        self.events.append(ev.Probe(on=on))

    def leave(self, on: str) -> None:
        """Let rows leave."""
        rows = self.sessions[on]
        if len(rows) > 1:
            names = st.lists(st.sampled_from(sorted(rows)), min_size=1, max_size=len(rows) - 1, unique=True)
            gone = self.draw(names)
            self.sessions[on] = {name: row for name, row in rows.items() if name not in gone}
            self.left[on].update(gone)
            self.events += [ev.Retire(rows=gone, on=on), ev.Probe(on=on)]

    def enter(self, on: str) -> None:
        """Let rows join that are not there and never were."""
        able = sorted(TEXTS.keys() - self.sessions[on].keys() - self.left[on])
        if able:
            names = self.draw(st.lists(st.sampled_from(able), min_size=1, unique=True))
            fed = {name: self.draw(st.integers(1, len(TEXTS[name]))) for name in names}
            self.sessions[on] |= {name: Held(name, list(range(1, count + 1))) for name, count in fed.items()}
            spelled = {name: self.number(count, length=len(TEXTS[name])) for name, count in fed.items()}
            self.events += [ev.Join(rows=spelled, on=on), ev.Probe(on=on)]

    def rounds(self, on: str) -> None:
        """Do something over and over."""
        times, rows = self.draw(st.integers(1, 3)), self.sessions[on]
        for row in rows.values():
            row.places += [row.taken] * times
        draft = ev.Append(ids={name: [5, 6] for name in rows}, on=on, together=self.draw(st.booleans()))
        events = [draft, ev.Crop(by=1, on=on)]
        self.events += [ev.Repeat(times=self.number(times), events=events), ev.Probe(on=on)]

    def too_much(self, on: str) -> None:
        """Write an event that must be invalid."""
        row = self.draw(st.sampled_from(sorted(self.sessions[on])))
        held = self.sessions[on][row]
        invalid = ev.Expect(invalid=True)
        more, deeper = self.number(held.left + 1), self.number(len(held.places) + 1, length=len(held.places))
        wrong: list[ev.Event] = [
            ev.Append(next=more, rows=[row], on=on, expect=invalid),
            ev.Crop(by=deeper, row=row, on=on, expect=invalid),
            ev.Prefill(rows={"a": self.number(1)}, as_=on, expect=invalid),
            ev.Prefill(rows={"a": self.number(11)}, as_="never", expect=invalid),
        ]
        self.events.append(self.draw(st.sampled_from(wrong)))

    def fork(self, on: str) -> None:
        """Copy a session."""
        name = self.new("fork")
        self.events += [ev.Fork(as_=name, on=on), ev.Probe(on=name)]
        self.sessions[name], self.rows[name] = copy.deepcopy(self.sessions[on]), self.rows[on]
        self.left[name] = set(self.left[on])

    def save(self, on: str) -> None:
        """Serialize a session."""
        name = self.new("file")
        self.events.append(ev.Serialize(to=name, on=on))
        self.saved[name], self.left[name] = copy.deepcopy(self.sessions[on]), set(self.left[on])

    def load(self, on: str) -> None:
        """Reload what was saved, perhaps with a bound on what is reused."""
        if self.saved:
            file, name = self.draw(st.sampled_from(sorted(self.saved))), self.new("load")
            total = sum(len(row.places) for row in self.saved[file].values())
            exactly = ev.Expect(reused=ev.Reused(exactly=self.number(total)))
            most = ev.Expect(reused=ev.Reused(most=self.number(max(total - 1, 0))))
            expect = self.draw(st.sampled_from([None, exactly, *([most] if total else [])]))
            asked = ev.Reload(from_=file, as_=name)
            self.events += [asked.model_copy(update={"expect": expect}), ev.Probe(on=name)]
            self.sessions[name], self.rows[name] = copy.deepcopy(self.saved[file]), self.rows[on]
            self.left[name] = set(self.left[file])

    def refuse(self, _: str) -> None:
        """Ask with a changed request."""
        choices = [(file, row) for file, rows in self.saved.items() for row in rows if rows[row].places]
        if choices:
            file, row = self.draw(st.sampled_from(sorted(choices)))
            length = len(self.saved[file][row].places)
            index = self.draw(st.integers(0, length - 1))
            spelled, token = self.number(index, length=length), self.number(64 + index)
            self.events.append(ev.MutatePrefixToken(row=row, index=spelled, token=token))
            refused = ev.Expect(refused="prefix.tokens")
            self.events.append(ev.Reload(from_=file, as_=self.new("none"), expect=refused))

    def damage(self, _: str) -> None:
        """Ask for a damaged file; every file is reloaded as it is in the end."""
        if self.saved:
            file, region = self.draw(st.sampled_from(sorted(self.saved))), self.draw(st.sampled_from(Region))
            told = ev.Expect(malformed=ERRORS[region].__name__)
            self.events.append(ev.Reload(from_=file, as_=self.new("none"), damage=region, expect=told))

    def forge(self, _: str) -> None:
        """Ask for a file that says something else in one field."""
        if self.saved:
            file, field = self.draw(st.sampled_from(sorted(self.saved))), self.draw(st.sampled_from(list(FIELDS)))
            refused = ev.Expect(refused=field)
            self.events.append(ev.Reload(from_=file, as_=self.new("none"), forged=field, expect=refused))

    def again(self, on: str) -> None:
        """Free a session; if it is the only one, fill its buffers again."""
        if len(self.sessions) > 1:
            del self.sessions[on]
            self.events.append(ev.Drop(on=on))
        elif self.rows[on] <= len(TEXTS):
            self.events.append(ev.Drop(on=on, keep=ev.Keep.BUFFERS))
            self.prefill(on, rows=self.rows[on])


@st.composite
def possible(draw: st.DrawFn, *, window: int | None = None, spelled: bool = False) -> Script:
    """Draw a script that is possible on a target whose smallest window is `window`.

    Only `spelled` ones have number words, and rows whose length only a target knows.
    """
    return Writer(draw, window=window, spelled=spelled).script()
