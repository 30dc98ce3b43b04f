"""From words of the output block to a block of matches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ensue.pattern.normalize import Variable
from ensue.pattern.query import Query
from ensue.runtime.assembly import Assembly
from ensue.runtime.blocks import Bound, EventLists, MatchBlock
from ensue.runtime.pool import Pool

Int64s = npt.NDArray[np.int64]


AT_ONCE = 1 << 18
"""Words of output that are joined to one block; more stay in several, since copying them costs more than it saves."""

_NO_TIMES = np.empty(0, dtype=np.int64)


def decode(parts: Sequence[Int64s], query: Query, name: str, assembly: Assembly, pool: Pool) -> list[MatchBlock]:
    """The matches that parts of output blocks hold (see `written`), by sequence numbers of events; at least one."""
    if len(parts) != 1 and sum(part.size for part in parts) <= AT_ONCE:
        nothing = written(_NO_TIMES, 0, 0, assembly)
        parts = [np.concatenate([*parts, nothing], axis=-1)]
    if assembly.has_lists:
        return [_decode_lists(part, query, name, assembly.variables, pool) for part in parts]
    blocks = []
    for table in parts:
        bound: dict[str, Bound] = {v.name: table[assembly.head + k] for k, v in enumerate(assembly.variables)}
        if assembly.head:
            blocks.append(MatchBlock(query, name, table[1], table[2], table[3], bound))
        else:
            blocks.append(MatchBlock(query, name, _NO_TIMES, _NO_TIMES, _NO_TIMES, bound, is_timed=False))
    return blocks


def written(out: Int64s, used: int, stride: int, assembly: Assembly) -> Int64s:
    """What a kernel has written to an output block: records with lists as words, else a table, a row a variable."""
    if assembly.has_lists:
        return out[:used]
    width = assembly.head + len(assembly.variables)
    if assembly.head:
        return out[:used].reshape(-1, width).T
    return out[: width * stride].reshape(width, stride)[:, : used // width]


def _decode_lists(words: Int64s, query: Query, name: str, variables: Sequence[Variable], pool: Pool) -> MatchBlock:
    from ensue.runtime.kernels.decode import measure, take_apart

    is_list = np.array([v.kleene for v in variables])
    records, totals = measure(words, is_list)
    firsts = np.concatenate([[0], np.cumsum(totals)[:-1]]).astype(np.int64)
    number, elements_at = len(variables), (4 + 2 * len(variables)) * records + len(variables)
    room = pool.take_at_least(elements_at + int(totals.sum()))
    heads = room[: 4 * records].reshape(records, 4)
    singles = room[4 * records : (4 + number) * records].reshape(number, records)
    offsets = room[(4 + number) * records : elements_at].reshape(number, records + 1)
    offsets[:, 0] = 0
    elements = room[elements_at:]
    take_apart(words, is_list, heads, singles, offsets, elements, firsts)
    bound: dict[str, Bound] = {}
    for k, variable in enumerate(variables):
        if variable.kleene:
            null = singles[k] < 0
            seqs = elements[firsts[k] : firsts[k] + totals[k]]
            bound[variable.name] = EventLists(offsets[k], seqs, null if null.any() else None)
        else:
            bound[variable.name] = singles[k]
    return MatchBlock(query, name, heads[:, 1], heads[:, 2], heads[:, 3], bound)
