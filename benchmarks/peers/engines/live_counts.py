"""The sum of live counts from matches, for engines that find matches where a count is asked for.

AGG COUNT(*) reports at each time of a C how many matches are live: complete, with an `a` less than a window ago. A
match is in as many of these numbers as there are times of C from its own on and before its window ends. So their sum
follows from two numbers an event: how many times of C lie before it, and before the end of a window that it begins.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.peers.streams import ROLES

Int64s = npt.NDArray[np.int64]


def count_triggers(ts: Int64s, codes: npt.NDArray[np.int8], window: int) -> tuple[Int64s, Int64s]:
    """For each event: the distinct times of C before the end of the window it begins, and before its own.

    >>> until, nth = count_triggers(np.array([1, 2, 5, 9]), np.array([0, 1, 2, 2], np.int8), 8)
    >>> until.tolist(), nth.tolist()
    ([1, 2, 2, 2], [0, 0, 0, 1])
    """
    triggers = np.unique(ts[codes == ROLES.index("C")])
    return np.searchsorted(triggers, ts + window), np.searchsorted(triggers, ts)
