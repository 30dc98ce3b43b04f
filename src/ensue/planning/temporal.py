"""What the order of time makes unnecessary: inputs that need not be stored, and inputs that need not be looked at.

Bry and Eckert, "Temporal Order Optimizations of Incremental Joins", section 5. A join keeps an input only if the
other side can
still bring something later that joins with it. Each variable whose event can be the newest of a partial match has a
program:
the steps that its event triggers. What no program ever reads is streamed past (their streaming join). And an event that
some other event had to precede is passed over while no such event is there (their suppressing join).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ensue.pattern.normalize import Branch, Variable
from ensue.planning.plan import Join, Leaf, Tree, variables_of


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a search: a row of a leaf's store (one variable), a list from it, or a stored partial match."""

    variables: tuple[str, ...]
    is_list: bool = False

    @property
    def is_node(self) -> bool:
        """Whether it reads stored partial matches."""
        return len(self.variables) > 1


@dataclass(frozen=True, slots=True)
class Program:
    """What an event of `trigger`, being the newest, sets off.

    After the step with number `after` (0: the trigger itself) the partial match of the node is stored. `completes`:
    the steps bind the whole branch. `empty` are the optional variables that would have to come later.
    """

    trigger: str
    steps: tuple[Step, ...]
    stores: tuple[tuple[int, frozenset[str]], ...]
    completes: bool
    empty: frozenset[str]


@dataclass(frozen=True, slots=True)
class Storage:
    """What a branch's plan keeps: programs, stored leaves and nodes, and what makes a variable's events useless.

    `needs[v]` are the stores (each named by its variables) of which none may be empty when an event of v comes.
    """

    programs: tuple[Program, ...]
    leaves: frozenset[str]
    nodes: frozenset[frozenset[str]]
    needs: dict[str, tuple[frozenset[str], ...]]


def derive_storage(branch: Branch, tree: Tree) -> Storage:
    """The programs of a branch's tree, and what they read."""
    nodes = frozenset(_storable(branch, tree))
    while True:
        programs = [p for v in branch.variables if (p := _program(branch, tree, v, nodes)) is not None]
        read = frozenset(frozenset(s.variables) for p in programs for s in p.steps if s.is_node)
        if read == nodes:
            break
        nodes = read
    leaves = {v for p in programs for s in p.steps if not s.is_node for v in s.variables}
    if any(branch.may_wait(n) for n in branch.negations):  # lists of waiting matches point into the leaf
        leaves |= {v.name for v in branch.variables if v.kleene}
    needs = {v.name: _needs(branch, branch.predecessors(v.name), leaves, nodes) for v in branch.variables}
    needs |= {n.name: _needs(branch, n.after, leaves, nodes) for n in branch.negations}
    return Storage(tuple(programs), frozenset(leaves), nodes, needs)


def _storable(branch: Branch, tree: Tree) -> list[frozenset[str]]:
    """The nodes below the root that are to be stored; a node with a Kleene variable is always found again."""
    found: list[frozenset[str]] = []

    def visit(node: Tree, is_root: bool) -> None:
        if isinstance(node, Join):
            names = variables_of(node)
            if node.stored and not is_root and not any(branch.variable(n).kleene for n in names):
                found.append(frozenset(names))
            visit(node.left, False)
            visit(node.right, False)

    visit(tree, True)
    return found


def _program(branch: Branch, tree: Tree, trigger: Variable, nodes: frozenset[frozenset[str]]) -> Program | None:
    """The steps from a leaf to the root; None if they would come to nothing."""
    later = branch.successors(trigger.name)
    required = {v.name for v in branch.variables if v.minimum > 0}
    steps: list[Step] = []
    lists: list[Step] = [Step((trigger.name,), True)] if trigger.kleene else []
    stores: list[tuple[int, frozenset[str]]] = []
    completes = True
    for node, sibling in reversed(_path(tree, trigger.name)):
        if later & required & set(variables_of(sibling)):
            completes = False  # the sibling's event comes later, and will look for this one
            break
        for step in _expand(branch, sibling, nodes):
            if step.is_list and step.variables[0] in later:
                continue
            (lists if step.is_list else steps).append(step)
        names = frozenset(variables_of(node))
        if names in nodes:
            stores.append((len(steps), names))
    program = Program(trigger.name, (*steps, *lists), tuple(stores), completes, frozenset(later & set(branch.names)))
    if completes:
        return program
    if not stores:
        return None
    return replace(program, steps=tuple(steps[: stores[-1][0]]))


def _path(tree: Tree, name: str) -> list[tuple[Join, Tree]]:
    """The joins from the root down to a variable's leaf, each with the side that the variable is not on."""
    if isinstance(tree, Leaf):
        return []
    if name in variables_of(tree.left):
        return [(tree, tree.right), *_path(tree.left, name)]
    return [(tree, tree.left), *_path(tree.right, name)]


def _expand(branch: Branch, tree: Tree, nodes: frozenset[frozenset[str]]) -> list[Step]:
    """The steps that bind a subtree: its stored partial matches, or its parts one by one."""
    if isinstance(tree, Leaf):
        return [Step((tree.variable,), branch.variable(tree.variable).kleene)]
    if frozenset(variables_of(tree)) in nodes:
        return [Step(variables_of(tree))]
    return [*_expand(branch, tree.left, nodes), *_expand(branch, tree.right, nodes)]


def _needs(
    branch: Branch, earlier: frozenset[str], leaves: set[str], nodes: frozenset[frozenset[str]]
) -> tuple[frozenset[str], ...]:
    required = {name for name in earlier if branch.variable(name).minimum > 0}
    needed = [frozenset((name,)) for name in branch.names if name in required and name in leaves]
    needed += sorted((node for node in nodes if node <= required), key=sorted)
    return tuple(needed)
