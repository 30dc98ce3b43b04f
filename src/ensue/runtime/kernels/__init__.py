"""Plain loops over arrays, compiled by Numba: the only place that imports it."""
