"""Values that a clause compares with: globs for names, exact text for tenants and prompts, scalars, ``{$regex}``."""

import re
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from tracegrade.evaluate.criteria.regular_expressions import (
    glob_expression,
    is_glob,
    longest_searched,
    regex_expression,
)
from tracegrade.model.agent_run import normalised_prompt
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tenant import TENANT_PATTERN, checked_tenant
from tracegrade.rule.mistakes import mistake, refuse
from tracegrade.semconv import SMOLAGENTS_FINAL_ANSWER

# Distinct values remembered per clause: service, agent and tool names are few; beyond that forget, never grow. Longer
# texts are prompts and documents: they do not repeat, and are not remembered.
MEMO_SIZE = 4096
LONGEST_REMEMBERED = 256

# Names that stand in the bytes of a span as they are, whatever writes them: no encoder of JSON or Python escapes these
# characters, and no number and no base64 text, which is what other values are read as, looks so.
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{2,}")
_ONLY_BASE64 = re.compile(r"(?:[A-Za-z0-9]{4})+")
_NUMBERS = frozenset(("NaN", "Infinity"))
# Names that dialects give to what spans call otherwise.
_GIVEN = frozenset((SMOLAGENTS_FINAL_ANSWER,))

Scalar: TypeAlias = str | int | float | tuple[str, bool]


def _is_plain(name: str) -> bool:
    return bool(_PLAIN_NAME.fullmatch(name)) and not _ONLY_BASE64.fullmatch(name) and name not in _NUMBERS | _GIVEN


class Patterns:
    """Any of several patterns: a value matches when one of them does.

    ``exact`` holds what is compared by equality (as `scalar_key`), ``globs`` and ``regexes`` the texts of those,
    ``written`` the patterns as the file has them.
    """

    __slots__ = ("_expressions", "_longest", "_memo", "exact", "globs", "regexes", "written")

    def __init__(
        self,
        written: JsonValue,
        *,
        exact: frozenset[Scalar] = frozenset(),
        globs: tuple[str, ...] = (),
        regexes: tuple[str, ...] = (),
    ) -> None:
        self.written = written
        self.exact = exact
        self.globs = globs
        self.regexes = regexes
        self._expressions = [*map(glob_expression, globs), *map(regex_expression, regexes)]
        self._longest = longest_searched(self._expressions)
        self._memo: dict[str, bool] = {}

    def is_too_long(self, value: JsonValue) -> bool:
        """Whether a text of `value` is longer than its expressions are sought in, so that it does not match."""
        if isinstance(value, list):
            return any(map(self.is_too_long, value))
        return isinstance(value, str) and bool(self._expressions) and not self._is_searched(value)

    def _is_searched(self, text: str) -> bool:
        # Most texts are far shorter than the bound, whatever their characters take.
        return 4 * len(text) <= self._longest or len(text.encode("utf-8", "replace")) <= self._longest

    @property
    def plain_names(self) -> list[str] | None:
        """The names that are asked for, if each stands in a span as it is, whatever writes it; else None."""
        if self.globs or self.regexes:
            return None
        names = [name for name in self.exact if isinstance(name, str) and _is_plain(name)]
        return names if len(names) == len(self.exact) else None

    def match(self, value: JsonValue) -> bool:
        """Whether `value` matches; of a list, whether one of its items does.

        None never matches, nor does a text that `is_too_long`.
        """
        if isinstance(value, str):
            return value in self.exact or (bool(self._expressions) and self._expression_matches(value))
        if isinstance(value, list):
            return any(self.match(item) for item in value)
        return (scalar := scalar_key(value)) is not None and scalar in self.exact

    def _expression_matches(self, text: str) -> bool:
        found = self._memo.get(text)
        if found is None:
            sought = text.encode("utf-8", "replace")
            found = self._is_searched(text) and any(
                expression.search(sought) is not None for expression in self._expressions
            )
            if len(self._memo) >= MEMO_SIZE:
                self._memo.clear()
            if len(text) <= LONGEST_REMEMBERED:
                self._memo[text] = found
        return found

    def __repr__(self) -> str:
        return f"Patterns({self.written!r})"


def scalar_key(value: JsonValue) -> Scalar | None:
    """A key that two scalars share exactly when they are equal as JSON (1 and 1.0, not 1 and true); else None."""
    if isinstance(value, bool):
        return ("bool", value)
    return value if isinstance(value, str | int | float) else None


