"""Any possible script is planned as a second, slower count of slots says."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from evseq.geometry import Description, Geometry, PositionRule, Positions, WindowCounts
from evseq.history import MASKED, Tree
from evseq.script import steps
from evseq.script.cases import CaseArms
from evseq.script.document import Script
from evseq.script.lower import check, lower
from evseq.script.request import State
from evseq.script.steps import Feed, Plan, Step
from planning import decoder, feeds, grown, planned, script
from possible import TEXTS, possible, tokenize

DECODERS = st.builds(
    lambda windows, rule, counts: decoder(*windows, rule=rule, counts=counts, vocab=200),
    st.lists(st.none() | st.integers(2, 7), min_size=1, max_size=3),
    st.sampled_from(PositionRule),
    st.sampled_from(WindowCounts),
)
SHAPES = {
    "padding": st.sampled_from(["left", "right", "holes"]),
    "chunk": st.sampled_from(["whole", 1, 2, 3, 5]),
    "positions": st.sampled_from(["given", "engine"]),
}
ARMS = st.fixed_dictionaries({}, optional=SHAPES)


@dataclass
class Row:
    """One row, slot by slot: a token, or None where it is masked, and the slot it was fed to; every length it had."""

    slots: list[int | None] = field(default_factory=list)
    fed_to: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=lambda: [0])


@dataclass
class Session:
    """Rows in batch order; all that was done since it was opened; the most columns there were."""

    group: int
    rows: dict[str, Row] = field(default_factory=dict)
    done: tuple[object, ...] = ()
    widest: int = 0


@dataclass
class Count:
    """Sessions as plain slots. Everything else is counted from them, each time anew."""

    geometry: Geometry
    positions: Positions
    tree: Tree
    sessions: dict[str, Session] = field(default_factory=dict)
    saved: dict[str, Session] = field(default_factory=dict)
    lineages: list[tuple[int, object]] = field(default_factory=list)
    widths: dict[int, int] = field(default_factory=dict)  # the most columns of each group
    joining: set[int] = field(default_factory=set)  # groups that have another's room

    def numbered(self, row: Row) -> list[tuple[int, int, int]]:
        """Return slot, token and position of each real token, and of the one that would come next."""
        real = [(slot, token) for slot, token in enumerate([*row.slots, MASKED]) if token is not None]
        by_slot = self.positions is Positions.ENGINE and self.geometry.position_rule is PositionRule.SLOT
        fed_to = [*row.fed_to, len(row.slots)]
        return [(slot, token, fed_to[slot] if by_slot else index) for index, (slot, token) in enumerate(real)]

    def seen(self, row: Row, window: int | None) -> int:
        *held, here = self.numbered(row)
        what = 0 if self.geometry.window_counts is WindowCounts.SLOTS else 2
        return sum(window is None or here[what] - token[what] < window for token in held)

    def history(self, row: Row) -> tuple[tuple[int, int], ...]:
        """Return the path of a row: leading masked slots left out, inner ones where a window counts them."""
        slots = self.geometry.window_counts is WindowCounts.SLOTS
        inner = slots and any(layer.window is not None for layer in self.geometry.layers)
        real = {slot: (token, position) for slot, token, position in self.numbered(row)[:-1]}
        path = [real.get(slot, (MASKED, 0)) for slot in range(min(real), max(real) + 1)]
        return tuple(path if inner else [slot for slot in path if slot[0] != MASKED])

    def state(self, session: Session) -> State:
        rows = list(session.rows.values())
        columns = len(rows[0].slots)
        session.widest = max(session.widest, columns)
        self.widths[session.group] = max(self.widths.get(session.group, 0), columns)
        return State(
            lengths=tuple(len(self.numbered(row)) - 1 for row in rows),
            next_positions=tuple(self.numbered(row)[-1][2] for row in rows),
            visible=tuple(tuple(self.seen(row, layer.window) for row in rows) for layer in self.geometry.layers),
            columns=columns,
            furthest=session.widest,
        )

    def feed(self, session: Session, step: Feed) -> None:
        """Take the columns of a forward, and compare all that it says of each."""
        session.rows = session.rows or {name: Row() for name in step.rows}
        assert step.rows == tuple(session.rows)
        rows = session.rows.values()
        for row, *grids in zip(rows, step.tokens, step.positions, step.nodes, step.indices, strict=True):
            for token, position, node, index in zip(*grids, strict=True):
                row.fed_to.append(len(row.slots))
                if node == -1:
                    assert (token, position, index) == (0, 0, -1)
                    row.slots.append(None)
                    continue
                row.slots.append(token)
                held = self.numbered(row)[:-1]
                row.lengths.append(len(held))
                assert (index, position) == (len(held) - 1, held[-1][2])
                path = self.tree.path(node)
                assert tuple(zip(path.tokens, path.positions, strict=True)) == self.history(row)
        mask = [[node >= 0 for node in nodes] for nodes in step.nodes]
        session.done += (("fed", step.tokens, step.positions, str(mask)),)
        self.lineages.append((step.lineage, session.done))

    def crop(self, session: Session, step: steps.Crop) -> None:
        for row, keep in zip(session.rows.values(), step.lengths, strict=True):
            for slot, _, _ in self.numbered(row)[:-1][keep:]:
                row.slots[slot] = None
            row.lengths.append(keep)
        rows = session.rows.values()
        while all(row.slots and row.slots[-1] is None for row in rows):
            for row in rows:
                row.slots.pop()
                row.fed_to.pop()
        session.done += (("cropped", step.lengths),)

    def join(self, session: Session, other: Session) -> None:
        both = (session, other)
        width = max(len(row.slots) for one in both for row in one.rows.values())
        for one in both:
            one.widest = max(one.widest, *(len(row.slots) for row in one.rows.values()))
            for row in one.rows.values():
                short = width - len(row.slots)
                row.slots, row.fed_to = [*[None] * short, *row.slots], [0] * short + row.fed_to
            one.widest += short
        session.widest = max(session.widest, other.widest)
        session.rows |= other.rows
        session.done += (("joined", other.done),)

    def play(self, step: Step) -> State | None:
        """Do a step; return what a probe must read afterwards, None where there is nothing to read."""
        name = step.session
        match step:
            case steps.Open(group=group, beside=beside):
                self.sessions[name] = Session(group=group, done=(("open", group),))
                self.joining |= set() if beside is None else {group}
                return None
            case steps.Reset():
                group = self.sessions[name].group
                self.sessions[name] = Session(group=group, done=(("open", group),))
                return None
            case steps.Drop():
                del self.sessions[name]
                return None
            case Feed():
                self.feed(self.sessions[name], step)
            case steps.Join(other=other):
                self.join(self.sessions[name], self.sessions.pop(other))
            case steps.Select() | steps.Retire():
                session = self.sessions[name]
                rows = list(session.rows.values())
                session.rows = {
                    new: copy.deepcopy(rows[parent]) for new, parent in zip(step.rows, step.parents, strict=True)
                }
                session.done += (("selected", step.parents),)
            case steps.Crop():
                self.crop(self.sessions[name], step)
            case steps.Fork(source=source):
                self.sessions[name] = copy.deepcopy(self.sessions[source])
            case steps.Save(to=to):
                self.saved[to] = copy.deepcopy(self.sessions[name])
            case steps.Load(source=source, refused=None):
                self.sessions[name] = copy.deepcopy(self.saved[source])
            case steps.Load(source=source) | steps.LoadDamaged(source=source):
                return self.state(copy.deepcopy(self.saved[source]))
            case steps.Alter() | steps.Restore() | steps.Stow() | steps.Draw():  # random scripts leave pools alone
                return None
            case steps.Read():
                pass
        return self.state(self.sessions[name])


def expected(step: Step) -> State | None:
    """Return what the plan says that a probe must read after a step."""
    return step.state if isinstance(step, steps.Load | steps.LoadDamaged) else getattr(step, "after", None)


def played(
    what: Script, arms: dict[str, int | str], on: Description
) -> Iterator[tuple[Plan, Step, State | None, Count]]:
    """Yield each step of a plan with what it must be read afterwards, once the second count has done it too."""
    plan, tree = grown(what, arms=arms, on=on)
    count = Count(geometry=on.geometry, positions=plan.layouts[0].positions, tree=tree)
    for step in plan.steps:
        found = count.play(step)
        yield plan, step, found, count


@given(what=possible(), arms=ARMS, on=DECODERS)
def test_every_token_history_and_state_is_that_of_a_second_count(
    what: Script, arms: dict[str, int | str], on: Description
) -> None:
    for _, step, found, _ in played(what, arms, on):
        assert found == expected(step)


@given(what=possible(), arms=ARMS, on=DECODERS)
def test_lineages_are_equal_exactly_where_the_same_was_computed(
    what: Script, arms: dict[str, int | str], on: Description
) -> None:
    *_, (_, _, _, count) = played(what, arms, on)
    pairs = set(count.lineages)
    assert len({lineage for lineage, _ in pairs}) == len({done for _, done in pairs}) == len(pairs)


@given(what=possible(), arms=ARMS, on=DECODERS)
def test_a_layout_has_the_room_its_sessions_need(what: Script, arms: dict[str, int | str], on: Description) -> None:
    *_, (plan, _, _, count) = played(what, arms, on)
    stale = {step.group for step in plan.steps if isinstance(step, steps.Load) and step.damage is not None}
    for group, columns in ((group, columns) for group, columns in count.widths.items() if group not in count.joining):
        assert columns <= plan.layouts[group].capacity <= columns + (group in stale)


@given(what=possible(), arms=ARMS, window=st.integers(2, 7))
def test_a_ring_of_window_and_depth_holds_what_each_next_query_needs(
    what: Script, arms: dict[str, int | str], window: int
) -> None:
    for plan, step, _, count in played(what, arms, decoder(window, vocab=200)):
        session = count.sessions.get(step.session)
        for row in session.rows.values() if session else ():
            size = window + plan.layouts[session.group].depth  # type: ignore[union-attr]  # rows are a session's
            assert all(held(row, number, size) for number in range(row.lengths[-1])[-(window - 1) :])


def held(row: Row, number: int, size: int) -> bool:
    """Tell whether a ring of so many slots still holds a token of a row, by its number, after all the row's lengths."""
    ring: dict[int, int] = {}
    for before, after in zip(row.lengths, row.lengths[1:], strict=False):
        if after > before:
            ring[before % size] = before
    return ring[number % size] == number


