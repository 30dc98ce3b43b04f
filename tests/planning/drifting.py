"""Random shapes and figures, and figures that drift."""

from __future__ import annotations

import random
from itertools import combinations

from ensue.pattern.normalize import Variable
from ensue.planning.figures import (
    LOOK,
    Figures,
    Gap,
    Shape,
    implied_name,
    joint_name,
    rate_name,
    selectivity_name,
    together_name,
)

COARSE = (0.25, 0.5, 1.0)
"""Selectivities whose products are exact, so that equal costs are equal numbers: ties come up all the time."""


def conjunction(names: str) -> Shape:
    return Shape(tuple(Variable(name, name.upper()) for name in names))


def sequence(names: str) -> Shape:
    pairs = frozenset((x, y) for k, x in enumerate(names) for y in names[k + 1 :])
    return Shape(conjunction(names).variables, pairs)


def random_before(rng: random.Random, names: list[str]) -> set[tuple[str, str]]:
    """An order as nested SEQ and AND make it."""
    if len(names) < 2:
        return set()
    cut = rng.randrange(1, len(names))
    left, right = names[:cut], names[cut:]
    pairs = random_before(rng, left) | random_before(rng, right)
    return pairs | {(x, y) for x in left for y in right} if rng.random() < 0.6 else pairs


def random_shape(rng: random.Random, most: int, *, least: int = 2, lists: float = 0.15) -> Shape:
    names = list("abcdefgh"[: rng.randint(least, most)])
    variables = []
    for name in names:
        if rng.random() < lists:
            least = rng.randint(0, 2)
            variables.append(Variable(name, name.upper(), True, least, rng.choice([None, least + 2])))
        else:
            variables.append(Variable(name, rng.choice([name.upper()] * 4 + ["Z"])))
    singles = [v.name for v in variables if not v.kleene]
    triples = [tuple(rng.sample(singles, 3)) for _ in range(rng.randint(0, 3)) if len(singles) > 2]
    before = frozenset(random_before(rng, names))
    negations = ("n",) * rng.randint(0, 1)
    chain = rng.sample(singles, rng.randint(0, len(singles)))  # each is compared with the next
    implied = tuple(
        ((chain[i], chain[j]), frozenset(chain[i + 1 : j])) for j in range(len(chain)) for i in range(j - 1)
    )
    ordered = sorted((x, y) for x, y in before if {x, y} <= set(singles)) if negations else []
    gaps = tuple(Gap("n", "N", *pair, frozenset(pair)) for pair in rng.sample(ordered, min(1, len(ordered))))
    keyed = frozenset(frozenset(rng.sample(singles, 2)) for _ in range(rng.randint(0, 2)) if len(singles) > 1)
    beside = {"triples": tuple(triples), "implied": implied, "keyed": keyed, "gaps": gaps}
    return Shape(tuple(variables), before, negations, **beside)  # type: ignore[arg-type]


def random_figures(rng: random.Random, shape: Shape, *, coarse: bool = False) -> Figures:
    def selectivity() -> float:
        return rng.choice(COARSE) if coarse else rng.random()

    values = {
        rate_name(v.type): float(rng.choice([0.5, 1, 2, 4])) if coarse else rng.lognormvariate(0, 1)
        for v in shape.variables
    }
    values |= {rate_name(gap.type): 2.0 if coarse else rng.lognormvariate(0, 1) for gap in shape.gaps}
    names = shape.names
    values |= {selectivity_name(name): selectivity() for name in names if rng.random() < 0.5}
    values |= {selectivity_name(x, y): selectivity() for x in names for y in names if x < y and rng.random() < 0.5}
    joint = (lambda: rng.choice([0.5, 2.0])) if coarse else (lambda: rng.lognormvariate(0, 1))
    values |= {joint_name(*triple): joint() for triple in shape.triples}
    values |= {implied_name(*pair): selectivity() for pair, _ in shape.implied}
    sets = [some for size in range(3, len(shape.singles)) for some in combinations(shape.singles, size)]
    values |= {together_name(frozenset(some)): joint() for some in sets if rng.random() < 0.3}
    look = {LOOK: rng.choice([0.0, 0.25] if coarse else [0.0, 0.03, 1.0])}
    variances = {name: (rng.uniform(0, 0.5) * value) ** 2 for name, value in values.items()}
    return Figures(shape, 2.0 if coarse else rng.choice([0.5, 2.0, 5.0]), values | look, variances)


def drifted(rng: random.Random, figures: Figures, *, coarse: bool = False) -> Figures:
    """Some statistics moved: a little, a lot, or for coarse ones by a factor of two."""
    spread = rng.choice([0.05, 0.3, 1.0])
    for name, value in figures.values.items():
        if name != LOOK and rng.random() < 0.4:
            factor = rng.choice([0.5, 2.0]) if coarse else rng.lognormvariate(0, spread)
            figures = figures.moved(name, value * factor)
    return figures