class _Collector:
    """Sorts the items of one clause into exact values, globs and regular expressions."""

    def __init__(self) -> None:
        self.exact: set[Scalar] = set()
        self.globs: list[str] = []
        self.regexes: list[str] = []

    def glob(self, text: str) -> None:
        if is_glob(text):
            glob_expression(text)
            self.globs.append(text)
        else:
            self.exact.add(text)

    def regex(self, value: dict[str, JsonValue]) -> None:
        if later := sorted(key for key in value if key.startswith("$") and key != "$regex"):
            raise ValueError(f"this version cannot judge {later[0]!r} in a clause; remove it, or use {{$regex: ...}}")
        pattern = value.get("$regex") if len(value) == 1 else None
        if not isinstance(pattern, str):
            raise ValueError(f"expected {{$regex: TEXT}}, found an object of {', '.join(value) or 'nothing'}")
        regex_expression(pattern)
        self.regexes.append(pattern)


def _collect(written: Any, add: Callable[[_Collector, Any], None]) -> Patterns:
    if isinstance(written, Patterns):
        return written
    collector = _Collector()
    if written is None:
        raise ValueError("expected a value, found nothing; remove the clause or fill it")
    if written == []:
        raise ValueError("expected at least one value, found an empty list, which nothing can match")
    for position, item in enumerate(written) if isinstance(written, list) else ((None, written),):
        try:
            add(collector, item)
        except ValueError as error:
            where = () if position is None else (position,)
            raise refuse([mistake(str(error), *where)]) from None
    return Patterns(
        written,
        exact=frozenset(collector.exact),
        globs=tuple(collector.globs),
        regexes=tuple(collector.regexes),
    )


def _add_name(collector: _Collector, item: object) -> None:
    if not isinstance(item, str):
        raise ValueError(f"expected a text (a glob), found {_found_text(item)}")
    collector.glob(item)


def _add_tenant(collector: _Collector, item: object) -> None:
    if not isinstance(item, str):
        raise ValueError(f"expected the name of a tenant, found {_found_text(item)}")
    collector.exact.add(checked_tenant(item))


def _add_prompt(collector: _Collector, item: object) -> None:
    if isinstance(item, dict):
        collector.regex(item)
    elif isinstance(item, str):
        collector.exact.add(normalised_prompt(item))
    else:
        raise ValueError(f"expected a text or {{$regex: ...}}, found {_found_text(item)}")


def _add_attribute(collector: _Collector, item: Any) -> None:
    if isinstance(item, dict):
        collector.regex(item)
    elif isinstance(item, str):
        collector.glob(item)
    elif (scalar := scalar_key(item)) is not None:
        collector.exact.add(scalar)
    else:
        raise ValueError(f"expected a text, number, true, false or {{$regex: ...}}, found {_found_text(item)}")


def _found_text(item: object) -> str:
    if isinstance(item, dict | list):
        return "an object" if isinstance(item, dict) else "a list"
    return "nothing" if item is None else repr(item)


def _one_or_more(*one: dict[str, Any]) -> WithJsonSchema:
    item = one[0] if len(one) == 1 else {"anyOf": list(one)}
    return WithJsonSchema({"anyOf": [*one, {"type": "array", "minItems": 1, "items": item}]})


_TEXT = {"type": "string"}
_TENANT = {"type": "string", "pattern": f"^{TENANT_PATTERN}$"}
_REGEX = {
    "type": "object",
    "properties": {"$regex": {"type": "string", "description": "An RE2 expression, found anywhere in the text."}},
    "required": ["$regex"],
    "additionalProperties": False,
}
_as_written = PlainSerializer(lambda patterns: patterns and patterns.written)

# None is a clause that was left out; one that is there must hold something.
Names: TypeAlias = Annotated[
    Patterns | None, PlainValidator(lambda value: _collect(value, _add_name)), _as_written, _one_or_more(_TEXT)
]
Tenants: TypeAlias = Annotated[
    Patterns | None, PlainValidator(lambda value: _collect(value, _add_tenant)), _as_written, _one_or_more(_TENANT)
]
Prompts: TypeAlias = Annotated[
    Patterns | None,
    PlainValidator(lambda value: _collect(value, _add_prompt)),
    _as_written,
    _one_or_more(_TEXT, _REGEX),
]
AttributeValues: TypeAlias = Annotated[
    Patterns,
    PlainValidator(lambda value: _collect(value, _add_attribute)),
    _as_written,
    _one_or_more(_TEXT, {"type": "number"}, {"type": "boolean"}, _REGEX),
]
