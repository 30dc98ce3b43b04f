"""Allen's thirteen relations between intervals, as comparisons of end points.

The comparisons decide, also for events that are points in time: two points at one moment are EQUALS, and MEETS too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Point: TypeAlias = tuple[Literal["i", "j"], Literal["begin", "end"]]

IB: Point = ("i", "begin")
IE: Point = ("i", "end")
JB: Point = ("j", "begin")
JE: Point = ("j", "end")


@dataclass(frozen=True, slots=True)
class Allen:
    """`i R j`: pairs of points of which the first is before the second, pairs that are equal, and what BY measures.

    A gap is a pair of points: BY compares the second less the first.
    """

    before: tuple[tuple[Point, Point], ...] = ()
    equal: tuple[tuple[Point, Point], ...] = ()
    gaps: tuple[tuple[Point, Point], ...] = ()


def _turn(point: Point) -> Point:
    return ("j" if point[0] == "i" else "i", point[1])


def _inverse(relation: Allen) -> Allen:
    parts = (
        tuple((_turn(a), _turn(b)) for a, b in pairs) for pairs in (relation.before, relation.equal, relation.gaps)
    )
    return Allen(*parts)


_BEFORE = Allen(before=((IE, JB),), gaps=((IE, JB),))
_MEETS = Allen(equal=((IE, JB),))
_OVERLAPS = Allen(before=((IB, JB), (JB, IE), (IE, JE)), gaps=((JB, IE),))
_STARTS = Allen(before=((IE, JE),), equal=((IB, JB),), gaps=((IE, JE),))
_DURING = Allen(before=((JB, IB), (IE, JE)), gaps=((JB, IB), (IE, JE)))
_FINISHES = Allen(before=((JB, IB),), equal=((IE, JE),), gaps=((JB, IB),))

RELATIONS: Mapping[str, Allen] = {
    "BEFORE": _BEFORE,
    "AFTER": _inverse(_BEFORE),
    "MEETS": _MEETS,
    "MET_BY": _inverse(_MEETS),
    "OVERLAPS": _OVERLAPS,
    "OVERLAPPED_BY": _inverse(_OVERLAPS),
    "STARTS": _STARTS,
    "STARTED_BY": _inverse(_STARTS),
    "DURING": _DURING,
    "CONTAINS": _inverse(_DURING),
    "FINISHES": _FINISHES,
    "FINISHED_BY": _inverse(_FINISHES),
    "EQUALS": Allen(equal=((IB, JB), (IE, JE))),
}
"""The relations by name. MEETS, MET_BY and EQUALS leave no gap that BY could measure."""
