"""The process that Spark forks its Python workers from, with the engine in it: workers are born ready.

Spark starts it as `python -m ensue.spark.daemon pyspark.worker`, told by `spark.python.daemon.module` (see
`ensue.spark.session`). What it is for, in CPU seconds of each worker that starts from Spark's own daemon:

- pyarrow, pandas, numba and the compiled kernels are loaded: 1.5. Here it is done once, before the fork.
- `invalidate_caches` reads the directory of pyspark.zip again for every package that was loaded from it: 0.6, and
  modules in a zip are compiled anew in every process. Here pyspark is loaded from where it is installed.
- After each task Python looks through all objects for garbage: 0.1. Here those that came before the fork are left out.
"""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path
from zipimport import zipimporter

_MODULES = ("pyspark.worker", "pandas", "ensue.spark.batch", "ensue.spark.streaming")
_EVENTS = [{"type": "A", "ts": 1, "x": 1}, {"type": "B", "ts": 2, "x": 1}]


def prefer_installed_pyspark() -> None:
    """Take the zip files that Spark puts first on the path off it, if the package that they are copies of is there."""
    for place in list(sys.path):
        if place.endswith(".zip") and (Path(place).parents[2] / "worker.py").exists():  # pyspark/python/lib/x.zip
            sys.path.remove(place)
    for place, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and place not in sys.path:
            del sys.path_importer_cache[place]


def load() -> None:
    """Load what workers need. No thread may be left behind: a fork would not take it along."""
    import ensue

    for name in _MODULES:
        importlib.import_module(name)
    for policy in ("ANY", "NEXT"):  # each has kernels of its own
        ensue.run(_EVENTS, f"PATTERN SEQ(A a, B b) WHERE a.x = b.x WITHIN 10 USING {policy}").to_arrow()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    prefer_installed_pyspark()
    load()
    from pyspark.daemon import manager

    manager()
