"""Two observations have the same history exactly when they carry the same node."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evseq.history import MASKED, ROOT, Path, Tree

SLOTS = st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3)), max_size=6)


def grown(tree: Tree, slots: list[tuple[int, int]]) -> int:
    node = ROOT
    for token, position in slots:
        node = tree.extend(node, token, position)
    return node


class TestTree:
    def test_the_empty_history_is_the_root(self) -> None:
        tree = Tree()
        assert (tree.ancestry(ROOT), tree.path(ROOT), tree.depths[ROOT]) == ([], Path(tokens=(), positions=()), 0)

    def test_a_slot_is_made_once(self) -> None:
        tree = Tree()
        first = tree.extend(ROOT, 7, 0)
        assert tree.extend(ROOT, 7, 0) == first
        assert len(tree.parents) == 2

    def test_another_token_position_or_parent_is_another_history(self) -> None:
        tree = Tree()
        first = tree.extend(ROOT, 7, 0)
        others = [tree.extend(ROOT, 8, 0), tree.extend(ROOT, 7, 1), tree.extend(first, 7, 0)]
        assert len({ROOT, first, *others}) == 5

    def test_a_masked_slot_is_a_slot(self) -> None:
        tree = Tree()
        gapped = grown(tree, [(7, 0), (MASKED, 0), (8, 1)])
        assert gapped != grown(tree, [(7, 0), (8, 1)])
        assert tree.path(gapped) == Path(tokens=(7, MASKED, 8), positions=(0, 0, 1))

    def test_slot_i_of_a_path_is_element_i_of_its_ancestry(self) -> None:
        tree = Tree()
        node = grown(tree, [(5, 0), (6, 1), (7, 2)])
        assert [tree.tokens[above] for above in tree.ancestry(node)] == [5, 6, 7]
        assert [tree.depths[above] for above in tree.ancestry(node)] == [1, 2, 3]

    @given(st.lists(SLOTS, max_size=8))
    def test_nodes_are_equal_exactly_where_paths_are(self, histories: list[list[tuple[int, int]]]) -> None:
        tree = Tree()
        nodes = [grown(tree, slots) for slots in histories]
        paths = [tuple(slots) for slots in histories]
        assert [[a == b for b in nodes] for a in nodes] == [[a == b for b in paths] for a in paths]
        assert [tuple(zip(p.tokens, p.positions, strict=True)) for p in map(tree.path, nodes)] == paths


class TestLeaves:
    def test_a_continued_history_is_no_leaf(self) -> None:
        tree = Tree()
        stem = grown(tree, [(1, 0), (2, 1)])
        left, right = tree.extend(stem, 3, 2), tree.extend(stem, 4, 2)
        assert tree.leaves([stem, left, right]) == (left, right)

    def test_only_what_is_asked_about_continues_a_history(self) -> None:
        tree = Tree()
        stem = grown(tree, [(1, 0), (2, 1)])
        tree.extend(stem, 3, 2)
        assert tree.leaves([stem]) == (stem,)

    def test_they_come_in_the_order_they_were_made(self) -> None:
        tree = Tree()
        made = [tree.extend(ROOT, token, 0) for token in (9, 4, 6)]
        assert tree.leaves(reversed(made)) == tuple(made)

    def test_a_history_named_twice_is_one_leaf(self) -> None:
        tree = Tree()
        node = grown(tree, [(1, 0)])
        assert tree.leaves([node, node]) == (node,)

    @given(st.lists(SLOTS.filter(bool), min_size=1, max_size=8))
    def test_every_history_asked_about_lies_on_a_leaf(self, histories: list[list[tuple[int, int]]]) -> None:
        tree = Tree()
        nodes = [grown(tree, slots) for slots in histories]
        leaves = tree.leaves(nodes)
        covered = {above for leaf in leaves for above in tree.ancestry(leaf)}
        assert set(nodes) <= covered
        assert not any(leaf in tree.ancestry(other) for leaf in leaves for other in leaves if leaf != other)


def test_a_path_is_as_long_as_its_slots() -> None:
    assert len(Path(tokens=(1, MASKED, 2), positions=(0, 0, 1))) == 3
