"""A plan: for each branch of a query a tree of joins over its variables. Plans change the cost, never the answer."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import combinations, permutations
from typing import Any, TypeAlias

from ensue.errors import PlanError, StateError
from ensue.pattern.normalize import Branch


@dataclass(frozen=True, slots=True)
class Leaf:
    """The events of one variable."""

    variable: str


@dataclass(frozen=True, slots=True)
class Join:
    """Both sides joined. `stored`: its partial matches are kept; else they are found again from below when needed."""

    left: Tree
    right: Tree
    stored: bool = False
    variables: tuple[str, ...] = field(init=False, compare=False, repr=False)  # below it, left to right

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", (*variables_of(self.left), *variables_of(self.right)))


Tree: TypeAlias = Leaf | Join


@dataclass(frozen=True, slots=True)
class Plan:
    """A tree for each branch, in the order of the normal form. `index`: equality conditions are served by an index."""

    trees: tuple[Tree, ...]
    index: bool = True

    def __str__(self) -> str:
        """The trees in one line, `*` after a join whose partial matches are kept.

        >>> print(Plan((Join(Join(Leaf("a"), Leaf("b"), stored=True), Leaf("c")),)))
        ((a ⋈ b)* ⋈ c)
        """
        return " | ".join(_format_tree(tree, True) for tree in self.trees)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def with_tree(self, k: int, tree: Tree) -> Plan:
        """The same with another tree for the branch of that number."""
        return replace(self, trees=(*self.trees[:k], tree, *self.trees[k + 1 :]))


def _format_tree(tree: Tree, is_root: bool) -> str:
    if isinstance(tree, Leaf):
        return tree.variable
    star = "*" if tree.stored and not is_root else ""  # what the root finds is the result, which is not kept
    return f"({_format_tree(tree.left, False)} ⋈ {_format_tree(tree.right, False)}){star}"


def without(tree: Tree, names: Container[str]) -> Tree | None:
    """A tree without some of its variables; None if these are all.

    >>> print(Plan((without(left_deep("abcd"), "bd"),)))
    (a ⋈ c)
    """
    if isinstance(tree, Leaf):
        return None if tree.variable in names else tree
    left, right = without(tree.left, names), without(tree.right, names)
    if left is None or right is None:
        return left or right
    return tree if (left, right) == (tree.left, tree.right) else Join(left, right, tree.stored)


def dump_tree(tree: Tree) -> Any:
    """A tree as nested lists: its sides and whether it is stored; a leaf is its name.

    >>> dump_tree(Join(Join(Leaf("a"), Leaf("b"), stored=True), Leaf("c")))
    [['a', 'b', True], 'c', False]
    """
    return tree.variable if isinstance(tree, Leaf) else [dump_tree(tree.left), dump_tree(tree.right), tree.stored]


def load_tree(data: Any) -> Tree:
    """What `dump_tree` gave."""
    match data:
        case str():
            return Leaf(data)
        case [left, right, bool() as stored]:
            return Join(load_tree(left), load_tree(right), stored)
    raise StateError(f"{data!r} is no tree of joins: expected a name, or two trees and whether it is stored")


def dump_plan(plan: Plan) -> dict[str, Any]:
    """A plan as JSON-able values, for `load_plan`."""
    return {"trees": [dump_tree(tree) for tree in plan.trees], "index": plan.index}


def load_plan(data: Mapping[str, Any]) -> Plan:
    """The plan that `dump_plan` was given."""
    return Plan(tuple(load_tree(tree) for tree in data["trees"]), bool(data["index"]))


def variables_of(tree: Tree) -> tuple[str, ...]:
    """The variables below a node, left to right."""
    return (tree.variable,) if isinstance(tree, Leaf) else tree.variables


def left_deep(order: Sequence[str], *, stored: bool = False) -> Tree:
    """The tree of an order: its first two joined, then the third, and so on.

    >>> left_deep(["a", "b"])
    Join(left=Leaf(variable='a'), right=Leaf(variable='b'), stored=False)
    """
    tree: Tree = Leaf(order[0])
    for name in order[1:]:
        tree = Join(tree, Leaf(name), stored)
    return tree


def every_order(names: Sequence[str], *, stored: bool = False) -> Iterator[Tree]:
    """All left-deep trees over the variables."""
    for order in permutations(names):
        yield left_deep(order, stored=stored)


def every_tree(names: Sequence[str], *, stored: bool = False) -> Iterator[Tree]:
    """All binary trees over the variables, mirror images left out."""
    if len(names) == 1:
        yield Leaf(names[0])
        return
    first, rest = names[0], names[1:]
    for size in range(len(rest)):
        for others in combinations(rest, size):
            left = (first, *others)
            right = tuple(name for name in rest if name not in others)
            for a in every_tree(left, stored=stored):
                for b in every_tree(right, stored=stored):
                    yield Join(a, b, stored)


def check_plan(plan: Plan, branches: Sequence[Branch]) -> None:
    """Refuse a plan that does not fit the branches of a query."""
    if len(plan.trees) != len(branches):
        raise PlanError(f"the plan has {len(plan.trees)} trees, but the pattern has {len(branches)} branches")
    for tree, branch in zip(plan.trees, branches, strict=True):
        if sorted(variables_of(tree)) != sorted(branch.names):
            raise PlanError(
                f"the plan joins {', '.join(variables_of(tree))}, but the branch has {', '.join(branch.names)}"
            )
