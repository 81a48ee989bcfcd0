"""Feeding: prefill and append become forwards, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evseq.geometry import Capability
from evseq.script import events as ev
from evseq.script import steps as st
from evseq.script.desk import Desk, ImpossibleError
from evseq.script.sessions import Row, SessionPlan

__all__ = ["append", "fed", "prefill"]


def prefill(desk: Desk, event: ev.Prefill) -> None:
    """Open a session and feed its rows, padded and cut in chunks as the arms say."""
    desk.unused(event.as_)
    rows: dict[str, Row] = {}
    grid: dict[str, list[int]] = {}
    bad = False
    for place, word in enumerate(event.rows):
        key = ("rows", word) if isinstance(event.rows, dict) else ("rows", place)
        name = desk.resolved(word)
        text = desk.texts.get(name)
        if text is None:
            bad = True
            desk.note(key, f"prefill: no row {name!r}", desk.did_you_mean(name, desk.texts), key=True)
            continue
        if name in rows:
            bad = True
            desk.note(key, f"prefill: row {name!r} is named twice", "a second row of that text needs its own name")
            continue
        row = rows[name] = Row(name=name, text=text, exact=text.exact)
        count = len(text.tokens)
        if isinstance(event.rows, dict):
            count = desk.number(event.rows[word], key, row=row, length=count)
        grid[name] = _next(desk, row, count, key)
        if not grid[name]:
            bad = True
            desk.note(key, f"prefill: row {name!r} is fed 0 tokens", "feed at least 1, or leave the row out")
    if bad:
        raise ImpossibleError
    group = desk.kept.pop(event.as_, None)
    if group is None:
        group = desk.new_group(len(rows))
        desk.emit(st.Open(event=desk.event, session=event.as_, group=group))
    elif desk.groups[group].rows != len(rows):
        desk.refuse(
            ("rows",),
            f"prefill: {len(rows)} rows into buffers kept for {desk.groups[group].rows}",
            "prefill as many rows as were dropped, or drop without `keep`",
        )
    session = SessionPlan(
        name=event.as_, group=group, lineage=desk.lineage(("open", group)), rows=rows, salt=event.salt
    )
    desk.sessions[event.as_] = session
    if len(rows) > 1:
        desk.needs.add(Capability.BATCH)
    columns = _pad(desk, grid)
    width = len(next(iter(columns.values())))
    chunk = desk.chunk() or width
    for start in range(0, width, chunk):
        part = {name: cells[start : start + chunk] for name, cells in columns.items()}
        if start and chunk > 1:
            desk.needs.add(Capability.TOGETHER)
        _feed(desk, session, part, prefill=True)


def append(desk: Desk, event: ev.Append) -> None:
    """Feed tokens onto a filled cache, one forward each or together."""
    session = desk.live(event.on)
    names = desk.rows_of(session, event.rows, "rows")
    grid: dict[str, list[int]] = {}
    if event.ids is not None:
        desk.rows_of(session, list(event.ids), "ids")
        grid = {name: list(ids) for name, ids in event.ids.items() if event.rows is None or name in names}
    elif event.next is not None:
        for name in names:
            row = session.rows[name]
            count = desk.number(event.next, ("next",), row=row, length=len(row.text.tokens))
            grid[name] = _next(desk, row, count, ("next",))
    else:
        assert event.greedy is not None
        for name in names:
            row = session.rows[name]
            held = list(row.tokens)
            for _ in range(desk.number(event.greedy, ("greedy",), row=row, length=None)):
                held.append(desk.greedy(tuple(held)))
            grid[name] = held[row.length :]
    width = max((len(tokens) for tokens in grid.values()), default=0)
    if width == 0:
        desk.refuse((), "append: feeds no token", "feed at least 1")
    columns = {name: [*grid.get(name, ()), *[None] * (width - len(grid.get(name, ())))] for name in session.rows}
    if any(None in cells for cells in columns.values()):
        desk.needs.add(Capability.RAGGED)
    if event.together and width > 1:
        desk.needs.add(Capability.TOGETHER)
    step = width if event.together else 1
    for start in range(0, width, step):
        _feed(desk, session, {name: cells[start : start + step] for name, cells in columns.items()}, prefill=False)


def _feed(desk: Desk, session: SessionPlan, columns: Mapping[str, Sequence[int | None]], *, prefill: bool) -> None:
    desk.emit(fed(desk, session, columns, prefill=prefill))
    session.opened_by = None


def fed(desk: Desk, session: SessionPlan, columns: Mapping[str, Sequence[int | None]], *, prefill: bool) -> st.Feed:
    """Let every row take its columns (None is a masked slot) and return the forward that feeds them."""
    tokens, positions, nodes, indices = [], [], [], []
    for name, row in session.rows.items():
        cells = columns[name]
        first = row.length
        positions.append(tuple(row.take(token, desk.rules) for token in cells))
        tokens.append(tuple(0 if token is None else token for token in cells))
        made = iter(row.nodes[first:])
        nodes.append(tuple(-1 if token is None else next(made) for token in cells))
        count = iter(range(first, row.length))
        indices.append(tuple(-1 if token is None else next(count) for token in cells))
    mask = tuple(tuple(node >= 0 for node in row) for row in nodes)
    session.lineage = desk.lineage((session.lineage, "feed", tuple(tokens), mask, tuple(positions)))
    group = desk.groups[session.group]
    group.capacity = max(group.capacity, session.width)
    desk.within_capacity(session)
    return st.Feed(
        event=desk.event,
        session=session.name,
        prefill=prefill,
        rows=tuple(session.rows),
        tokens=tuple(tokens),
        positions=tuple(positions),
        nodes=tuple(nodes),
        indices=tuple(indices),
        lineage=session.lineage,
        after=session.state(desk.rules),
    )


def _pad(desk: Desk, grid: Mapping[str, list[int]]) -> dict[str, list[int | None]]:
    padding = desk.padding()
    width = max(len(tokens) for tokens in grid.values())
    if padding == "holes":
        width += 2  # so that the longest row has holes too
        desk.needs.add(Capability.HOLES)
    columns: dict[str, list[int | None]] = {}
    for name, tokens in grid.items():
        spare = width - len(tokens)
        if spare:
            desk.needs.add(Capability.PADDING)
        match padding:
            case "left":
                columns[name] = [*[None] * spare, *tokens]
            case "right":
                columns[name] = [*tokens, *[None] * spare]
            case _:
                columns[name] = _with_holes(tokens, spare)
    return columns


def _next(desk: Desk, row: Row, count: int, key: tuple[str | int, ...]) -> list[int]:
    own = row.text.tokens
    left = len(own) - row.taken
    if count > left and row.exact:
        desk.refuse(
            key,
            f"{desk.word}: row {row.name!r} has {left} tokens left of its {len(own)}, cannot feed {count}",
            f"feed at most {left}, or give the row more tokens",
        )
    taken = [own[(row.taken + step) % len(own)] for step in range(count)]
    row.due = count
    return taken


def _with_holes(tokens: Sequence[int], spare: int) -> list[int | None]:
    """Spread masked slots between the tokens, so that every one but the shortest row's lies inside."""
    after = [step * max(len(tokens) - 1, 1) // spare for step in range(spare)]
    cells: list[int | None] = []
    for index, token in enumerate(tokens):
        cells += [token, *[None] * after.count(index)]
    return cells
