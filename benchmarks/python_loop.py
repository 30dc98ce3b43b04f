"""The queries as pure Python: a buffer per type, a search when the last type arrives, nested loops and closures.

This is what one writes without an engine, with care: each search starts from the event that completes the match, binds
the most selective variable first, and leaves a loop at the first event that is out of order. An event is the tuple
`(ts, sequence number, diff, key)`. Times are taken to differ, as they do in the streams of this benchmark.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from workloads import BLOCK, Columns, Workload

Event = tuple[int, int, float, int]
Buffer = deque[Event]
Step = Callable[[Event], object]
Emit = Callable[[tuple[Any, ...]], object]


def count_matches(workload: Workload, columns: Columns) -> int:
    """Run the workload's loop over a stretch of its stream; the number of matches, each built as a tuple."""
    found: list[tuple[Any, ...]] = []
    by_name = LOOPS[workload.kind](workload.window, found.append)
    steps = [by_name.get(name) for name in workload.names]
    total = 0
    number = count()
    for start in range(0, len(columns), BLOCK):
        part = slice(start, start + BLOCK)
        rows = zip(
            columns.ts[part].tolist(), number, columns.diff[part].tolist(), columns.key[part].tolist(), strict=False
        )
        for kind, event in zip(columns.type[part].tolist(), rows, strict=False):
            step = steps[kind]
            if step is not None:
                step(event)
        total += len(found)
        found.clear()
    return total


def rising(x: Event, y: Event) -> bool:
    return x[2] < y[2]


def same_key(x: Event, y: Event) -> bool:
    return x[3] == y[3]


def expire(horizon: int, *buffers: Buffer) -> None:
    """Drop the events whose time is `horizon` or before: they are a whole window older than the newest."""
    for buffer in buffers:
        while buffer and buffer[0][0] <= horizon:
            buffer.popleft()


def kernel(window: int, emit: Emit) -> Mapping[str, Step]:
    """SEQ(A a, B b, C c, D d): the key finds the few `a`, then `b` and `c` follow."""
    a_s: Buffer = deque()
    b_s: Buffer = deque()
    c_s: Buffer = deque()

    def search(d: Event) -> None:
        expire(d[0] - window, a_s, b_s, c_s)
        for a in a_s:
            if same_key(a, d):
                for b in reversed(b_s):
                    if b[0] <= a[0]:
                        break
                    if rising(a, b):
                        for c in reversed(c_s):
                            if c[0] <= b[0]:
                                break
                            if rising(b, c):
                                emit((a[1], b[1], c[1], d[1]))

    return {"A": a_s.append, "B": b_s.append, "C": c_s.append, "D": search}


def seq3(window: int, emit: Emit) -> Mapping[str, Step]:
    """SEQ(A a, B b, C c), backwards from `c`."""
    a_s: Buffer = deque()
    b_s: Buffer = deque()

    def search(c: Event) -> None:
        expire(c[0] - window, a_s, b_s)
        for b in b_s:
            if rising(b, c):
                for a in a_s:
                    if a[0] >= b[0]:
                        break
                    if rising(a, b):
                        emit((a[1], b[1], c[1]))

    return {"A": a_s.append, "B": b_s.append, "C": search}


def and3(window: int, emit: Emit) -> Mapping[str, Step]:
    """AND(A a, B b, C c): each type may come last, and has its own order of search."""
    a_s: Buffer = deque()
    b_s: Buffer = deque()
    c_s: Buffer = deque()

    def search_from_a(a: Event) -> None:
        expire(a[0] - window, a_s, b_s, c_s)
        for b in b_s:
            if rising(a, b):
                for c in c_s:
                    if rising(b, c):
                        emit((a[1], b[1], c[1]))
        a_s.append(a)

    def search_from_b(b: Event) -> None:
        expire(b[0] - window, a_s, b_s, c_s)
        for a in a_s:
            if rising(a, b):
                for c in c_s:
                    if rising(b, c):
                        emit((a[1], b[1], c[1]))
        b_s.append(b)

    def search_from_c(c: Event) -> None:
        expire(c[0] - window, a_s, b_s, c_s)
        for b in b_s:
            if rising(b, c):
                for a in a_s:
                    if rising(a, b):
                        emit((a[1], b[1], c[1]))
        c_s.append(c)

    return {"A": search_from_a, "B": search_from_b, "C": search_from_c}


