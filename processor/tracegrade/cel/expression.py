"""An expression of the Common Expression Language: the clause ``cel`` of a rule, and what `condition` judges by.

It sees what `types.VARIABLES` lists, and one that names anything else is refused. An expression that fails on a
subject, because something that it reads is not there or has another type, can neither be called true nor false; nor can
one whose work is not bounded by the subject's size.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from tracegrade.cel.calls import Extent
from tracegrade.cel.check import CelTypeError, check
from tracegrade.cel.redacted import GONE, asked_in_vain, known, redacted_read
from tracegrade.cel.syntax import (
    Call,
    CelSyntaxError,
    Constant,
    Item,
    Loop,
    Member,
    Name,
    Node,
    Operation,
    every_node,
    parse,
)
from tracegrade.cel.variables import CALL_VALUES
from tracegrade.cel.with_more_calls import staying
from tracegrade.document.problem import MEANT_OPERATORS
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tri import ANSWER_UNREADABLE, PROMPT_UNREADABLE, Tri, Unknown, UnknownPart

if TYPE_CHECKING:
    from cel import Context, Program

_MAX_SOURCE = 4096
MAX_STEPS = 1_000_000
"""Most turns of loops inside each other; one takes 1.6 µs (measured)."""
_WEIGHT_PER_STEP = 8  # that is copied and compared


Variables: TypeAlias = Callable[[], Mapping[str, Callable[[], JsonValue]]]
"""All variables of a subject, each with a function that works it out; one that gives None is undefined."""


class _Pattern(NamedTuple):
    """The steps that ``matches`` takes: to compile its pattern, and to search what weighs 1."""

    compiling: int
    searching: int


_UNKNOWN_PATTERN = _Pattern(100_000, 1000)  # of which nobody knows before what it is
_UNDEFINED = re.compile(r"Undefined variable or function: '(\w+)'")
_NOT_KNOWN = {
    "prompt": PROMPT_UNREADABLE,
    "answer": ANSWER_UNREADABLE,
    "tokens": "no tokens were recorded",
    "cost": "what the model calls cost is not known",
}
_TEXT = re.compile(r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""")
# What other languages write, and CEL.
_WRITTEN = (
    *((re.escape(found), meant) for found, meant in MEANT_OPERATORS.items()),
    (r"(?i)\band\b", "&&"),
    (r"(?i)\bor\b", "||"),
    (r"(?i)\bnot\b", "!"),
    (r"(?<![=!<>])=(?![=<>])", "=="),
)


