"""Every error that ensue raises on purpose: one base class, one subclass a phase."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of query text, as offsets in characters (`end` is exclusive)."""

    start: int
    end: int


class EnsueError(Exception):
    """The base of all errors that ensue raises on purpose."""


class QueryError(EnsueError):
    """A query is wrong: what was found, where, and what would be right.

    `str(error)` shows the line of the query with a caret under the place when both the text and the span are known.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        span: Span | None = None,
        source: str | None = None,
        query: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.span = span
        self.source = source
        self.query = query

    @property
    def line(self) -> int | None:
        """The line of the fault, counted from 1; None where no text is known."""
        if self.source is None or self.span is None:
            return None
        return self.source.count("\n", 0, self.span.start) + 1

    @property
    def column(self) -> int | None:
        """The column of the fault, counted from 1; None where no text is known."""
        if self.source is None or self.span is None:
            return None
        return self.span.start - (self.source.rfind("\n", 0, self.span.start) + 1) + 1

    def with_source(self, source: str | None) -> QueryError:
        """The same error, pointing into `source` (kept if it points into a text already)."""
        if self.source is None:
            self.source = source
        return self

    def __str__(self) -> str:
        parts = [self.message]
        line, column = self.line, self.column
        if self.source is not None and self.span is not None and line is not None and column is not None:
            text = self.source.split("\n")[line - 1].rstrip("\r")
            shown, offset = _excerpt(text, column - 1)
            width = max(1, min(self.span.end - self.span.start, len(shown) - offset))
            parts[0] = f"line {line}, column {column}: {self.message}"
            parts.append("  " + shown)
            parts.append("  " + " " * offset + "^" * width)
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


def _excerpt(text: str, column: int, width: int = 160) -> tuple[str, int]:
    """The part of a long line around `column`, with tabs as single blanks so that the caret lines up."""
    text = text.replace("\t", " ")
    if len(text) <= width:
        return text, column
    start = max(0, min(column - width // 2, len(text) - width))
    return text[start : start + width], column - start


class QuerySyntaxError(QueryError):
    """The text is not a query of the language."""


class QueryNameError(QueryError):
    """The query names a variable, attribute or event type that is not there, or one twice."""


class QueryTypeError(QueryError):
    """The query combines values whose types do not go together, or uses a construct where it has no meaning."""


class PlanError(EnsueError):
    """A query is right but cannot be run as asked (a plan that does not fit it, an option it excludes)."""


class StateError(EnsueError):
    """A snapshot is damaged, or belongs to other queries or another version."""


class InputError(EnsueError):
    """The input cannot be read as events (a missing column, a bad row under `strict`)."""


class LimitError(EnsueError):
    """A result or a state would grow beyond a limit that was set."""


class InternalError(EnsueError):
    """A bug in ensue itself: please report it."""