def negation(window: int, emit: Emit) -> Mapping[str, Step]:
    """SEQ(A a, !N n, B b, C c): as seq3, and no `n` of the key of `a` between `a` and `b`."""
    a_s: Buffer = deque()
    b_s: Buffer = deque()
    n_s: Buffer = deque()

    def absent(a: Event, b: Event) -> bool:
        for n in n_s:
            if n[0] >= b[0]:
                return True
            if n[0] > a[0] and same_key(n, a):
                return False
        return True

    def search(c: Event) -> None:
        expire(c[0] - window, a_s, b_s, n_s)
        for b in b_s:
            if rising(b, c):
                for a in a_s:
                    if a[0] >= b[0]:
                        break
                    if rising(a, b) and absent(a, b):
                        emit((a[1], b[1], c[1]))

    return {"A": a_s.append, "B": b_s.append, "C": search, "N": n_s.append}


def kleene(window: int, emit: Emit) -> Mapping[str, Step]:
    """SEQ(A a, B+ b[], C c): from each `a`, every list of rising `b` grows from its first element."""
    a_s: Buffer = deque()
    b_s: Buffer = deque()

    def search(c: Event) -> None:
        expire(c[0] - window, a_s, b_s)
        between = list(b_s)
        size = len(between)

        def grow(a: Event, last: int, chain: tuple[int, ...]) -> None:
            emit((a[1], chain, c[1]))
            for place in range(last + 1, size):
                if rising(between[last], between[place]):
                    grow(a, place, (*chain, between[place][1]))

        for a in a_s:
            for place, b in enumerate(between):
                if b[0] > a[0]:
                    grow(a, place, (b[1],))

    return {"A": a_s.append, "B": b_s.append, "C": search}


def seq5(window: int, emit: Emit) -> Mapping[str, Step]:
    """SEQ(A a, B b, C c, D d, E e), backwards from `e`."""
    a_s: Buffer = deque()
    b_s: Buffer = deque()
    c_s: Buffer = deque()
    d_s: Buffer = deque()

    def search(e: Event) -> None:
        expire(e[0] - window, a_s, b_s, c_s, d_s)
        for d in d_s:
            if rising(d, e):
                for c in c_s:
                    if c[0] >= d[0]:
                        break
                    if rising(c, d):
                        for b in b_s:
                            if b[0] >= c[0]:
                                break
                            if rising(b, c):
                                for a in a_s:
                                    if a[0] >= b[0]:
                                        break
                                    if rising(a, b):
                                        emit((a[1], b[1], c[1], d[1], e[1]))

    return {"A": a_s.append, "B": b_s.append, "C": c_s.append, "D": d_s.append, "E": search}


def keyed(window: int, emit: Emit) -> Mapping[str, Step]:
    """SEQ(A a, B b, C c) with one key: a dictionary from the key to its buffers."""
    a_by_key: defaultdict[int, Buffer] = defaultdict(deque)
    b_by_key: defaultdict[int, Buffer] = defaultdict(deque)

    def search(c: Event) -> None:
        a_s, b_s = a_by_key.get(c[3]), b_by_key.get(c[3])
        if a_s and b_s:
            expire(c[0] - window, a_s, b_s)
            for b in b_s:
                for a in a_s:
                    if a[0] >= b[0]:
                        break
                    emit((a[1], b[1], c[1]))

    def store_a(a: Event) -> None:
        a_by_key[a[3]].append(a)

    def store_b(b: Event) -> None:
        b_by_key[b[3]].append(b)

    return {"A": store_a, "B": store_b, "C": search}


LOOPS: Mapping[str, Callable[[int, Emit], Mapping[str, Step]]] = {
    "kernel": kernel,
    "seq3": seq3,
    "and3": and3,
    "negation": negation,
    "kleene": kleene,
    "seq5": seq5,
    "keyed": keyed,
}