class CelExpression:
    """One compiled expression; ``source`` is the text, ``attributes`` the names of those it reads.

    ``tree`` is its syntax, ``loops`` the number of its ``all``, ``exists``, ``filter`` and ``map``. ``reads_values``
    says whether it may read what calls were given or what they returned, ``reads_handoffs`` whether it reads handoffs,
    ``texts_read`` are those of `prompt` and `answer` that it names,
    ``staying`` which of its results stay as they are if more calls were made than are known.

    Raises:
        ValueError: it does not compile, or names what there is not.
    """

    __slots__ = (
        "_joins",
        "_loops_over_calls",
        "_patterns",
        "_program",
        "_references",
        "_variables",
        "attributes",
        "loops",
        "reads_handoffs",
        "reads_values",
        "source",
        "staying",
        "texts_read",
        "tree",
    )

    def __init__(self, source: str, *, judges: bool = False) -> None:
        """Read `source`; `judges`: it may also name what is known of a subject only when it is judged."""
        if len(source) > _MAX_SOURCE:
            raise ValueError(f"expected an expression of at most {_MAX_SOURCE} characters, found {len(source)}")
        self.source = source
        self._program = _compiled(source)
        try:
            self.tree = tree = parse(source)
            check(tree, judges=judges)
        except (CelSyntaxError, CelTypeError) as error:
            raise ValueError(f"at character {error.at + 1} of {source!r}: {error}") from None
        nodes = list(every_node(tree))
        self.loops = sum(isinstance(node, Loop) for node in nodes)
        self._loops_over_calls = sum(isinstance(node, Loop) and _is_over_calls(node) for node in nodes)
        self._references = sum(isinstance(node, Name) for node in nodes) - self.loops
        self._joins = sum(node.operators.count("+") for node in nodes if isinstance(node, Operation))
        self._patterns = [_pattern(node) for node in nodes if isinstance(node, Call) and node.name == "matches"]
        self.texts_read = _TEXTS & {node.name for node in nodes if isinstance(node, Name)}
        self.reads_values = any(map(_may_read_values, nodes))
        self.reads_handoffs = any(isinstance(node, Name) and node.name == "handoffs" for node in nodes)
        self.staying = staying(tree)
        self.attributes = _attributes_in(nodes, source)
        self._variables = self._program.variables()

    def holds(self, context: "CelContext", variables: Variables, extent: Extent | None) -> Tri:
        """Whether the expression is true; unknown where it fails, for the reason in ``said``.

        Args:
            context: the variables of the subject that were named before.
            variables: gives all of them, as of `CelContext.having`.
            extent: how much there is to read; None where it `may_be_too_much` not.
        """
        if extent is not None and (why := self.too_much(extent)):
            return Unknown("too_large", said=f"cel: {why}")
        named = context.having(self._variables, variables)
        if context.redacted and (path := asked_in_vain(self.tree, context.values)) is not None:
            return _was_redacted(path)
        try:
            result = self._program.execute(named)
        except Exception as error:  # whatever the expression does wrong with these values
            missing: Any = error.args[0] if isinstance(error, KeyError) else ""
            part: UnknownPart = missing if missing in CALL_VALUES else ""
            path = redacted_read(self.tree, context.values) if context.redacted and not part else None
            if path is not None:
                return _was_redacted(path)
            return Unknown("absent" if part else "failed", part, said=f"cel: {_reason(error)}")
        if isinstance(result, bool):
            return result
        said = f"cel: expected true or false, found a value of type {type(result).__name__}"
        return Unknown("failed", said=said)

    @property
    def may_be_too_much(self) -> bool:
        """Whether `too_much` has to be asked: one loop at most, that joins no texts and has no patterns, is linear."""
        return self.loops > 1 or bool(self._joins or self._patterns)

    def too_much(self, extent: Extent) -> str:
        """Why its work is beyond `MAX_STEPS`, each as long as a turn of a loop that reads a name; "" if it is not.

        The library copies a value whenever it is named, copies both texts that are joined, and compiles a pattern each
        time it is asked for.
        """
        written = self.source.count(",") + 1  # items, at the most
        over_calls, others = self._loops_over_calls, self.loops - self._loops_over_calls
        turns = max(1, extent.calls) ** over_calls * max(written, extent.items) ** others
        read = turns * extent.largest if self.loops > 1 else extent.total
        copied = self._references * read // _WEIGHT_PER_STEP if self.loops > 1 else 0
        joined = extent.total * (1 + self._joins) ** (1 + max(1, self.loops)) // _WEIGHT_PER_STEP if self._joins else 0
        matched = sum(turns * pattern.compiling + read * pattern.searching for pattern in self._patterns)
        if turns + copied + joined + matched <= MAX_STEPS:
            return ""
        if turns > MAX_STEPS:
            items = extent.items if others else extent.calls
            return f"{self.loops} loops over {items} items inside each other are more than {MAX_STEPS} turns"
        what, _ = max(
            ("loops over so large values", copied), ("texts joined so often", joined), ("patterns", matched),
            key=lambda part: part[1],
        )  # fmt: skip
        return f"{what} are more work than {MAX_STEPS} turns of a loop"

    def __repr__(self) -> str:
        return f"CelExpression({self.source!r})"


def _is_over_calls(loop: Loop) -> bool:
    """Whether it has a turn for each call at the most: it is over `calls`, or over some of them."""
    over = loop.over
    while isinstance(over, Loop) and over.macro in ("filter", "map"):
        over = over.over
    return isinstance(over, Name) and over.name == "calls"


