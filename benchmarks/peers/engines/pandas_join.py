"""pandas: events cut into slices of time as long as the window, merged slice by slice; merge_asof for the absence.

This is what is done today where no engine is at hand. Intermediate results are made in pieces, so that memory is not
what ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

from benchmarks.peers.budget import grow
from benchmarks.peers.cells import Job, Reading
from benchmarks.peers.engines.live_counts import count_triggers
from benchmarks.peers.queries import Query
from benchmarks.peers.streams import Stream, read

AT_ONCE = 2_000_000
"""Rows of a merge, before conditions, that are made at a time."""

LATEST = 2**62
Frames = dict[str, pd.DataFrame]


def lacks(query: Query) -> str | None:
    """Why a query is beyond it: none is, with a loop in Python for lists."""
    return None


def measure(job: Job) -> Reading:
    """Run the job in this process."""
    stream = Stream(job.stream, Path(job.path), read(Path(job.path)))

    def prepare(events: int) -> Callable[[], int]:
        return partial(count_matches, job, lay_ready(job, stream, events))

    return replace(grow(prepare, job.events, job.budget, job.repeats), version=pd.__version__)


def lay_ready(job: Job, stream: Stream, events: int) -> Frames:
    """The first events as one frame a type."""
    table = stream.table.slice(0, events)
    names = [name for name in ("ts", "diff", "k") if name in table.column_names]
    whole = table.select(names).to_pandas()
    whole["slice"] = whole["ts"] // job.window
    codes = stream.codes[:events]
    if job.asked.is_counted:
        whole["until"], whole["nth"] = count_triggers(stream.ts[:events], codes, job.window)
    return {role: whole[codes == place] for place, role in enumerate("ABCDEN")}


def count_matches(job: Job, frames: Frames) -> int:
    """The number of matches in the events of some frames."""
    query = job.asked
    first = frames["A"].rename(columns={"ts": "begin"})
    first["ts"] = first["begin"]
    if query.has_absence:
        first = guard(first, frames["N"])
    if not query.is_ordered:
        return count_unordered(job, frames)
    found = first
    for kind in query.types[1:]:
        if query.has_list and kind == "B":
            found = grow_lists(job, found, frames["B"])
            continue
        found = extend(job, found, frames[kind], absence=query.has_absence and kind == "B")
    if query.is_counted:
        return int((found["until"] - found["nth"]).sum())
    return len(found)


def guard(first: pd.DataFrame, absent: pd.DataFrame) -> pd.DataFrame:
    """Each `a` with the time of the first N of its key after it: no `b` may come later."""
    stops = absent[["ts", "k"]].rename(columns={"ts": "stop"})
    joined = pd.merge_asof(
        first, stops, left_on="begin", right_on="stop", by="k", direction="forward", allow_exact_matches=False
    )
    joined["stop"] = joined["stop"].fillna(LATEST).astype("int64")
    return joined


def extend(job: Job, left: pd.DataFrame, right: pd.DataFrame, *, absence: bool = False) -> pd.DataFrame:
    """Matches so far, each with every event that can follow; what the next step needs is kept."""
    query = job.asked
    keys = ["slice", "k"] if query.is_keyed else ["slice"]
    later = pd.concat([right, right.assign(slice=right["slice"] - 1)])
    kept = ["begin", "slice", *(name for name in ("k", "until") if name in left.columns)]
    rise = job.rise if query.has_list else 0.0

    def fits(rows: pd.DataFrame) -> pd.Series:
        good = (rows["ts"] > rows["ts_left"]) & (rows["ts"] < rows["begin"] + job.window)
        if query.is_rising or query.has_list:
            good &= rows["diff"] > rows["diff_left"] + rise
        if absence:
            good &= rows["ts"] <= rows["stop"]
        return good

    names = [name for name in (*kept, "ts", "diff", "nth") if name in left.columns or name in later.columns]
    if absence:
        left = left[[*kept, "ts", "diff", "stop"]]
    return merge_in_pieces(
        left, later.drop(columns=[c for c in ("k", "until") if c in later and c not in keys]), keys, fits, names
    )


def grow_lists(job: Job, first: pd.DataFrame, elements: pd.DataFrame) -> pd.DataFrame:
    """Every rising list after each `a`, an element at a time until none grows; a row a list, with its last element."""
    grown = extend(job, first, elements)
    found = [grown]
    while len(grown):
        grown = extend(job, grown, elements)
        found.append(grown)
    return pd.concat(found)


def count_unordered(job: Job, frames: Frames) -> int:
    """Three in any order: each pair less than a window apart, so that slices up to one away can meet."""
    near = {
        kind: pd.concat([frames[kind].assign(slice=frames[kind]["slice"] + by) for by in (-1, 0, 1)]) for kind in "BC"
    }

    def with_b(rows: pd.DataFrame) -> pd.Series:
        return (rows["diff"] > rows["diff_left"]) & ((rows["ts"] - rows["ts_left"]).abs() < job.window)

    def with_c(rows: pd.DataFrame) -> pd.Series:
        return with_b(rows) & ((rows["ts"] - rows["begin"]).abs() < job.window)

    first = frames["A"].assign(begin=frames["A"]["ts"])[["begin", "ts", "diff", "slice"]]
    names = ["begin", "slice", "ts", "diff"]
    pairs = merge_in_pieces(first, near["B"][["ts", "diff", "slice"]], ["slice"], with_b, names)
    return len(merge_in_pieces(pairs, near["C"][["ts", "diff", "slice"]], ["slice"], with_c, ["begin"]))


def merge_in_pieces(
    left: pd.DataFrame,
    right: pd.DataFrame,
    keys: list[str],
    fits: Callable[[pd.DataFrame], pd.Series],
    names: list[str],
) -> pd.DataFrame:
    """An equality join and its conditions, as many rows at a time as fit; columns that both have get `_left`."""
    partners = right.groupby(keys).size().rename("partners").reset_index()
    sizes = left[keys].merge(partners, on=keys, how="left")["partners"].fillna(0).cumsum().to_numpy()
    pieces = []
    start = 0
    while start < len(left):
        done = sizes[start - 1] if start else 0
        stop = max(start + 1, int(sizes.searchsorted(done + AT_ONCE, side="right")))
        rows = left.iloc[start:stop].merge(right, on=keys, suffixes=("_left", ""))
        pieces.append(rows.loc[fits(rows), names])
        start = stop
    return pd.concat(pieces) if pieces else pd.DataFrame(columns=names)
