"""Reads query text into tokens, and settles what only the surroundings of a sign or word can tell.

Which words are keywords depends on their place (`count` is a function before `(` and a name elsewhere), `<` and `>`
compare values or wrap the body of a clause, `[` and `]` index a list or wrap a clause, and `;` stands between the items
of a sequence or ends a query. With these settled here the grammar is LALR, and needs no guesses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from lark import Token

from ensue.errors import QuerySyntaxError, Span
from ensue.language.limits import Limits
from ensue.pattern.expressions import AGGREGATES, FUNCTIONS, UNIT_SPELLINGS
from ensue.pattern.words import RESERVED, keyword_of
from ensue.rules.allen import RELATIONS
from ensue.rules.words import TIMERS

_SIGNS = {
    "+": "PLUS",
    "-": "MINUS",
    "*": "STAR",
    "/": "SLASH",
    "%": "PERCENT",
    "?": "QMARK",
    "(": "LPAR",
    ")": "RPAR",
    "{": "LBRACE",
    "}": "RBRACE",
    "[": "LSQB",
    "]": "RSQB",
    ",": "COMMA",
    ".": "DOT",
    "!": "NOT",
    "~": "NOT",
    "¬": "NOT",
    "∧": "AND",
    "∨": "OR",
    ":": "COLON",
    "←": "ARROW",
}
_COMPARISONS = {"==": "=", "<>": "!=", "≠": "!=", "≤": "<=", "≥": ">="}

_PIECE = re.compile(
    r"""(?P<blank>\s+)
      | (?P<comment>--[^\n]*|/\*.*?\*/)
      | (?P<number>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<word>[^\W\d]\w*)
      | (?P<string>'[^']*(?:''[^']*)*')
      | (?P<quoted>`[^`]*(?:``[^`]*)*`|"[^"]*(?:""[^"]*)*")
      | (?P<compare><=|>=|<>|!=|==|[≤≥≠=<>])
      | (?P<sign>[-+*/%?(){}\[\],;.!~¬∧∨:←])
    """,
    re.VERBOSE | re.DOTALL,
)

_CLAUSE_WORDS = frozenset(("PATTERN", "WHERE", "WITHIN", "USING", "RETURN"))
_VALUE_WORDS = frozenset(("IN", "BETWEEN", "LIKE", "IS", "NULL", "TRUE", "FALSE", "AS"))  # no meaning within PATTERN
_POLICIES = frozenset(("ANY", "NEXT", "STRICT"))
_OF_RULES = frozenset(("EVENT", "RULE"))  # the statements besides queries; each is its own clause


class Piece(NamedTuple):
    """A stretch of text as the regular expression finds it: `kind` is one of its groups."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment with its signs, and where it stands."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """The tokens of a text, and the comments between them."""

    tokens: list[Token]
    comments: list[Comment]


def tokenize(text: str, limits: Limits) -> TokenizedText:
    """Read a text into the terminals of the grammar.

    >>> from ensue.language.limits import Limits
    >>> [token.type for token in tokenize("PATTERN A+ a[] WITHIN 10s;", Limits()).tokens]
    ['PATTERN', 'NAME', 'PLUS', 'NAME', 'LSQB', 'RSQB', 'WITHIN', 'DURATION']
    """
    if len(text) > limits.characters:
        raise QuerySyntaxError(
            f"the text has {len(text):,} characters; the limit is {limits.characters:,} characters",
            span=Span(limits.characters, limits.characters),
        )
    pieces, comments = _split(text)
    return TokenizedText(_Reader(pieces, limits).read(), comments)


def _split(text: str) -> tuple[list[Piece], list[Comment]]:
    pieces: list[Piece] = []
    comments: list[Comment] = []
    place = 0
    while place < len(text):
        found = _PIECE.match(text, place)
        if found is None or (text.startswith("/*", place) and found.lastgroup != "comment"):
            raise _unreadable(text, place)
        kind = found.lastgroup or ""
        if kind == "comment":
            comments.append(Comment(found.group(), place, found.end()))
        elif kind != "blank":
            pieces.append(Piece(kind, found.group(), place, found.end()))
        place = found.end()
    return pieces, comments


def _unreadable(text: str, place: int) -> QuerySyntaxError:
    sign = text[place]
    span = Span(place, place + 1)
    match sign:
        case "'":
            return QuerySyntaxError("this text in quotes is not closed", hint="add `'` at its end", span=span)
        case "`" | '"':
            return QuerySyntaxError("this quoted name is not closed", hint=f"add `{sign}` at its end", span=span)
        case "/":
            return QuerySyntaxError(
                "this comment is not closed", hint="add `*/` at its end", span=Span(place, place + 2)
            )
        case "&" | "|":
            word = "AND" if sign == "&" else "OR"
            return QuerySyntaxError(f"`{sign}` has no meaning here", hint=f"write `{word}`", span=span)
        case _:
            shown = sign if sign.isprintable() else f"U+{ord(sign):04X}"
            return QuerySyntaxError(
                f"the character `{shown}` has no meaning here",
                hint="a name with other signs than letters, digits and `_` is written in back quotes",
                span=span,
            )


class _Reader:
    """One pass over the pieces of a text that gives each its kind."""

    def __init__(self, pieces: list[Piece], limits: Limits) -> None:
        self.pieces = pieces
        self.limits = limits
        self.tokens: list[Token] = []
        self.clause = ""  # the clause that the pass is in
        self.open_brackets: list[str] = []  # LCLAUSE or LSQB for each `[` not closed yet
        self.depth = 0
        self.in_braces = False  # of a rule: {i, j} WITHIN …
        self.in_atom = False  # of a rule: the arguments of an event
        self.wrap_starts: set[int] = set()  # places of `<` and `>` that wrap a clause's body
        self.wrap_ends: set[int] = set()
        self.after_semicolons = list(range(len(pieces)))  # for each place, the next that is not a `;`
        for k in range(len(pieces) - 1, -1, -1):
            if self._sign(k) == ";":
                self.after_semicolons[k] = k + 1 if k + 1 == len(pieces) else self.after_semicolons[k + 1]

    def read(self) -> list[Token]:
        k = 0
        while k < len(self.pieces):
            k = self._take(k)
        if self.tokens and self.tokens[-1].type == "END":
            self.tokens.pop()
        return self.tokens

    def _take(self, k: int) -> int:
        """Turn the piece at place k into a token; the place of the next piece."""
        piece = self.pieces[k]
        match piece.kind:
            case "number":
                return self._take_number(k)
            case "word":
                return self._take_word(k)
            case "string":
                self._emit("STRING", piece.text[1:-1].replace("''", "'"), piece)
            case "quoted":
                quote = piece.text[0]
                kind = self._quoted_in_rule(k) if self.clause == "RULE" else "NAME"
                self._emit(kind, piece.text[1:-1].replace(quote * 2, quote), piece)
            case "compare":
                if self._is_arrow(k):
                    self._emit("ARROW", "<-", piece, self.pieces[k + 1])
                    return k + 2
                if k in self.wrap_starts or k in self.wrap_ends:
                    self._emit("LWRAP" if k in self.wrap_starts else "RWRAP", piece.text, piece)
                else:
                    self._emit("COMPARE", _COMPARISONS.get(piece.text, piece.text), piece)
            case _:
                self._take_sign(k)
        return k + 1

    def _emit(self, kind: str, value: str, first: Piece, last: Piece | None = None) -> None:
        self.tokens.append(Token(kind, value, start_pos=first.start, end_pos=(last or first).end))

    def _take_number(self, k: int) -> int:
        piece, unit = self.pieces[k], self._piece(k + 1)
        if unit is not None and unit.kind == "word":
            if unit.text.lower() in UNIT_SPELLINGS and unit.text.isascii():
                self._emit("DURATION", f"{piece.text} {UNIT_SPELLINGS[unit.text.lower()]}", piece, unit)
                return k + 2
            if keyword_of(unit.text) in ("EVENT", "EVENTS"):
                self._emit("NUMBER", piece.text, piece)
                self._emit("EVENTS", unit.text, unit)
                return k + 2
        self._emit("NUMBER", piece.text, piece)
        return k + 1

    def _take_word(self, k: int) -> int:
        piece = self.pieces[k]
        word = keyword_of(piece.text)
        if word in _OF_RULES and (not self.tokens or self.tokens[-1].type == "END"):
            self._emit(word, word, piece)
            self.clause = word
            return k + 1
        if self.clause in _OF_RULES:
            self._emit(*self._kind_in_rule(k, word), piece)
            return k + 1
        clause = self._clause_at(k)
        if clause is not None:
            last = k + {"PARTITION": 1, "GROUP": 1, "EMIT": 2}.get(clause, 0)
            self._emit(clause, word, piece, self.pieces[last] if clause == "EMIT" else None)
            if clause in ("PARTITION", "GROUP"):
                self._emit("BY", "BY", self.pieces[last])
            self.clause = clause
            self._find_wrap(last + 1)
            return last + 1
        if word == "QUERY" and (not self.tokens or self.tokens[-1].type == "END"):
            self._emit("QUERY", word, piece)
            self.clause = "QUERY"
            return k + 1
        self._emit(*self._kind_of_word(k, word), piece)
        return k + 1

    def _kind_of_word(self, k: int, word: str) -> tuple[str, str]:
        """The terminal and the value of a word that starts no clause."""
        text = self.pieces[k].text
        previous = self.tokens[-1].type if self.tokens else ""
        if previous == "DOT" or self._before_attribute(k):
            return "NAME", text
        if word in RESERVED and not (self.clause == "PATTERN" and word in _VALUE_WORDS):
            return word, word
        before_parenthesis = self._sign(k + 1) == "("
        if before_parenthesis and word == "SEQ":
            return "SEQ", word
        in_condition = self.clause not in ("PATTERN", "QUERY", "")
        alone = self.clause == "AGG" and previous in ("AGG", "LWRAP", "COMMA")  # `AGG COUNT`, as the papers print it
        if in_condition and word in AGGREGATES and (before_parenthesis or alone):
            return "AGGREGATE", word
        if in_condition and before_parenthesis and word in ("FIRST", "LAST"):
            return "EDGE", word
        if in_condition and before_parenthesis and word.lower() in FUNCTIONS:
            return "FUNCTION", word.lower()
        if self.clause == "WITHIN" and word == "UNBOUNDED":
            return "UNBOUNDED", word
        if self.clause == "USING" and word in _POLICIES:
            return "POLICY", word
        return "NAME", text

    def _kind_in_rule(self, k: int, word: str) -> tuple[str, str]:
        """The terminal and the value of a word in a declaration or a rule."""
        text = self.pieces[k].text
        previous, following = self.tokens[-1].type, self._sign(k + 1)
        if self.clause == "EVENT" or previous in ("RULE", "DOT", "ALLEN", "AS") or following == ":":
            return "NAME", text
        if word == "WHILE" and self._is_name(k + 1) and self._sign(k + 2) == ":":
            return word, word
        if word == "COLLECT" and previous == "COLON" and self._is_name(k + 1):
            return word, word
        if word in RELATIONS and previous == "NAME" and self._is_name(k + 1):
            return "ALLEN", word
        if word in RESERVED:
            return word, word
        if word == "BY" and previous == "NAME":
            return word, word
        if following == "(":
            is_type = previous in ("COLON", "COLLECT") or (previous == "NOT" and self.tokens[-2].type == "COLON")
            if previous == "COLON" and word in TIMERS:
                return "TIMER", word
            if not is_type and word in AGGREGATES:
                return "AGGREGATE", word
            if not is_type and word.lower() in FUNCTIONS:
                return "FUNCTION", word.lower()
            return "NAME", text
        return self._name_in_rule(k), text

    def _quoted_in_rule(self, k: int) -> str:
        """NAME or VARIABLE for a name in quotes, which is never a keyword."""
        previous, following = self.tokens[-1].type, self._sign(k + 1)
        named = previous in ("RULE", "DOT", "ALLEN", "AS") or following in (":", "(")
        return "NAME" if named else self._name_in_rule(k)

    def _name_in_rule(self, k: int) -> str:
        """NAME for what an event, a timer or an attribute is called; VARIABLE for what carries a value."""
        before, after = self._sign(k - 1), self._sign(k + 1)
        if after == "." or self._word(k - 1) == "WHILE" or self.in_braces:
            return "NAME"
        if self._word(k + 1) in RELATIONS and self._is_name(k + 2):
            return "NAME"
        if before == "(" and self.tokens[-2].type == "TIMER":
            return "NAME"
        is_argument = self.depth == 1 and before in ("(", ",") and self.in_atom
        return "NAME" if is_argument and after in ("=", "==") else "VARIABLE"

    def _is_arrow(self, k: int) -> bool:
        """Whether `<` and `-` at place k are the arrow between the head of a rule and its body."""
        follows = self.clause == "RULE" and self.depth == 0 and self._sign(k) == "<" and self._sign(k + 1) == "-"
        return follows and self.pieces[k].end == self.pieces[k + 1].start and self._has_head()

    def _has_head(self) -> bool:
        """Whether a rule is at the end of its head: there is no arrow yet."""
        for token in reversed(self.tokens):
            if token.type in ("ARROW", "RULE"):
                return token.type == "RULE"
        return False

    def _take_sign(self, k: int) -> None:
        piece = self.pieces[k]
        match piece.text:
            case ";":
                if not self._ends_query(k):
                    self._emit("SEMI", ";", piece)
                elif self.tokens and self.tokens[-1].type != "END":
                    self._emit("END", ";", piece)
                    self.clause = ""
                return
            case "." if k == len(self.pieces) - 1:
                return  # a full stop after the last query, as the papers print it
            case "[":
                kind = "LCLAUSE" if self._clause_at(k + 1) is not None else "LSQB"
                self.open_brackets.append(kind)
                self._emit(kind, "[", piece)
            case "]":
                opened = self.open_brackets.pop() if self.open_brackets else "LSQB"
                self._emit("RCLAUSE" if opened == "LCLAUSE" else "RSQB", "]", piece)
            case sign:
                self._emit(_SIGNS[sign], sign, piece)
        if self.clause == "RULE":
            self._note_brackets(piece.text)
        if piece.text in "([{":
            self.depth += 1
            if self.depth > self.limits.depth:
                raise QuerySyntaxError(
                    f"the query nests deeper than the limit of {self.limits.depth} levels",
                    span=Span(piece.start, piece.end),
                )
        elif piece.text in ")]}":
            self.depth -= 1

    def _note_brackets(self, sign: str) -> None:
        """Keep in mind what the outermost brackets of a rule hold."""
        if sign == "{":
            self.in_braces = True
        elif sign == "}":
            self.in_braces = False
        elif sign == "(" and self.depth == 0:
            self.in_atom = self.tokens[-2].type == "NAME" and not self._has_head()

    def _find_wrap(self, k: int) -> None:
        """If the body of the clause that starts at place k stands in `<` `>`, note where these are."""
        if self._sign(k) != "<":
            return
        brackets = 0
        last = k + 1
        while last < len(self.pieces) and self._clause_at(last) is None and not self._ends_query(last):
            if self._sign(last) == "[":
                if self._clause_at(last + 1) is not None:
                    break
                brackets += 1
            elif self._sign(last) == "]":
                brackets -= 1
                if brackets < 0:
                    break
            last += 1
        if last == len(self.pieces) and self._sign(last - 1) == ".":
            last -= 1
        self.wrap_starts.add(k)
        if last - 1 > k and self._sign(last - 1) == ">":
            self.wrap_ends.add(last - 1)

    # What stands at a place, by the pieces alone.

    def _piece(self, k: int) -> Piece | None:
        return self.pieces[k] if 0 <= k < len(self.pieces) else None

    def _sign(self, k: int) -> str:
        piece = self._piece(k)
        return piece.text if piece is not None and piece.kind in ("sign", "compare") else ""

    def _word(self, k: int) -> str:
        piece = self._piece(k)
        return keyword_of(piece.text) if piece is not None and piece.kind == "word" else ""

    def _is_name(self, k: int) -> bool:
        piece = self._piece(k)
        return piece is not None and piece.kind in ("word", "quoted")

    def _before_attribute(self, k: int) -> bool:
        """Whether `.attribute` follows: then even a reserved word is a variable."""
        return self._sign(k + 1) == "." and self._is_name(k + 2)

    def _clause_at(self, k: int) -> str | None:
        """The clause that starts at place k."""
        word = self._word(k)
        if not word or self._sign(k - 1) == "." or self._before_attribute(k):
            return None
        match word:
            case "PARTITION" | "GROUP" if self._word(k + 1) == "BY":
                return word
            case "EMIT" if self._word(k + 1) == "ON" and self._word(k + 2) == "CHANGE":
                return word
            case "AGG" if (
                self._word(k + 1) in AGGREGATES
                or self._sign(k + 1) == "<"
                or (self._is_name(k + 1) and self._sign(k + 2) == "(")
            ):
                return word
            case _:
                return word if word in _CLAUSE_WORDS else None

    def _ends_query(self, k: int) -> bool:
        """Whether the sign at place k is a `;` that ends a query: all do but those between the items of a pattern."""
        if self._sign(k) != ";":
            return False
        if self.clause != "PATTERN":
            return True
        k = self.after_semicolons[k]
        if self._word(k) == "QUERY":
            return self._is_name(k + 1)
        if self._word(k) in _OF_RULES:
            return self._is_name(k + 1) and self._sign(k + 2) == "("
        return self._piece(k) is None or self._word(k) == "PATTERN"
