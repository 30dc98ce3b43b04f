"""What a checkpoint is of: written down at the start, compared at every restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ensue.rules.program import Statement
from ensue.spark.recipe import Recipe

VERSION = 1


def make_manifest(recipe: Recipe, buckets: int) -> dict[str, Any]:
    """What must stay the same while a checkpoint lives; the recipe is of all queries."""
    return {
        "version": VERSION,
        "queries": {**name_rules(recipe.rules), **{query.name or "": str(query) for query in recipe.queries}},
        "columns": {field.name: str(field.type) for field in recipe.layout if not pa.types.is_null(field.type)},
        "type": recipe.type,
        "ts": recipe.ts,
        "begin": recipe.begin,
        "unit": recipe.unit,
        "lateness": recipe.lateness,
        "buckets": buckets,
    }


def name_rules(rules: Sequence[Statement]) -> dict[str, str]:
    """Declarations and rules, by their place."""
    return {f"rule {place}": str(statement) for place, statement in enumerate(rules, 1)}


def describe_changes(stored: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What is different, and what to do about it; None if nothing is."""
    changes = []
    if stored.get("version") != now["version"]:
        changes.append(f"it was written in format {stored.get('version')}, this version of ensue has {now['version']}")
    changes += _compare("query", stored.get("queries", {}), now["queries"])
    changes += _compare("column", stored.get("columns", {}), now["columns"])
    for name in ("type", "ts", "begin", "unit", "lateness", "buckets"):
        if stored.get(name) != now[name]:
            changes.append(f"{name} was {stored.get(name)!r} and is {now[name]!r} now")
    if not changes:
        return None
    return (
        "the checkpoint is of another run: "
        + "; ".join(changes)
        + ". Go on as before, or start anew with another checkpoint folder; what the old one holds is then not seen."
    )


def _compare(what: str, stored: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    changes = [f"{what} `{name}` is new" for name in now if name not in stored]
    changes += [f"{what} `{name}` is gone" for name in stored if name not in now]
    changes += [
        f"{what} `{name}` has changed from\n{stored[name]}\nto\n{now[name]}\n"
        for name in now
        if name in stored and stored[name] != now[name]
    ]
    return changes