@given(
    fed=st.dictionaries(st.sampled_from(sorted(TEXTS)), st.integers(1, 6), min_size=1),
    arms=st.fixed_dictionaries(SHAPES),
    on=DECODERS,
)
def test_a_prefill_feeds_every_token_once_in_order_however_it_is_padded_and_cut(
    fed: dict[str, int], arms: dict[str, int | str], on: Description
) -> None:
    rows = {name: str(list(text)) for name, text in TEXTS.items()}
    asked = ", ".join(f"{name}: {count}" for name, count in fed.items())
    parts = feeds(planned(script(f"prefill: {{rows: {{{asked}}}}}", rows=rows), arms=arms, on=on))
    chunk = arms["chunk"] if arms["chunk"] != "whole" else 99
    widths = [len(part.tokens[0]) for part in parts]
    assert [width for width in widths[:-1] if width != chunk] == [width for width in widths if width > int(chunk)] == []
    for number, (name, count) in enumerate(fed.items()):
        cells = [cell for part in parts for cell in zip(part.nodes[number], part.tokens[number], strict=True)]
        real = [token for node, token in cells if node >= 0]
        indices = [index for part in parts for index in part.indices[number] if index >= 0]
        assert (tuple(real), indices) == (TEXTS[name][:count], list(range(count)))
        assert len(cells) == sum(widths)


@given(what=possible(window=5, spelled=True))
def test_what_is_possible_on_a_target_is_not_complained_of_without_one(what: Script) -> None:
    lower(what, [CaseArms(arms={})], description=decoder(None, 5, vocab=10**6), tokenize=tokenize)
    check(what)