def _pattern(call: Call) -> _Pattern:
    """What ``matches`` takes, by measurements.

    To compile a pattern 100 µs, 0.7 µs an instruction and 1 µs a character; to search 16 ns an instruction at each
    character, with the classes of ASCII.
    """
    pattern = call.arguments[-1] if call.arguments else None
    if not (isinstance(pattern, Constant) and pattern.kind == "text"):
        return _UNKNOWN_PATTERN
    import re2  # for those that match a pattern

    options = re2.Options()
    options.log_errors = False
    try:
        searched = re2.compile(pattern.text.encode(), options).programsize
        # The library that judges has the classes of Unicode.
        compiled = re2.compile(_CLASS.sub(r"[\\pL\\pN_]", pattern.text).encode(), options).programsize
    except (re2.error, UnicodeEncodeError):
        return _UNKNOWN_PATTERN
    return _Pattern(60 + (compiled + len(pattern.text)) // 2, 3 * searched)


_CLASS = re.compile(r"\\[wWdD]")
_TEXTS = frozenset({"prompt", "answer"})


def _was_redacted(path: str) -> Unknown:
    return Unknown("redacted", said=f"{path} was redacted, and the expression reads it")


def _may_read_values(node: Node) -> bool:
    match node:
        case Member(_, _, name) | Item(_, _, Constant(_, "text", name)):
            return name in CALL_VALUES
        case Call(_, "dyn"):
            return True  # whose result may be compared as a whole
        case _:
            return False


def _compiled(source: str) -> "Program":
    from cel import compile  # 0.3 s and 30 MiB: for the rules that use it

    try:
        return compile(source)
    except Exception as error:  # its parser may also panic, which is no ValueError
        raise ValueError(f"no CEL expression: {_syntax(str(error))}{_spelling_hint(source)}") from None


def _syntax(message: str) -> str:
    """The first mistake of a parser's report: ``line:column: what is wrong``."""
    found = re.search(r"<input>:(\d+:\d+: .*)", message)
    text = found[1] if found else message.partition("\n")[0]
    return text.partition(" expecting {")[0]


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]}"
    if (undefined := _UNDEFINED.match(str(error))) is not None:
        return _NOT_KNOWN.get(undefined[1], f"{undefined[1]} is not known here")
    return str(error).partition(". ")[0].partition("\n")[0]


def _spelling_hint(source: str) -> str:
    """A hint on the first construct that is another language's."""
    bare = _TEXT.sub('""', source)
    for found, meant in _WRITTEN:
        if (there := re.search(found, bare)) is not None:
            return f"; {there[0]!r} is written {meant!r}"
    return ""


def _attributes_in(nodes: Iterable[Node], source: str) -> frozenset[str]:
    """The attributes that an expression reads: only those are kept of a span.

    Raises:
        ValueError: an attribute is not named by a text, so that the names are unknown.
    """
    names: set[str] = set()
    mentioned = 0
    for node in nodes:
        match node:
            case Member(_, Name(_, "attributes"), name):
                names.add(name)
            case Item(_, Name(_, "attributes"), Constant(_, "text", name)):
                names.add(name)
            case Operation(_, ("in",), (Constant(_, "text", name), Name(_, "attributes"))):
                names.add(name)
            case Name(_, "attributes"):
                mentioned += 1
                continue
            case _:
                continue
        mentioned -= 1
    if mentioned:
        raise ValueError(
            f'expected attributes["NAME"] or "NAME" in attributes in {source!r}: others are not kept of a span'
        )
    return frozenset(names)


def _as_expression(value: Any, *, judges: bool = False) -> CelExpression:
    if isinstance(value, CelExpression):
        return value
    if not isinstance(value, str):
        raise ValueError(f"expected a CEL expression as text, found {value!r}")
    return CelExpression(value, judges=judges)


class CelContext:
    """The variables of one subject, for all expressions; each is worked out when an expression first names it.

    It does not keep what gives them: that knows the subject, which would know this again, and no trace be freed.
    ``redacted``: something of the subject was redacted by us. ``values`` are then those that were named, as they came.
    """

    __slots__ = ("_context", "_had", "redacted", "values")

    def __init__(self, *, redacted: bool = False) -> None:
        from cel import Context

        self._context = Context()
        self._had: set[str] = set()
        self.redacted = redacted
        self.values: dict[str, JsonValue] = {}

    def having(self, names: Iterable[str], variables: Variables) -> "Context":
        """The context with `names` in it; `variables` gives all that there are, where one was not named before.

        They are handed over before: what the interpreter asks for on its way, it translates for each turn of a loop.
        """
        if not (new := [name for name in names if name not in self._had]):
            return self._context
        self._had.update(new)
        given = variables()
        for name in new:
            if (work_out := given.get(name)) is None or (value := work_out()) is None:
                continue
            if self.redacted:
                self.values[name] = value
                value = known(value)
            if value is not GONE:
                self._context.add_variable(name, value)
        return self._context


Cel: TypeAlias = Annotated[
    CelExpression | None,
    PlainValidator(_as_expression),
    PlainSerializer(lambda expression: expression and expression.source),
    WithJsonSchema({"type": "string", "maxLength": _MAX_SOURCE}),
]
"""The clause: matching reads it."""

Condition: TypeAlias = Annotated[
    CelExpression,
    PlainValidator(lambda value: _as_expression(value, judges=True)),
    PlainSerializer(lambda expression: expression.source),
    WithJsonSchema({"type": "string", "maxLength": _MAX_SOURCE}),
]
"""The criterion: judging reads it."""
