"""The query language: from text to queries, and back."""

from __future__ import annotations

from ensue.language.layout import format_text
from ensue.language.limits import Limits
from ensue.language.parsing import parse, parse_program, parse_query
from ensue.pattern.format import format_query

__all__ = ["Limits", "format_query", "format_text", "parse", "parse_program", "parse_query"]
