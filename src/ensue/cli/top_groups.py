"""The greatest groups of AGG queries: a table that is kept up to date on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ensue.pattern.columns import aggregate_name, group_name

if TYPE_CHECKING:
    from rich.table import Table

    from ensue.pattern.query import Query
    from ensue.runtime.matches import Matches


class TopGroups:
    """The last numbers of each group; by the first one the `size` greatest groups of each query are shown."""

    def __init__(self, size: int, queries: Sequence[Query]) -> None:
        self._size = size
        self._groups = {q.name or "": [group_name(key) for key in q.group_by] for q in queries if q.aggregates}
        self._numbers = {q.name or "": [aggregate_name(one) for one in q.aggregates] for q in queries if q.aggregates}
        self._rows: dict[str, dict[tuple[Any, ...], list[Any]]] = {name: {} for name in self._groups}

    def take(self, matches: Matches) -> None:
        """Take the rows of a batch in."""
        for name, rows in matches.last_rows().items():
            for row in rows:
                group = tuple(row[part] for part in self._groups[name])
                self._rows[name][group] = [row[part] for part in self._numbers[name]]

    def greatest(self, name: str) -> list[tuple[Any, ...]]:
        """The greatest groups of a query, each with its numbers; no number is less than any."""
        rows = list(self._rows[name].items())  # at once: rows may come in another thread
        ranked = sorted(rows, key=lambda row: (row[1][0] is not None, row[1][0]), reverse=True)
        return [(*group, *numbers) for group, numbers in ranked[: self._size]]

    def tables(self) -> list[Table]:
        """A table for each query."""
        from rich.table import Table

        found = []
        for name in self._rows:
            table = Table(title=self._title(name), title_justify="left")
            for head in self._groups[name]:
                table.add_column(head)
            for head in self._numbers[name]:
                table.add_column(head, justify="right")
            for row in self.greatest(name):
                table.add_row(*("-" if value is None else str(value) for value in row))
            found.append(table)
        return found

    def show(self, is_terminal: bool) -> None:
        """Say how it ended, on standard error."""
        if is_terminal:
            from rich.console import Console

            Console(stderr=True).print(*self.tables())
            return
        for name in self._rows:
            click.echo(self._title(name), err=True)
            heads = [*self._groups[name], *self._numbers[name]]
            for row in self.greatest(name):
                told = (f"{head}={value}" for head, value in zip(heads, row, strict=True))
                click.echo("  " + " ".join(told), err=True)

    def _title(self, name: str) -> str:
        count = len(self._rows[name])
        return f"{name}: the greatest of {count:,} groups" if self._groups[name] else f"{name}: the last row"
