"""The syntax tree of a CEL expression: what it names, where, and under which bound variables.

The library that judges says of an expression which names it has, and not where or of what: so it is read here once
more, when a rule is loaded. What the library compiles and has a meaning for, this reads.

Source: the grammar of the Common Expression Language, google/cel-spec, doc/langdef.md.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

MACROS = frozenset({"all", "exists", "exists_one", "existsOne", "filter", "map"})

_MAX_DEPTH = 24  # of parentheses, indexes and the like inside each other
_MAX_MEMBERS = 12  # of members of members, and of signs in a row
_TOKEN = re.compile(
    r"""(?x)
    (?P<blank>(?:\s|//[^\n]*)+)
    |(?P<text>[rR]?[bB]?[rR]?(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<number>0[xX][0-9a-fA-F]+[uU]?|(?:\d+\.\d+|\.\d+|\d+)(?:[eE][+-]?\d+)?[uU]?)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign>&&|\|\||[=!<>]=|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.DOTALL,
)
_LEVELS: tuple[frozenset[str], ...] = (
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"<", "<=", ">=", ">", "==", "!=", "in"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
_CONSTANTS = {"true": "bool", "false": "bool", "null": "null"}


class CelSyntaxError(ValueError):
    """What stands at a place is not what the grammar has there; ``at`` is where, from 0."""

    def __init__(self, at: int, message: str) -> None:
        self.at = at
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Constant:
    """A value as it is written; ``text`` is that of a text without escapes, and of a number; "" for all else."""

    at: int
    kind: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    at: int
    name: str


@dataclass(frozen=True, slots=True)
class Member:
    """``of.name``; ``asked``: as ``has(of.name)``."""

    at: int
    of: "Node"
    name: str
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """``of[index]``."""

    at: int
    of: "Node"
    index: "Node"


@dataclass(frozen=True, slots=True)
class Call:
    """``name(arguments)``, or ``target.name(arguments)``."""

    at: int
    name: str
    target: "Node | None"
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """``over.macro(variable, body)``; ``map`` may have two bodies."""

    at: int
    macro: str
    over: "Node"
    variable: str
    bodies: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """Operands with one operator between each two of them, to be read from the left."""

    at: int
    operators: tuple[str, ...]
    operands: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Unary:
    """``!operand`` or ``-operand``."""

    at: int
    operator: str
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Choice:
    """``condition ? yes : no``."""

    at: int
    condition: "Node"
    yes: "Node"
    no: "Node"


@dataclass(frozen=True, slots=True)
class ListOf:
    """``[items]``."""

    at: int
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    """``{key: value}``."""

    at: int
    entries: tuple[tuple["Node", "Node"], ...]


Node: TypeAlias = Constant | Name | Member | Item | Call | Loop | Operation | Unary | Choice | ListOf | MapOf


def parse(source: str) -> Node:
    """The tree of an expression.

    Raises:
        CelSyntaxError: what the grammar does not have, or too much inside each other.
    """
    reader = _Reader(source)
    tree = reader.expression()
    reader.expect_end()
    return tree


def parts(node: Node) -> Iterator[Node]:
    """The nodes directly inside."""
    match node:
        case Member(_, of, _, _):
            yield of
        case Item(_, of, index):
            yield from (of, index)
        case Call(_, _, target, arguments):
            yield from (target, *arguments) if target is not None else arguments
        case Loop(_, _, over, _, bodies):
            yield from (over, *bodies)
        case Operation(_, _, operands):
            yield from operands
        case Unary(_, _, operand):
            yield operand
        case Choice(_, condition, yes, no):
            yield from (condition, yes, no)
        case ListOf(_, items):
            yield from items
        case MapOf(_, entries):
            for entry in entries:
                yield from entry


def every_node(node: Node) -> Iterator[Node]:
    """`node` and all inside."""
    yield node
    for part in parts(node):
        yield from every_node(part)


class _Reader:
    """Reads tokens from the left; ``_place`` is the next one's."""

    def __init__(self, source: str) -> None:
        self._tokens = list(_tokens(source))
        self._place = 0
        self._depth = 0

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._refuse(f"an expression of at most {_MAX_DEPTH} levels")
        condition = self._level(0)
        if self._take("?"):
            at = condition.at
            yes = self._level(0)
            self._expect(":")
            condition = Choice(at, condition, yes, self.expression())
        self._depth -= 1
        return condition

    def expect_end(self) -> None:
        """Refuse what is left."""
        if self._token_text:
            self._refuse("the end")

    @property
    def _token_text(self) -> str:
        return self._tokens[self._place][1]

    def _take(self, *texts: str) -> str:
        """The next token if it is one of these signs, else ""."""
        kind, text, _ = self._tokens[self._place]
        if text not in texts or kind not in ("sign", "name"):
            return ""
        self._place += 1
        return text

    def _expect(self, text: str) -> None:
        if not self._take(text):
            self._refuse(repr(text))

    def _refuse(self, expected: str) -> NoReturn:
        _, text, at = self._tokens[self._place]
        raise CelSyntaxError(at, f"expected {expected}, found {text or 'the end'}")

    def _level(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        first = self._level(level + 1)
        operators: list[str] = []
        operands = [first]
        while operator := self._take(*_LEVELS[level]):
            operators.append(operator)
            operands.append(self._level(level + 1))
        return Operation(first.at, tuple(operators), tuple(operands)) if operators else first

    def _unary(self) -> Node:
        at = self._tokens[self._place][2]
        signs = []
        while sign := self._take("!", "-"):
            signs.append(sign)
            if len(signs) > _MAX_MEMBERS:
                self._refuse(f"at most {_MAX_MEMBERS} signs")
        node = self._members(self._primary())
        for sign in reversed(signs):
            node = Unary(at, sign, node)
        return node

    def _members(self, node: Node) -> Node:
        for _ in range(_MAX_MEMBERS + 1):
            at = self._tokens[self._place][2]
            if self._take("."):
                name = self._name()
                node = self._call(at + 1, name, node) if self._token_text == "(" else Member(at + 1, node, name)
            elif self._take("["):
                index = self.expression()
                self._expect("]")
                node = Item(at, node, index)
            else:
                return node
        return self._refuse(f"at most {_MAX_MEMBERS} members of members")

    def _call(self, at: int, name: str, target: Node | None) -> Node:
        self._expect("(")
        arguments = self._list(")") if not self._take(")") else ()
        if target is not None and name in MACROS and len(arguments) in (2, 3):
            variable = arguments[0]
            if isinstance(variable, Name) and (len(arguments) == 2 or name == "map"):
                return Loop(at, name, target, variable.name, arguments[1:])
        if target is None and name == "has" and len(arguments) == 1 and isinstance(arguments[0], Member):
            member = arguments[0]
            return Member(member.at, member.of, member.name, asked=True)
        return Call(at, name, target, arguments)

    def _primary(self) -> Node:
        kind, text, at = self._tokens[self._place]
        if kind == "name" and text in _CONSTANTS:
            self._place += 1
            return Constant(at, _CONSTANTS[text])
        if kind == "name":
            name = self._name()
            return self._call(at, name, None) if self._token_text == "(" else Name(at, name)
        if kind in ("text", "number"):
            self._place += 1
            return _constant(kind, text, at)
        if self._take("("):
            inside = self.expression()
            self._expect(")")
            return inside
        if self._take("["):
            return ListOf(at, self._list("]") if not self._take("]") else ())
        if self._take("{"):
            return MapOf(at, self._entries() if not self._take("}") else ())
        return self._refuse("a value")

    def _name(self) -> str:
        kind, text, _ = self._tokens[self._place]
        if kind != "name":
            self._refuse("a name")
        self._place += 1
        return text

    def _list(self, end: str) -> tuple[Node, ...]:
        items = [self.expression()]
        while self._take(","):
            if self._token_text == end:
                break
            items.append(self.expression())
        self._expect(end)
        return tuple(items)

    def _entries(self) -> tuple[tuple[Node, Node], ...]:
        entries = [self._entry()]
        while self._take(","):
            if self._token_text == "}":
                break
            entries.append(self._entry())
        self._expect("}")
        return tuple(entries)

    def _entry(self) -> tuple[Node, Node]:
        key = self.expression()
        self._expect(":")
        return key, self.expression()


def _tokens(source: str) -> Iterator[tuple[str, str, int]]:
    """Each token's kind, text and place; the last is the end, of no text."""
    at = 0
    while at < len(source):
        found = _TOKEN.match(source, at)
        if found is None or found.lastgroup is None:
            raise CelSyntaxError(at, f"expected a value or an operator, found {source[at]!r}")
        if found.lastgroup != "blank":
            yield found.lastgroup, found[0], at
        at = found.end()
    yield "end", "", len(source)


def _constant(kind: str, text: str, at: int) -> Constant:
    if kind == "number":
        if text[-1] in "uU":
            return Constant(at, "uint")
        is_whole = text.isdigit() or text[:2] in ("0x", "0X")
        return Constant(at, "int" if is_whole else "double", text)
    opening = re.match(r"[rRbB]*", text)
    prefix = opening[0].lower() if opening is not None else ""
    quotes = 3 if text[len(prefix) :].startswith(('"""', "'''")) else 1
    inside = text[len(prefix) + quotes : len(text) - quotes]
    return Constant(at, "bytes" if "b" in prefix else "text", inside if "r" in prefix else _unescaped(inside))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", _escape, text, flags=re.DOTALL) if "\\" in text else text


def _escape(found: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1])
