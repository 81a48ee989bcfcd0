"""Feeding: prefill and append become forwards, column by column."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from evseq.geometry import Capability
from evseq.history import ROOT
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.complaints import did_you_mean
from evseq.script.desk import Desk
from evseq.script.noting import ImpossibleError
from evseq.script.placing import Row
from evseq.script.sessions import SessionPlan
from evseq.script.texts import NOMINAL_LENGTH

__all__ = ["append", "asked_rows", "fed", "feed", "given", "levelled", "masked", "own", "pad", "pour", "prefill"]

Columns = Mapping[str, Sequence[int | None]]
"""What each row is fed; None is a masked slot. Every row has as many columns."""


def prefill(desk: Desk, event: ev.Prefill) -> None:
    """Open a session and feed its rows, padded and cut in chunks as the arms say."""
    name = desk.resolved(event.as_)
    desk.unused(name)
    rows, grid = asked_rows(desk, event.rows)
    group = desk.kept.get(name)
    if group is None:
        group = desk.new_group(len(rows))
        desk.emit(st.Open(event=desk.event, session=name, group=group))
    elif desk.groups[group].rows != len(rows):
        kept = desk.groups[group].rows
        desk.refuse(
            ("rows",),
            f"prefill: {_counted(len(rows), 'row')}, but the buffers kept for {name!r} have {kept}",
            f"prefill {_counted(kept, 'row')}, or drop {name!r} without `keep`",
        )
    lineage = desk.lineage(("open", group))
    salt = desk.resolved(event.salt) if event.salt is not None else None
    session = SessionPlan(name=name, group=group, lineage=lineage, rows=rows, salt=salt)
    desk.open(session)
    pour(desk, session, grid)


def pour(desk: Desk, session: SessionPlan, grid: Mapping[str, list[int]]) -> None:
    """Feed a new session, padded and cut in chunks as the arms say."""
    if len(session.rows) > 1:
        desk.needs.add(Capability.BATCH)
    columns = pad(grid, desk.padding)
    desk.needs |= masked(columns)
    width = len(next(iter(columns.values())))
    chunk = desk.chunk or width
    for start in range(0, width, chunk):
        part = {row: cells[start : start + chunk] for row, cells in columns.items()}
        if start and min(chunk, width - start) > 1:
            desk.needs.add(Capability.TOGETHER)
        if min(chunk, width - start) == 1 and any(None in cells for cells in part.values()):
            desk.needs.add(Capability.RAGGED)  # the column is fed to some rows alone
        feed(desk, session, part, prefill=True)


def append(desk: Desk, event: ev.Append) -> None:
    """Feed tokens onto a filled cache, one forward each or together."""
    session = desk.live(desk.resolved(event.on))
    named: Collection[str] = session.rows if event.rows is None else desk.rows_of(session, event.rows, ("rows",))
    if event.ids is not None:
        grid = given(desk, session, event.ids, named)
    elif event.next is not None:
        grid = {name: own(desk, session.rows[name], event.next, ("next",)) for name in named}
    else:
        assert event.greedy is not None
        count = desk.number(event.greedy, ("greedy",))
        grid = {name: _chosen(desk, session.rows[name], count) for name in named}
    width = max(map(len, grid.values()))
    if width == 0:
        word = "next" if event.next is not None else "greedy"
        desk.refuse((word,), "append: feeds no token", "feed at least 1")
    columns = levelled(desk, session, grid)
    if event.together and width > 1:
        desk.needs.add(Capability.TOGETHER)
    step = width if event.together else 1
    for start in range(0, width, step):
        part = {name: cells[start : start + step] for name, cells in columns.items()}
        feed(desk, session, part, prefill=False)


def levelled(desk: Desk, session: SessionPlan, grid: Mapping[str, Sequence[int]]) -> dict[str, list[int | None]]:
    """Return the columns of every row: a row that has less than others waits in masked slots."""
    width = max(map(len, grid.values()))
    columns = {name: [*grid.get(name, ()), *[None] * (width - len(grid.get(name, ())))] for name in session.rows}
    if any(None in cells for cells in columns.values()):
        desk.needs.add(Capability.RAGGED)
    return columns


def fed(desk: Desk, session: SessionPlan, columns: Columns, *, prefill: bool) -> st.Feed:
    """Let every row take its columns and return the forward that feeds them."""
    taken = [row.take(columns[name], desk.rules) for name, row in session.rows.items()]
    tokens, positions, nodes, indices = zip(*taken, strict=True)
    mask = tuple([tuple([node >= 0 for node in row]) for row in nodes])
    session.lineage = desk.lineage((session.lineage, "feed", tokens, mask, positions))
    group = desk.groups[session.group]
    group.capacity = max(group.capacity, session.width)
    return st.Feed(
        event=desk.event,
        session=session.name,
        prefill=prefill,
        rows=tuple(session.rows),
        tokens=tokens,
        positions=positions,
        nodes=nodes,
        indices=indices,
        lineage=session.lineage,
        after=session.state(desk.rules),
    )


def masked(columns: Columns) -> set[Capability]:
    """Return what an engine needs to be prefilled with these columns: padding, holes, or neither."""
    needs: set[Capability] = set()
    for cells in columns.values():
        real = [column for column, token in enumerate(cells) if token is not None]
        if len(real) < len(cells):
            inner = real and None in cells[real[0] : real[-1]]
            needs |= {Capability.HOLES} if inner else set()
            needs |= {Capability.PADDING} if not real or real[0] > 0 else set()
            needs |= {Capability.TRAILING} if real and real[-1] < len(cells) - 1 else set()
    return needs


def feed(desk: Desk, session: SessionPlan, columns: Columns, *, prefill: bool) -> None:
    """Emit the forward that feeds the columns."""
    step = fed(desk, session, columns, prefill=prefill)
    desk.within_capacity(session)
    desk.emit(step)
    desk.fed.setdefault(session.salt, set()).update(node for row in step.nodes for node in row)
    session.opened_by = None


def asked_rows(
    desk: Desk, words: Sequence[str] | Mapping[str, int | str]
) -> tuple[dict[str, Row], dict[str, list[int]]]:
    """Return the rows that words or numbers of tokens ask for, and the tokens each is fed."""
    rows: dict[str, Row] = {}
    grid: dict[str, list[int]] = {}
    numbers = words if isinstance(words, Mapping) else {}
    bad = False
    for place, word in enumerate(words):
        path = ("rows", word if numbers else place)
        name = desk.resolved(word)
        text = desk.texts.get(name)
        try:
            if text is None:
                desk.refuse(
                    path, f"{desk.word}: no row {name!r}", did_you_mean(name, desk.texts, "rows here"), key=True
                )
            if name in rows:
                help = "name it once; a second row of that text needs a name of its own"
                desk.refuse(path, f"{desk.word}: row {name!r} is named twice", help, key=True)
            row = rows[name] = Row(name=name, text=text, exact=text.exact or bool(numbers))
            grid[name] = own(desk, row, numbers.get(word, len(text.tokens)), path)
            if not grid[name]:
                desk.refuse(path, f"{desk.word}: row {name!r} is fed 0 tokens", "feed at least 1, or leave the row out")
        except ImpossibleError:
            bad = True
    if bad:
        raise ImpossibleError
    return rows, grid


def given(
    desk: Desk, session: SessionPlan, ids: Mapping[str, Sequence[int]], named: Collection[str]
) -> dict[str, Sequence[int]]:
    """Return the ids an event gives, by row."""
    names = desk.rows_of(session, ids, ("ids",), keys=True)
    for name, word in zip(names, ids, strict=True):
        if name not in named:
            help = f"name {name!r} in `rows`, or leave `rows` out"
            desk.refuse(("ids", word), f"{desk.word}: ids for row {name!r}, which `rows` leaves out", help, key=True)
    return dict(zip(names, ids.values(), strict=True))


def own(desk: Desk, row: Row, number: int | str, path: tuple[str | int, ...]) -> list[int]:
    """Return the next tokens of a row's own text, and make them due."""
    count = desk.number(number, path, row.text.words)
    if count is None:
        row.exact = False
        count = NOMINAL_LENGTH
    own = row.text.tokens
    left = len(own) - row.taken
    if count > left and row.exact and row.text.exact:
        has = _counted(left, "token") + (f" left of its {len(own)}" if row.taken else "")
        most = f"feed at most {left}" if left else "feed `ids`"
        help = f"{most}, or give it more tokens"
        desk.refuse(path, f"{desk.word}: row {row.name!r} has {has}, cannot feed {count}", help)
    row.due = count
    return [own[(row.taken + step) % len(own)] for step in range(count)]


