"""The check of a CEL expression when its rule is loaded: by the types of what it names, and of what it does with it.

Whatever an expression names is looked for in `variables`, inside ``exists`` and its like too, and so are types: an
expression that could only ever fail, or never be true, is refused.

Functions and operators are those that the library has: others compile, and fail on every subject.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from tracegrade.cel.syntax import (
    Call,
    Choice,
    Constant,
    Item,
    ListOf,
    Loop,
    MapOf,
    Member,
    Name,
    Node,
    Operation,
    Unary,
)
from tracegrade.cel.variables import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    MAP,
    NULL,
    TEXT,
    TIME,
    TYPE,
    UINT,
    VARIABLES,
    CelType,
    list_of,
)
from tracegrade.document.problem import did_you_mean

# What people look for where it is not, and where it is.
_ELSEWHERE = {
    **dict.fromkeys(("args", "input", "parameters", "params"), "; of a call, 'arguments' is what it was given"),
    **dict.fromkeys(("result", "response", "outputs"), "; of a call, 'output' is what it returned"),
    **dict.fromkeys(("arguments", "output", "error"), "; each of 'calls' has its own"),
    "status": "; 'failed' says whether a call did",
}
_ONLY_JUDGED = "; it is known only when a subject is judged: the evaluator 'condition' reads it"

_NUMBERS = frozenset({"int", "uint", "double"})
_ORDERED = frozenset({"text", "bool", "bytes", "time", "duration"})
_KEYS = frozenset({"int", "uint", "bool", "text", "any"})  # of an object
_SAME = frozenset({"int", "uint", "double", "text", "bytes", "duration", "list"})
# What an operator makes of two types; `_SAME` for +, of two of one type.
_ARITHMETIC: dict[str, dict[tuple[str, str], CelType]] = {
    "+": {("time", "duration"): TIME},
    "-": {("time", "time"): DURATION, ("time", "duration"): TIME, ("duration", "duration"): DURATION},
    "*": {},
    "/": {},
    "%": {},
}
_WITHIN: dict[str, frozenset[str]] = {
    "+": _SAME,
    "-": _NUMBERS,
    "*": _NUMBERS,
    "/": _NUMBERS,
    "%": frozenset({"int", "uint"}),
}


@dataclass(frozen=True, slots=True)
class _Function:
    """The signature of a function: the kinds that it takes, target first, and the kind that it returns."""

    takes: tuple[frozenset[str], ...]
    gives: CelType
    of_target: bool


_SIZED = frozenset({"text", "bytes", "list", "map"})
_NUMERIC_TEXT = _NUMBERS | {"text"}
_EVERY = frozenset(
    {"int", "uint", "double", "text", "bool", "bytes", "null", "time", "duration", "type", "list", "map"}
)


def _global(takes: Iterable[str], gives: CelType) -> _Function:
    return _Function((frozenset(takes),), gives, of_target=False)


_FUNCTIONS: dict[str, tuple[_Function, ...]] = {
    "size": (_Function((_SIZED,), INT, of_target=True), _global(_SIZED, INT)),
    **{
        name: (_Function((frozenset({"text"}), frozenset({"text"})), BOOL, of_target=True),)
        for name in ("contains", "startsWith", "endsWith", "matches")
    },
    "int": (_global(_NUMERIC_TEXT, INT),),
    "uint": (_global(_NUMERIC_TEXT, UINT),),
    "double": (_global(_NUMERIC_TEXT, DOUBLE),),
    "string": (_global(_NUMERIC_TEXT | {"bytes", "time", "duration"}, TEXT),),
    "bytes": (_global({"text", "bytes"}, BYTES),),
    "timestamp": (_global({"text", "time"}, TIME),),
    "duration": (_global({"text", "duration"}, DURATION),),
    "type": (_global(_EVERY, TYPE),),
    "dyn": (_global(_EVERY, ANY),),
    **{
        name: (_Function((frozenset({"time"}),), INT, of_target=True),)
        for name in ("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getMonth")
    },
    **{
        name: (_Function((frozenset({"time", "duration"}),), INT, of_target=True),)
        for name in ("getHours", "getMilliseconds", "getMinutes", "getSeconds")
    },
}
_LOOPS = ("all", "exists", "exists_one", "filter", "map")
# Names of types, which `type(x)` is compared with.
_TYPE_NAMES = frozenset({"int", "uint", "double", "string", "bool", "bytes", "list", "map"})
FUNCTIONS = frozenset({*_FUNCTIONS, *_LOOPS, "has"})
"""All that an expression may call."""


class CelTypeError(ValueError):
    """What an expression names is not there, or cannot be used so; ``at`` is where, from 0."""

    def __init__(self, at: int, message: str) -> None:
        self.at = at
        super().__init__(message)


def check(tree: Node, *, judges: bool = False) -> None:
    """Refuse an expression that names what there is not, or that can be true of no subject.

    Unless it `judges`, it may not name what is known only then.

    Raises:
        CelTypeError: which says where and why.
    """
    scope = {name: field.type for name, field in VARIABLES.items() if judges or not field.judged}
    found = _type_of(tree, scope)
    if found.kind not in ("bool", "any"):
        _refuse(tree, f"expected true or false, found {found.called}")


Scope = Mapping[str, CelType]


def _refuse(node: Node, message: str) -> NoReturn:
    raise CelTypeError(node.at, message)


def _type_of(node: Node, scope: Scope) -> CelType:
    return _TYPED[type(node)](node, scope)


def _of_constant(node: Constant, scope: Scope) -> CelType:
    return {found.kind: found for found in (INT, UINT, DOUBLE, TEXT, BYTES, BOOL, NULL)}[node.kind]


def _of_name(node: Name, scope: Scope) -> CelType:
    if (found := scope.get(node.name)) is not None:
        return found
    if node.name in _TYPE_NAMES:
        return TYPE
    judged = _ONLY_JUDGED if node.name in VARIABLES else None
    hint = judged or _ELSEWHERE.get(node.name) or did_you_mean(node.name, scope)
    _refuse(node, f"no variable {node.name!r}{hint}")


def _of_member(node: Member, scope: Scope) -> CelType:
    return _member(node, _type_of(node.of, scope), node.name, asked=node.asked)


def _member(node: Node, of: CelType, name: str, *, asked: bool = False) -> CelType:
    if of.kind == "any":
        return BOOL if asked else ANY
    if of.kind != "map":
        _refuse(node, f"no member {name!r}: {of.called} has none{_of_items(of, name)}")
    if of.fields is None:
        return BOOL if asked else of.item or ANY
    if (field := of.fields.get(name)) is None:
        hint = _ELSEWHERE.get(name) or did_you_mean(name, of.fields)
        _refuse(node, f"no member {name!r} of {of.called}{hint}")
    return BOOL if asked else field.type


def _of_items(of: CelType, name: str) -> str:
    item = of.item
    has = item is not None and item.fields is not None and name in item.fields
    return f"; its items have it: .exists(c, c.{name} ...)" if has else ""


def _of_item(node: Item, scope: Scope) -> CelType:
    of, index = _type_of(node.of, scope), _type_of(node.index, scope)
    if of.kind == "map":
        if isinstance(node.index, Constant) and node.index.kind == "text":
            return _member(node.index, of, node.index.text)
        if index.kind not in ("text", "any") and of.fields is not None:
            _refuse(node.index, f"expected the name of a member, found {index.called}")
        return ANY if of.fields is not None else of.item or ANY
    if of.kind == "list":
        if index.kind not in ("int", "uint", "any"):
            _refuse(node.index, f"expected a whole number as place in the list, found {index.called}")
        if isinstance(node.index, Unary):
            _refuse(node.index, "expected a place from 0; of a list x, the last is x[size(x) - 1]")
        return of.item or ANY
    if of.kind != "any":
        _refuse(node, f"no items: {of.called} has none")
    return ANY


def _of_call(node: Call, scope: Scope) -> CelType:
    known = _FUNCTIONS.get(node.name)
    if known is None or (node.target is None and node.name in _LOOPS):
        if node.name in FUNCTIONS:
            _refuse(node, f"{node.name} is written {_form(node.name)}")
        _refuse(node, f"no function {node.name!r}{did_you_mean(node.name, FUNCTIONS)}")
    arguments = [*([node.target] if node.target is not None else []), *node.arguments]
    forms = [form for form in known if form.of_target is (node.target is not None)]
    fitting = next((form for form in forms if len(form.takes) == len(arguments)), None)
    if fitting is None:
        _refuse(node, f"{node.name} is written {_form(node.name)}")
    for argument, takes in zip(arguments, fitting.takes, strict=True):
        found = _type_of(argument, scope)
        if found.kind not in takes and found.kind != "any":
            hint = _IN_A_LIST if found.kind == "list" and node.name == "contains" else ""
            _refuse(argument, f"{node.name} takes no {_bare(found)}{hint}")
    return fitting.gives


_IN_A_LIST = "; of a list, write: VALUE in LIST"


def _bare(found: CelType) -> str:
    return found.called.removeprefix("a ").removeprefix("an ")


def _form(name: str) -> str:
    """How a function is called."""
    if name == "has":
        return "has(OBJECT.MEMBER)"
    if name in _LOOPS:
        return f"LIST.{name}(x, ...)"
    form = _FUNCTIONS[name][0]
    rest = ", ".join("..." for _ in form.takes[1:])
    return f"VALUE.{name}({rest})" if form.of_target else f"{name}(...)"


def _of_loop(node: Loop, scope: Scope) -> CelType:
    over = _type_of(node.over, scope)
    if over.kind not in ("list", "map", "any"):
        _refuse(node, f"{node.macro} goes over a list, found {over.called}")
    item = TEXT if over.kind == "map" else over.item or ANY
    inside = {**scope, node.variable: item}
    types = [_type_of(body, inside) for body in node.bodies]
    if node.macro != "map" or len(types) == 2:
        _expect_bool(node.bodies[0], types[0])
    if node.macro == "map":
        return list_of(types[-1])
    return list_of(item) if node.macro == "filter" else BOOL


def _expect_bool(node: Node, found: CelType) -> None:
    if found.kind not in ("bool", "any"):
        _refuse(node, f"expected true or false, found {found.called}")


def _of_operation(node: Operation, scope: Scope) -> CelType:
    left = _type_of(node.operands[0], scope)
    if node.operators[0] in ("&&", "||"):
        _expect_bool(node.operands[0], left)
    for operator, operand in zip(node.operators, node.operands[1:], strict=True):
        right = _type_of(operand, scope)
        left = _applied(operator, left, right, operand)
    return left


def _applied(operator: str, left: CelType, right: CelType, operand: Node) -> CelType:
    """The type of ``left operator right``."""
    if operator in ("&&", "||"):
        _expect_bool(operand, right)
        return BOOL
    if operator == "in":
        return _applied_in(left, right, operand)
    if operator in ("==", "!="):
        _refuse_whole(left, operand)
        _refuse_whole(right, operand)
        if not _comparable(left, right):
            never = "never equal" if operator == "==" else "always unequal"
            _refuse(operand, f"{left.called} and {right.called} are {never}")
        return BOOL
    if operator in ("<", "<=", ">", ">="):
        if not _ordered(left, right):
            _refuse(operand, f"{operator} cannot compare {left.called} with {right.called}")
        return BOOL
    return _calculated(operator, left, right, operand)


def _refuse_whole(found: CelType, operand: Node) -> None:
    """Refuse what has members of its own: of a call, an expression is handed over only what it names."""
    if found.kind == "list" and found.item is not None:
        _refuse_whole(found.item, operand)
    elif found.fields is not None:
        (member, *_) = found.fields
        _refuse(operand, f"{found.called} cannot be compared as a whole; compare its members, such as .{member}")


def _comparable(left: CelType, right: CelType) -> bool:
    kinds = {left.kind, right.kind}
    return len(kinds) == 1 or kinds <= _NUMBERS or not kinds.isdisjoint(("any", "null"))


def _ordered(left: CelType, right: CelType) -> bool:
    kinds = {left.kind, right.kind} - {"any"}
    return kinds <= _NUMBERS or (len(kinds) == 1 and kinds <= _ORDERED)


def _applied_in(left: CelType, right: CelType, operand: Node) -> CelType:
    if right.kind not in ("list", "map", "any"):
        hint = "; of a text, write: TEXT.contains(PART)" if right.kind == "text" else ""
        _refuse(operand, f"expected a list or an object after 'in', found {right.called}{hint}")
    if right.kind == "map" and left.kind not in _KEYS:
        _refuse(operand, f"{left.called} is not a key of an object")
    _refuse_whole(left, operand)
    item = TEXT if right.fields is not None else right.item
    if item is not None and not _comparable(left, item):
        _refuse(operand, f"{left.called} is never in {right.called} whose items are {item.called}")
    return BOOL


def _calculated(operator: str, left: CelType, right: CelType, operand: Node) -> CelType:
    if "any" in (left.kind, right.kind):
        return ANY
    if left.kind == right.kind and left.kind in _WITHIN[operator]:
        return left if left == right else list_of(ANY)
    if (found := _ARITHMETIC[operator].get((left.kind, right.kind))) is not None:
        return found
    mixed = {left.kind, right.kind} <= _NUMBERS and left.kind != right.kind
    hint = "; write 1.0 and not 1, or double(...)" if mixed else ""
    _refuse(operand, f"{operator} has no meaning for {left.called} and {right.called}{hint}")


def _of_unary(node: Unary, scope: Scope) -> CelType:
    found = _type_of(node.operand, scope)
    if node.operator == "!":
        _expect_bool(node.operand, found)
        return BOOL
    if found.kind not in ("int", "double", "any"):
        _refuse(node.operand, f"- has no meaning for {found.called}")
    return found


def _of_choice(node: Choice, scope: Scope) -> CelType:
    _expect_bool(node.condition, _type_of(node.condition, scope))
    return _common([_type_of(node.yes, scope), _type_of(node.no, scope)])


def _common(types: Sequence[CelType]) -> CelType:
    """The type of all, if they have one."""
    return types[0] if types and all(found == types[0] for found in types) else ANY


def _of_list(node: ListOf, scope: Scope) -> CelType:
    return list_of(_common([_type_of(item, scope) for item in node.items]))


def _of_map(node: MapOf, scope: Scope) -> CelType:
    for key, value in node.entries:
        found = _type_of(key, scope)
        if found.kind not in _KEYS:
            _refuse(key, f"expected a whole number, a text, true or false as key, found {found.called}")
        _type_of(value, scope)
    return MAP


_TYPED: dict[type, Callable[..., CelType]] = {
    Constant: _of_constant,
    Name: _of_name,
    Member: _of_member,
    Item: _of_item,
    Call: _of_call,
    Loop: _of_loop,
    Operation: _of_operation,
    Unary: _of_unary,
    Choice: _of_choice,
    ListOf: _of_list,
    MapOf: _of_map,
}
