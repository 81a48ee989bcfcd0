"""The tree of histories as a golden keeps it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evseq.golden.histories import Histories, arranged
from evseq.history import MASKED, ROOT, Path, Tree

PATHS = st.lists(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3)), min_size=1, max_size=5), min_size=1)
"""Histories as lists of (token, position)."""


def grown(paths: list[list[tuple[int, int]]]) -> tuple[Tree, list[int]]:
    """Return a tree of paths, and the node each ends in."""
    tree, ends = Tree(), []
    for path in paths:
        node = ROOT
        for token, position in path:
            node = tree.extend(node, token, position)
        ends.append(node)
    return tree, ends


def test_only_what_leads_to_an_observed_history_is_kept() -> None:
    tree, (kept, _) = grown([[(5, 0), (6, 1)], [(5, 0), (7, 1)]])

    histories, nodes = arranged(tree, [kept])

    assert histories == Histories(parents=(-1, 0), tokens=(5, 6), positions=(0, 1), observed=(1,))
    assert nodes == (kept,)


def test_siblings_stand_by_position_then_token() -> None:
    tree, ends = grown([[(9, 1)], [(8, 1)], [(7, 2)], [(7, 0)]])

    histories, nodes = arranged(tree, ends)

    assert histories.tokens == (7, 8, 9, 7)
    assert histories.positions == (0, 1, 1, 2)
    assert nodes == (ends[3], ends[1], ends[0], ends[2])


def test_a_masked_slot_that_shapes_a_history_belongs_to_it() -> None:
    tree, ends = grown([[(5, 0), (MASKED, 1), (6, 1)]])

    histories, _ = arranged(tree, ends)

    assert histories.paths() == (Path(tokens=(5, MASKED, 6), positions=(0, 1, 1)),)


def test_rows_are_found_in_a_tree_that_grew_in_another_order() -> None:
    tree, ends = grown([[(5, 0), (6, 1)], [(5, 0)]])
    histories, _ = arranged(tree, ends)

    other, others = grown([[(1, 0)], [(5, 0)], [(5, 0), (6, 1)], [(5, 0), (7, 1)]])

    assert histories.rows(other) == {others[1]: 0, others[2]: 1}


def test_the_same_token_at_another_position_is_another_history() -> None:
    tree, ends = grown([[(5, 0), (6, 1)]])
    histories, _ = arranged(tree, ends)

    other, _ = grown([[(5, 0), (6, 2)]])

    assert histories.rows(other) == {}


@given(PATHS)
def test_the_order_of_arms_changes_nothing(paths: list[list[tuple[int, int]]]) -> None:
    tree, ends = grown(paths)
    turned, turned_ends = grown(paths[::-1])

    assert arranged(tree, ends)[0] == arranged(turned, turned_ends)[0]


@given(PATHS)
def test_every_observed_history_finds_its_own_row(paths: list[list[tuple[int, int]]]) -> None:
    tree, ends = grown(paths)

    histories, nodes = arranged(tree, ends)

    assert histories.rows(tree) == {node: row for row, node in enumerate(nodes)}
    assert histories.paths() == tuple(tree.path(node) for node in nodes)
