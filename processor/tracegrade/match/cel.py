"""The ``cel`` clause: an expression of the Common Expression Language that must be true.

It sees ``service``, ``environment``, ``release``, ``agent`` and ``prompt`` (texts; "" for what the resource does not
say), ``tools`` (the names called), ``attributes`` (``attributes["tenant.tier"]``, looked up as by the clause of that
name), ``calls`` (each ``name``, ``failed`` and ``duration_ms``) and ``trace`` (``id``, ``duration_ms``, ``span_count``,
``complete``, ``session``). An expression that fails on a subject, because an attribute or the prompt is not there or
types do not fit, makes it not_evaluable; so does one whose work is not bounded by the subject's size.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from tracegrade.yaml_file import did_you_mean

if TYPE_CHECKING:
    from cel import Context, Program

VARIABLES = ("agent", "attributes", "calls", "environment", "prompt", "release", "service", "tools", "trace")

_MAX_SOURCE = 4096
_MAX_STEPS = 1_000_000  # of loops inside each other
_FUNCTIONS = frozenset(
    (
        *("all", "bool", "bytes", "contains", "double", "duration", "endsWith", "exists", "exists_one", "filter"),
        *("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds"),
        *("getMinutes", "getMonth", "getSeconds", "has", "int", "map", "matches", "max", "min", "size", "startsWith"),
        *("string", "timestamp", "type", "uint"),
    )
)
_LOOP = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(\s*([A-Za-z_]\w*)\s*,")
_TEXT = re.compile(r"""(?<![A-Za-z0-9_])[rR]?("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""")
_ATTRIBUTES = re.compile(r"(?<![\w.])attributes\b")
_BY_NAME = re.compile(r"\s*(?:\[\s*(\d+)§\s*\]|\.\s*([A-Za-z_]\w*))")
_ASKED = re.compile(r"(\d+)§\s+in\s*$")


class CelExpression:
    """One compiled expression; ``source`` is the text, ``attributes`` the names of those it reads.

    ``loops`` is the number of its ``all``, ``exists``, ``filter`` and ``map``.

    Raises:
        ValueError: it does not compile, or names what there is not.
    """

    __slots__ = ("_program", "_variables", "attributes", "loops", "source")

    def __init__(self, source: str) -> None:
        if len(source) > _MAX_SOURCE:
            raise ValueError(f"expected an expression of at most {_MAX_SOURCE} characters, found {len(source)}")
        self.source = source
        self._program = _compiled(source)
        loops = _LOOP.findall(source)
        self.loops = len(loops)
        self._variables = self._program.variables()
        for name in self._variables:
            if name not in VARIABLES and name not in loops:
                raise ValueError(f"no variable {name!r} in {source!r}{did_you_mean(name, VARIABLES)}")
        for name in self._program.functions():
            if name.isidentifier() and not name.startswith("_") and name not in _FUNCTIONS:
                raise ValueError(f"no function {name!r} in {source!r}{did_you_mean(name, _FUNCTIONS)}")
        self.attributes = _attributes_in(source)

    def holds(self, context: "CelContext", longest: int) -> bool | str:
        """Whether the expression is true; a text says why that cannot be told.

        Args:
            context: the subject's variables.
            longest: the number of items in the longest list among them.
        """
        if self.loops > 1 and max(longest, self.source.count(",") + 1) ** self.loops > _MAX_STEPS:
            return f"cel: {self.loops} loops over {longest} items are too much work"
        try:
            result = self._program.execute(context.having(self._variables))
        except Exception as error:  # whatever the expression does wrong with these values
            return f"cel: {_reason(error)}"
        if isinstance(result, bool):
            return result
        return f"cel: expected true or false, found a value of type {type(result).__name__}"

    def __repr__(self) -> str:
        return f"CelExpression({self.source!r})"


def _compiled(source: str) -> "Program":
    from cel import compile  # 0.3 s and 30 MiB: for the rules that use it

    try:
        return compile(source)
    except Exception as error:  # its parser may also panic, which is no ValueError
        raise ValueError(f"no CEL expression: {_syntax(str(error))}") from None


def _syntax(message: str) -> str:
    """The first mistake of a parser's report: ``line:column: what is wrong``."""
    found = re.search(r"<input>:(\d+:\d+: .*)", message)
    text = found[1] if found else message.partition("\n")[0]
    return text.partition(" expecting {")[0]


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]}"
    return str(error).partition(". ")[0].partition("\n")[0]


def _attributes_in(source: str) -> frozenset[str]:
    """The attributes that an expression reads: only those are kept of a span.

    Raises:
        ValueError: one is not named by a text, so that nobody can tell.
    """
    texts: list[str] = []

    def remember(found: re.Match[str]) -> str:
        texts.append(found[1][1:-1])
        return f"{len(texts) - 1}§"

    bare = _TEXT.sub(remember, source)
    names = set()
    for found in _ATTRIBUTES.finditer(bare):
        asked, read = _ASKED.search(bare, 0, found.start()), _BY_NAME.match(bare, found.end())
        if asked is not None:
            names.add(texts[int(asked[1])])
        elif read is not None:
            names.add(texts[int(read[1])] if read[1] is not None else read[2])
        else:
            raise ValueError(
                f'expected attributes["NAME"] or "NAME" in attributes in {source!r}: others are not kept of a span'
            )
    return frozenset(names)


def _read(value: Any) -> CelExpression:
    if isinstance(value, CelExpression):
        return value
    if not isinstance(value, str):
        raise ValueError(f"expected a CEL expression as text, found {value!r}")
    return CelExpression(value)


class CelContext:
    """The variables of one subject, for all expressions; each is worked out when an expression first names it.

    ``variables`` has a function without arguments for each; one that gives None is an undefined variable.
    """

    __slots__ = ("_context", "_left")

    def __init__(self, variables: Mapping[str, Callable[[], object]]) -> None:
        from cel import Context

        self._context = Context()
        self._left = dict(variables)

    def having(self, names: Iterable[str]) -> "Context":
        """The context with `names` in it.

        They are handed over before: what the interpreter asks for on its way, it translates for each turn of a loop.
        """
        for name in names:
            if (work_out := self._left.pop(name, None)) is not None and (value := work_out()) is not None:
                self._context.add_variable(name, value)
        return self._context


Cel: TypeAlias = Annotated[
    CelExpression | None,
    PlainValidator(_read),
    PlainSerializer(lambda expression: expression and expression.source),
    WithJsonSchema({"type": "string", "maxLength": _MAX_SOURCE}),
]