def _chosen(desk: Desk, row: Row, count: int | None) -> list[int]:
    """Return the ids greedy decoding chooses after what a row holds: symbols as long as no model is asked."""
    if count is None:
        row.exact = False
        count = NOMINAL_LENGTH
    chosen: list[int] = []
    if desk.greedy is not None:
        for _ in range(count):
            chosen.append(desk.greedy((*row.tokens, *chosen)))
        return chosen
    before = ROOT
    for token in row.tokens:
        before = desk.symbols.extend(before, token, 0)
    for _ in range(count):
        chosen.append(-2 - before)
        before = desk.symbols.extend(before, chosen[-1], 0)
    return chosen


def pad(grid: Mapping[str, list[int]], padding: str) -> dict[str, list[int | None]]:
    """Return the columns of each row, masked slots where `padding` says."""
    width = max(len(tokens) for tokens in grid.values())
    if padding == "holes":
        width += 2  # so that the longest row has holes too
    columns: dict[str, list[int | None]] = {}
    for name, tokens in grid.items():
        spare = width - len(tokens)
        match padding:
            case "left":
                columns[name] = [*[None] * spare, *tokens]
            case "right":
                columns[name] = [*tokens, *[None] * spare]
            case _:
                columns[name] = _with_holes(tokens, spare)
    return columns


def _with_holes(tokens: Sequence[int], spare: int) -> list[int | None]:
    """Spread masked slots between the tokens; behind the token where there is only one."""
    after = [step * max(len(tokens) - 1, 1) // spare for step in range(spare)]
    cells: list[int | None] = []
    for index, token in enumerate(tokens):
        cells += [token, *[None] * after.count(index)]
    return cells


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
