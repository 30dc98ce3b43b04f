"""Says in plain words why a text is not a query: what was found, what was expected, and what was probably meant."""

from __future__ import annotations

from lark import Token, UnexpectedToken

from ensue.errors import QuerySyntaxError, Span
from ensue.pattern.expressions import FUNCTIONS, UNIT_SPELLINGS
from ensue.pattern.nearest import nearest
from ensue.pattern.words import RESERVED, keyword_of
from ensue.rules.allen import RELATIONS
from ensue.rules.words import TIMERS

_CLAUSES = {
    "WHERE": "WHERE",
    "PARTITION": "PARTITION BY",
    "WITHIN": "WITHIN",
    "USING": "USING",
    "AGG": "AGG",
    "GROUP": "GROUP BY",
    "EMIT": "EMIT ON CHANGE",
    "RETURN": "RETURN",
}
_VALUES = frozenset(
    [
        "VARIABLE",
        "NUMBER",
        "DURATION",
        "STRING",
        "TRUE",
        "FALSE",
        "NULL",
        "NAME",
        "EDGE",
        "AGGREGATE",
        "FUNCTION",
        "LPAR",
        "MINUS",
        "NOT",
    ]
)
_OPERATORS = frozenset(
    ["COMPARE", "PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "IN", "BETWEEN", "LIKE", "IS", "NOT", "AND", "OR"]
)
_QUANTIFIERS = frozenset(["PLUS", "STAR", "QMARK", "LBRACE"])

_HUMAN = {
    "QUERY": "QUERY",
    "PATTERN": "PATTERN",
    "NAME": "a name",
    "NUMBER": "a number",
    "DURATION": "a duration such as `10s`",
    "STRING": "a text in single quotes",
    "UNBOUNDED": "UNBOUNDED",
    "EVENTS": "EVENTS",
    "POLICY": "ANY, NEXT or STRICT",
    "AGGREGATE": "COUNT, SUM, AVG, MIN or MAX",
    "COMPARE": "a comparison",
    "AS": "AS",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "COMMA": "`,`",
    "DOT": "`.`",
    "SEMI": "`;`",
    "STAR": "`*`",
    "PLUS": "`+`",
    "MINUS": "`-`",
    "QMARK": "`?`",
    "RWRAP": "the closing `>`",
    "RCLAUSE": "the closing `]`",
    "IN": "IN",
    "BETWEEN": "BETWEEN",
    "LIKE": "LIKE",
    "NULL": "NULL",
    "NOT": "NOT",
    "AND": "AND",
    "OR": "OR",
    "SEQ": "SEQ",
    "EVENT": "EVENT",
    "RULE": "RULE",
    "ARROW": "`<-`",
    "COLON": "`:`",
    "COLLECT": "COLLECT",
    "TIMER": "EXTEND, EXTEND_BACKWARD, SHIFT or FROM_END",
    "ALLEN": "a relation such as BEFORE",
    "BY": "BY",
    "VARIABLE": "a variable",
}

_KEYWORDS = {
    **{kind: (text,) for kind, text in _CLAUSES.items()},
    "QUERY": ("QUERY",),
    "PATTERN": ("PATTERN",),
    "UNBOUNDED": ("UNBOUNDED",),
    "EVENTS": ("EVENTS",),
    "POLICY": ("ANY", "NEXT", "STRICT"),
    "AGGREGATE": ("COUNT", "SUM", "AVG", "MIN", "MAX"),
    "AS": ("AS",),
    "SEQ": ("SEQ",),
    "RULE": ("RULE",),
    "EVENT": ("EVENT",),
    "WHILE": ("WHILE",),
    "COLLECT": ("COLLECT",),
    "TIMER": tuple(sorted(TIMERS)),
    "ALLEN": tuple(RELATIONS),
    "BY": ("BY",),
    **{word: (word,) for word in ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL")},
}
"""The words that may stand for each terminal, to guess which one a misspelt word was meant to be."""


def diagnose(unexpected: UnexpectedToken, tokens: list[Token], text: str) -> QuerySyntaxError:
    """The error that explains an unexpected token to the author of the query."""
    accepted = set(unexpected.accepts or unexpected.expected)
    token = unexpected.token
    at_end = token.type == "$END"
    place = len(tokens) if at_end else next(k for k, one in enumerate(tokens) if one is token)
    span = _end_span(text) if at_end else _span_of(token)
    previous = tokens[place - 1] if place else None
    special = _explain_previous(token, previous, accepted, tokens[: place - 1], text)
    if special is not None:
        return special
    found = "but the text ends here" if at_end else f"found {_describe(token, text)}"
    hint = _hint(token, previous, accepted, text)
    return QuerySyntaxError(f"expected {_expected(accepted)}, {found}", hint=hint, span=span)


def _explain_previous(
    token: Token, previous: Token | None, accepted: set[str], earlier: list[Token], text: str
) -> QuerySyntaxError | None:
    """The error where the fault lies in the name or number before the unexpected token; None if it does not."""
    if previous is None:
        return None
    span = _span_of(previous)
    written = text[span.start : span.end]
    if previous.type == "VARIABLE" and keyword_of(previous) == "WHILE":
        hint = "a window is written `WHILE w: NOT type(…)` or `WHILE w: COLLECT type(…)`"
        return QuerySyntaxError("expected `:` after the name of a window", hint=hint, span=_span_of(token))
    if previous.type == "NUMBER" and token.type == "NAME":
        unit = nearest(token, UNIT_SPELLINGS)
        if unit is not None or accepted & {"EVENTS"}:
            return QuerySyntaxError(
                f"`{token}` is not a unit of time",
                hint=f"did you mean `{unit}`?" if unit else "the units are us, ms, s, m, h, d and w; or EVENTS",
                span=_span_of(token),
            )
    if previous.type != "NAME":
        return None
    if accepted == {"DOT", "LSQB"}:  # a name where a value is wanted
        if token.type == "LPAR":
            known = (*FUNCTIONS, "COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST", "LAST")
            near = nearest(previous, known)
            hint = f"did you mean `{near}`?" if near else "the functions are " + ", ".join(FUNCTIONS)
            if earlier and earlier[-1].type == "NOT" and "ARROW" in [one.type for one in earlier]:
                hint = f"for the absence of events write `WHILE w: NOT {previous}(…)`, where `w` is an event or a timer"
            return QuerySyntaxError(f"unknown function `{previous}`", hint=hint, span=span)
        if written.startswith('"'):
            hint = "a text is written in single quotes: '" + previous.replace("'", "''") + "'"
        elif (near := nearest(previous, ("TRUE", "FALSE", "NULL", "NOT"))) is not None and len(previous) > 2:
            hint = f"did you mean `{near}`? An attribute is written `{written}.name`"
        else:
            hint = f"write `{written}.` and the name of an attribute"
        return QuerySyntaxError(f"`{previous}` alone is not a value", hint=hint, span=span)
    if token.type == "LPAR" and "LBRACE" in accepted:  # a name and `(` in a pattern
        near = nearest(previous, ("SEQ", "AND", "OR", "NOT"))
        operators = "the operators are SEQ, AND and OR; attributes are named in WHERE only"
        hint = f"did you mean `{near}`?" if near else operators
        return QuerySyntaxError(f"`{previous}` is not an operator of patterns", hint=hint, span=span)
    # In `PATTERN A WITHNI 10s` the misspelt keyword was read as a variable.
    if earlier and earlier[-1].type in ("NAME", "PLUS", "STAR", "QMARK", "RBRACE"):
        near = nearest(previous, _CLAUSES.values()) if len(previous) > 2 else None
        if near is not None and "LSQB" in accepted:
            return QuerySyntaxError(f"expected a clause, found `{previous}`", hint=f"did you mean `{near}`?", span=span)
    return None


def _hint(token: Token, previous: Token | None, accepted: set[str], text: str) -> str | None:
    match token.type:
        case "NAME":
            words = [word for kind in sorted(accepted) for word in _KEYWORDS.get(kind, ())]
            found = nearest(token, words)
            if found is None:  # `PARTITION` where `PARTITION BY` is meant
                start = keyword_of(token) + " "
                found = next((word for word in words if word.startswith(start)), None)
            if found is not None and keyword_of(token) != found:
                return f"did you mean `{found}`?"
            if "PATTERN" in accepted:
                return "a query starts with PATTERN"
            if text[_span_of(token).start] == '"':
                return "a text is written in single quotes"
        case "VARIABLE" if previous is not None and previous.type == "VARIABLE":  # in a rule: two names in a row
            if keyword_of(token) in RELATIONS:
                return f"the name of an event or a timer stands on either side of {keyword_of(token)}"
            near = nearest(token, RELATIONS)
            return f"did you mean `{near}`?" if near else None
        case "LPAR" if {"COLON", "ALLEN"} <= accepted and previous is not None:
            return f"in a rule an event has a name before it: `e: {previous}(…)`"
        case "SEQ" | "AND" | "OR" | "NOT" | "LPAR" if "PATTERN" in accepted:
            if previous is not None and previous.type == "NAME":
                return "a name and PATTERN stand before the pattern"
            return "a query starts with PATTERN"
        case "COMPARE" if "RWRAP" not in accepted and previous is not None and previous.type == "COMPARE":
            return "comparisons are = != < <= > >="
        case "PLUS" | "STAR" | "QMARK" | "LBRACE" if previous is not None and previous.type == "RPAR":
            return "a quantifier stands after an event type, not after a group"
        case "WHERE" | "WITHIN" | "USING" | "RETURN" | "PARTITION" | "GROUP" | "AGG" | "EMIT" if "RPAR" in accepted:
            return "a `)` is missing before it"
        case "PATTERN" if previous is not None:
            return "a `;` stands between two queries"
        case "$END" if "RWRAP" in accepted:
            return "the `<` that opens the clause's body needs its `>`"
        case "$END" if "RPAR" in accepted:
            return "a `(` is not closed"
        case "NUMBER" | "DURATION" if "NAME" in accepted and "NUMBER" not in accepted:
            written = text[_span_of(token).start : _span_of(token).end]
            return f"a name that is not a word is written in back quotes: `{written}`"
        case word if word in RESERVED and accepted == {"NAME"}:
            return f"`{word}` is a keyword; as a name it is written in back quotes"
    return None


def _expected(accepted: set[str]) -> str:
    """The accepted terminals in words, the likeliest first."""
    left = set(accepted)
    phrases: list[str] = []
    if "PATTERN" in left:  # rules are for those who look for them
        left -= {"EVENT", "RULE"}
    if {"NAME", "NUMBER", "STRING", "LPAR"} <= left:
        phrases.append("a value")
        left -= _VALUES
    elif {"NAME", "SEQ", "LPAR"} <= left:
        phrases.append("an event type, SEQ, AND or OR")
        left -= {"NAME", "SEQ", "LPAR", "NOT", "AND", "OR", "LWRAP"}
    elif {"NAME", "LBRACE"} <= left:
        phrases.append("a variable")
        left -= {"NAME", *_QUANTIFIERS}
    else:
        left -= _QUANTIFIERS if "LBRACE" in left else set()
    if "COMPARE" in left:
        phrases.append("an operator")
        left -= _OPERATORS
    left -= {"LWRAP", "LCLAUSE", "LSQB"} if len(left) > 1 else set()
    phrases += sorted(_HUMAN[kind] for kind in left if kind in _HUMAN)
    if left >= {"WHERE", "WITHIN"}:
        phrases.append("a clause such as WHERE or WITHIN")
    else:
        phrases += [name for kind, name in _CLAUSES.items() if kind in left]
    if "END" in left or "$END" in left:
        phrases.append("the end of the query")
    return " or ".join([", ".join(phrases[:-1]), phrases[-1]] if len(phrases) > 1 else phrases) or "something else"


def _describe(token: Token, text: str) -> str:
    span = _span_of(token)
    written = text[span.start : span.end]
    if len(written) > 40:
        written = written[:39] + "…"
    return f"the text {written}" if token.type == "STRING" else f"`{written}`"


def _span_of(token: Token) -> Span:
    return Span(token.start_pos or 0, token.end_pos or 0)


def _end_span(text: str) -> Span:
    end = len(text.rstrip())
    return Span(end, end)
