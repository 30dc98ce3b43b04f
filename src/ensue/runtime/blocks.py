"""Matches as the evaluators hand them over: arrays of sequence numbers, a block a query; and their identities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ensue.events.batch import Int64s
from ensue.pattern.query import Query
from ensue.planning.relevance import needed_columns
from ensue.runtime.identity import EventHashes, Hashes, mix, mix_name, to_hex
from ensue.runtime.rows import RowView


@dataclass(frozen=True, slots=True, eq=False)
class EventLists:
    """A Kleene variable: the events of match i are `seqs[offsets[i]:offsets[i + 1]]`.

    `null` marks the matches of OR branches that do not have the variable (None: no match is of such a branch).
    """

    offsets: Int64s
    seqs: Int64s
    null: npt.NDArray[np.bool_] | None = None


Bound: TypeAlias = Int64s | EventLists | None
"""What a variable is bound to in each match: one event (-1: none), a list, or in no match anything (None)."""


@dataclass(frozen=True, slots=True, eq=False)
class MatchBlock:
    """Matches of one query. `detected` is -2^63 where it is not known; `variables` are all that are not negated.

    `is_timed` is False while the times, which the events tell, have not been looked up: see `timed`.
    """

    query: Query
    name: str
    begin: Int64s
    end: Int64s
    detected: Int64s
    variables: Mapping[str, Bound]
    is_timed: bool = True

    def __len__(self) -> int:
        if self.is_timed:
            return len(self.begin)
        return next(len(bound) for bound in self.variables.values() if isinstance(bound, np.ndarray))  # all are as long

    def timed(self, rows: RowView) -> MatchBlock:
        """The same with its times: begin and end are those of the events, and a match is known with its last event."""
        if self.is_timed:
            return self
        begin = np.full(len(self), np.iinfo(np.int64).max)
        end = np.full(len(self), np.iinfo(np.int64).min)
        events = distinct_events(self)
        _, event_begin, event_end = rows.take_timed(events)
        for bound in self.variables.values():
            if isinstance(bound, np.ndarray):
                here = np.flatnonzero(bound >= 0)
                places = np.searchsorted(events, bound[here])
                begin[here] = np.minimum(begin[here], event_begin[places])
                end[here] = np.maximum(end[here], event_end[places])
        return replace(self, begin=begin, end=end, detected=end, is_timed=True)


def distinct_events(block: MatchBlock) -> Int64s:
    """The sequence numbers of all events of a block, ascending, each once."""
    parts = [b.seqs if isinstance(b, EventLists) else b for b in block.variables.values() if b is not None]
    seqs = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    seqs = seqs[seqs >= 0]
    if not len(seqs):
        return seqs.astype(np.int64)
    low, high = int(seqs.min()), int(seqs.max())
    if high - low > 8 * len(seqs):
        return np.unique(seqs)
    seen = np.zeros(high - low + 1, dtype=np.bool_)  # where the numbers lie close, marking them beats sorting
    seen[seqs - low] = True
    return np.flatnonzero(seen) + low


def first_events(block: MatchBlock) -> Int64s:
    """For each match the least sequence number of its events."""
    least = np.full(len(block), np.iinfo(np.int64).max, dtype=np.int64)
    for bound in block.variables.values():
        if isinstance(bound, EventLists):
            bound = edge_events(bound, last=False)  # lists are in order
        if bound is not None:
            np.minimum(least, np.where(bound < 0, least, bound), out=least)
    return least


def last_events(block: MatchBlock) -> Int64s:
    """For each match the greatest sequence number of its events: of its last one, if they came in order."""
    most = np.full(len(block), -1, dtype=np.int64)
    for bound in block.variables.values():
        if isinstance(bound, EventLists):
            bound = edge_events(bound, last=True)
        if bound is not None:
            np.maximum(most, bound, out=most)
    return most


def select_matches(block: MatchBlock, keep: npt.NDArray[np.bool_]) -> MatchBlock:
    """The matches of a block that the mask keeps."""
    if keep.all():
        return block
    variables: dict[str, Bound] = {}
    for name, bound in block.variables.items():
        if isinstance(bound, EventLists):
            lengths = np.diff(bound.offsets)
            offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths[keep])])
            null = None if bound.null is None else bound.null[keep]
            variables[name] = EventLists(offsets, bound.seqs[np.repeat(keep, lengths)], null)
        else:
            variables[name] = None if bound is None else bound[keep]
    if not block.is_timed:
        return replace(block, variables=variables)
    times = {name: getattr(block, name)[keep] for name in ("begin", "end", "detected")}
    return replace(block, variables=variables, **times)


def one_of_each(block: MatchBlock) -> Int64s:
    """For each match the sequence number of some event of it."""
    chosen = np.full(len(block), -1, dtype=np.int64)
    for bound in block.variables.values():
        if isinstance(bound, EventLists):
            bound = edge_events(bound, last=False)
        if bound is not None:
            chosen = np.where(chosen < 0, bound, chosen)
    return chosen


def edge_events(lists: EventLists, *, last: bool) -> Int64s:
    """The first or last event of each list; -1 where it is empty."""
    filled = np.diff(lists.offsets) > 0
    chosen = np.full(len(filled), -1, dtype=np.int64)
    places = lists.offsets[1:] - 1 if last else lists.offsets[:-1]
    chosen[filled] = lists.seqs[places[filled]]
    return chosen


def identify(block: MatchBlock, rows: RowView) -> pa.Array:
    """The match ids of a block, as hexadecimal text."""
    events = EventHashes(rows, distinct_events(block), needed_columns(block.query, rows.schema))
    return to_hex(*(_hash_lane(block, events, lane) for lane in (0, 1)))


def _hash_lane(block: MatchBlock, events: EventHashes, lane: int) -> Hashes:
    total = np.full(len(block), mix_name(f"\0query {block.name}", lane), dtype=np.uint64)
    for name, bound in block.variables.items():
        if bound is None:
            continue
        own = mix_name(name, lane)
        if isinstance(bound, EventLists):
            here = ~bound.null if bound.null is not None else np.ones(len(block), dtype=np.bool_)
            total[here] += mix(_hash_lists(bound, events, lane) + own)[here]
        else:
            here = bound >= 0
            total[here] += mix(events.lane(lane, bound[here]) + own)
    return mix(total)


def _hash_lists(lists: EventLists, events: EventHashes, lane: int) -> Hashes:
    lengths = np.diff(lists.offsets)
    place = np.arange(len(lists.seqs), dtype=np.int64) - np.repeat(lists.offsets[:-1], lengths)
    elements = mix(events.lane(lane, lists.seqs) + mix(place.astype(np.uint64) + np.uint64(1)))
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(elements, dtype=np.uint64)])
    inside: Hashes = sums[lists.offsets[1:]] - sums[lists.offsets[:-1]]
    return mix(lengths.astype(np.uint64)) + inside
