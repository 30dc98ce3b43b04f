"""One dictionary of strings for a whole engine: evaluation works on int64 codes, results and order on the strings."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ensue.errors import StateError
from ensue.events.times import NULL

Int64s = npt.NDArray[np.int64]

_FORMAT = 1
_SPAN = 2**62  # labels lie in (0, _SPAN)


class StringTable:
    """Strings and their codes. A code stays the same as long as its string is kept.

    With `ordered`, `rank[code]` orders codes as their strings by code point.

    >>> table = StringTable(ordered=True)
    >>> table.encode(pa.array(["b", "a", None, "b"])).tolist()[:2]
    [0, 1]
    >>> bool(table.rank[1] < table.rank[0]), table.decode(0)
    (True, 'b')
    """

    def __init__(self, *, ordered: bool = False) -> None:
        self.ordered = ordered
        self._codes: dict[str, int] = {}
        self._words: list[str | None] = []
        self._free: list[int] = []
        self._sorted: list[str] = []
        self._rank: Int64s = np.zeros(16, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def rank(self) -> Int64s:
        """An order of the codes; entries of codes that are not in use mean nothing. Read it anew after each encode."""
        return self._rank[: len(self._words)]

    def encode(self, values: pa.Array | pa.ChunkedArray) -> Int64s:
        """The codes of a column of strings; null is -2^63."""
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        parts = [self._encode_array(chunk) for chunk in chunks if len(chunk)]
        if not parts:
            return np.empty(0, dtype=np.int64)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def encode_words(self, words: Sequence[str | None]) -> Int64s:
        """The codes of some strings; None is -2^63."""
        missing = dict.fromkeys(w for w in words if w is not None and w not in self._codes)
        if missing:
            self._add(missing)
        codes = self._codes
        return np.array([NULL if w is None else codes[w] for w in words], dtype=np.int64)

    def encode_one(self, word: str | None) -> int:
        """The code of one string."""
        if word is None:
            return NULL
        code = self._codes.get(word)
        if code is None:
            self._add([word])
            code = self._codes[word]
        return code

    def decode(self, code: int) -> str:
        """The string of a code."""
        word = self._words[code] if 0 <= code < len(self._words) else None
        if word is None:
            raise KeyError(f"no string has the code {code}")
        return word

    def retain(self, live_codes: Int64s) -> None:
        """Keep these strings and forget all others; their codes may be given to new strings. NULL is passed over."""
        live = np.zeros(len(self._words), dtype=np.bool_)
        live[live_codes[live_codes >= 0]] = True
        for code in np.flatnonzero(~live).tolist():
            word = self._words[code]
            if word is not None:
                del self._codes[word]
                self._words[code] = None
                self._free.append(code)
        while self._words and self._words[-1] is None:
            self._words.pop()
        self._free = [code for code in self._free if code < len(self._words)]
        if self.ordered:
            self._sorted = [word for word in self._sorted if word in self._codes]

    def dump(self) -> tuple[dict[str, Any], list[pa.Table]]:
        """The state as JSON-able values and tables, for `load`."""
        words = pa.array(self._codes, pa.string())
        codes = pa.array(self._codes.values(), pa.int64())
        return {"format": _FORMAT, "ordered": self.ordered}, [pa.table({"word": words, "code": codes})]

    @classmethod
    def load(cls, state: Mapping[str, Any], tables: Sequence[pa.Table]) -> StringTable:
        """A table in the state that `dump` gave."""
        if state.get("format") != _FORMAT:
            raise StateError(f"the strings' state has format {state.get('format')!r}; this version reads {_FORMAT}")
        table = cls(ordered=bool(state["ordered"]))
        words, codes = tables[0]["word"].to_pylist(), tables[0]["code"].to_pylist()
        table._words = [None] * (max(codes, default=-1) + 1)
        for word, code in zip(words, codes, strict=True):
            table._words[code] = word
            table._codes[word] = code
        table._free = [code for code, word in enumerate(table._words) if word is None]
        if table.ordered:
            table._sorted = sorted(words)
            table._relabel()
        return table

    def _encode_array(self, array: pa.Array) -> Int64s:
        encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        words = encoded.dictionary
        indices = encoded.indices
        places = (indices.fill_null(len(words)) if indices.null_count else indices).to_numpy()
        if len(words) > len(array):  # a dictionary that came with the input may be far larger than what is used of it
            used, places = np.unique(places, return_inverse=True)
            known = [words[int(i)].as_py() if i < len(words) else None for i in used]
            codes = self.encode_words(known)
        else:
            codes = self.encode_words([*words.to_pylist(), None])
        result: Int64s = codes[places]
        return result

    def _add(self, words: Iterable[str]) -> None:
        fresh = list(words)
        for word in fresh:
            if self._free:
                code = self._free.pop()
                self._words[code] = word
            else:
                code = len(self._words)
                self._words.append(word)
            self._codes[word] = code
        if len(self._words) > len(self._rank):
            self._rank = np.concatenate([self._rank, np.zeros(max(len(self._rank), len(self._words)), dtype=np.int64)])
        if self.ordered:
            self._put_in_order(sorted(fresh))

    def _put_in_order(self, fresh: list[str]) -> None:
        if len(fresh) * 8 > len(self._sorted):
            self._sorted = sorted([*self._sorted, *fresh])  # two sorted runs: the sort only merges them
            self._relabel()
            return
        for word in fresh:
            place = bisect_left(self._sorted, word)
            self._sorted.insert(place, word)
            below = int(self._rank[self._codes[self._sorted[place - 1]]]) if place else 0
            last = place + 1 == len(self._sorted)
            above = _SPAN if last else int(self._rank[self._codes[self._sorted[place + 1]]])
            if above - below < 2:
                self._relabel()
            else:
                self._rank[self._codes[word]] = (below + above) // 2

    def _relabel(self) -> None:
        """Even labels for all strings: seldom, as a gap between neighbours must be halved some forty times first."""
        codes = np.array([self._codes[word] for word in self._sorted], dtype=np.int64)
        if len(self._words) > len(self._rank):
            self._rank = np.zeros(len(self._words), dtype=np.int64)
        rank = self._rank.copy()  # those who hold the old array keep a consistent order
        rank[codes] = np.arange(1, len(codes) + 1, dtype=np.int64) * (_SPAN // (len(codes) + 1))
        self._rank = rank
