"""Counters of sub-patterns as the array of numbers that kernels read (`kernels.sub_patterns_layout`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ensue.events.batch import Int64s
from ensue.planning.aggregates import Kind
from ensue.planning.sub_patterns import Chain, Since, Step, SubPatterns
from ensue.runtime.kernels import sub_patterns_layout as lay


def told_nodes(patterns: SubPatterns) -> tuple[tuple[int, ...], ...]:
    """For each leaf the counters that rows of queries that end with it tell, each of them once."""
    told: list[dict[int, None]] = [{} for _ in patterns.leaves]
    for chain in patterns.chains:
        told[chain.leaves[-1]].update(dict.fromkeys(chain.outputs))
    return tuple(map(tuple, told))


def write_program(patterns: SubPatterns) -> Int64s:
    """The counters as numbers."""
    leaves = range(len(patterns.leaves))
    groups = (patterns.arrivals, patterns.expiries, *(since.undo for since in patterns.sinces))
    ranks = sorted({s.rank for group in groups for own in group for s in own})
    weights = max(map(len, patterns.weights))
    is_linked = bool(patterns.sinces) and patterns.key > 0
    words: list[int] = [0] * lay.P_TABLES
    words[lay.P_LEAVES], words[lay.P_NODES] = len(patterns.leaves), patterns.nodes
    words[lay.P_LONGEST], words[lay.P_PHASES] = max(len(chain.leaves) for chain in patterns.chains), len(ranks)
    words[lay.P_KEY], words[lay.P_WEIGHTS], words[lay.P_TOTALS] = patterns.key, weights, int(patterns.totals)
    words[lay.P_WINDOW] = -1 if patterns.window is None else patterns.window
    words[lay.P_ENTRY_WIDTH] = lay.E_WEIGHTS + weights + is_linked
    words[lay.P_LINK] = lay.E_WEIGHTS + weights if is_linked else 0
    words[lay.P_ARRIVALS] = _write_steps(words, patterns.arrivals, ranks[::-1])
    words[lay.P_EXPIRIES] = _write_steps(words, patterns.expiries, ranks)
    ends = [[k for k, chain in enumerate(patterns.chains) if chain.leaves[-1] == leaf] for leaf in leaves]
    words[lay.P_TRIGGERS] = _write_lists(words, ends)
    words[lay.P_TOLD] = _write_lists(words, told_nodes(patterns))
    gaps = {since.gap: _write_gap(words, since, ranks) for since in patterns.sinces}
    if gaps:
        words[lay.P_GAPS] = _write_lists(words, [[at for gap, at in gaps.items() if leaf in gap] for leaf in leaves])
    items = {leaf for chain in patterns.chains for leaf in chain.leaves}
    words[lay.P_ONLY_ABSENT] = len(words)
    words += [int(leaf not in items) for leaf in leaves]
    places = _write_lists(words, [[*chain.outputs, *chain.singles, *chain.leaves] for chain in patterns.chains])
    members = [_member(chain, words[places + k]) for k, chain in enumerate(patterns.chains)]
    for chain, member in zip(patterns.chains, members, strict=True):
        place = next((k for k, gap in enumerate(chain.gaps) if gap in gaps), 0)
        member[lay.M_GAP], member[lay.M_GAP_PLACE] = gaps.get(chain.gaps[place], 0), place
    words[lay.P_MEMBERS], words[lay.P_QUERIES] = len(words), len(members)
    words[lay.P_WIDE_SAFE] = min(member[lay.M_WIDE_SAFE] for member in members)
    return np.array(words + [word for member in members for word in member], dtype=np.int64)


def _member(chain: Chain, at: int) -> list[int]:
    """A query."""
    length = len(chain.leaves)
    record = [0] * lay.MEMBER
    record[lay.M_LENGTH], record[lay.M_OUTPUTS], record[lay.M_AT] = length, len(chain.outputs), at
    # so many events give no more than 2 ** 126 matches: at most the mean number of each item, put together
    record[lay.M_WIDE_SAFE] = int(min(length * 2.0 ** (126 / length), 2.0**61)) - 1
    record[lay.M_WEIGHTED] = int(any(c.kind is Kind.SUM for c in chain.counters.components))
    return record


def _write_gap(words: list[int], since: Since, ranks: Sequence[int]) -> int:
    """Put what is known of a gap behind; where it is."""
    place = len(words)
    record = [0] * lay.GAP
    words += record
    record[lay.G_LIVE] = since.live
    record[lay.G_ABSENT] = len(words)
    words += [int(leaf in since.gap) for leaf in range(len(since.undo))]
    record[lay.G_OPEN], record[lay.G_OPEN_END] = len(words), len(words) + len(since.cleared)
    words += since.cleared
    record[lay.G_NODES], record[lay.G_NODES_END] = len(words), len(words) + len(since.nodes)
    words += since.nodes
    record[lay.G_UNDO] = _write_steps(words, since.undo, ranks)
    words[place : place + lay.GAP] = record
    return place


def _write_lists(words: list[int], lists: Sequence[Sequence[int]]) -> int:
    """Put lists of numbers behind; where each begins, and the last one ends, comes first."""
    place = len(words)
    start = place + len(lists) + 1
    for one in lists:
        words.append(start)
        start += len(one)
    words.append(start)
    for one in lists:
        words += one
    return place


def _write_steps(words: list[int], steps: Sequence[Sequence[Step]], ranks: Sequence[int]) -> int:
    """Put the steps of all leaves behind; where the steps of each phase, that is rank, begin comes first."""
    place = len(words)
    phase_of = {rank: phase for phase, rank in enumerate(ranks)}
    start = place + len(steps) * (len(ranks) + 1)
    for own in steps:
        for phase in range(len(ranks) + 1):
            words.append(start + lay.STEP * sum(phase_of[s.rank] < phase for s in own))
        start += lay.STEP * len(own)
    for own in steps:
        for s in own:
            words += [s.target, s.source, s.weight, int(s.is_output)]
    return place
