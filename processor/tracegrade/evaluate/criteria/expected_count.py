"""A number of calls that is expected: an operator and a number, ``["<=", 3]``."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from tracegrade.document.problem import MEANT_OPERATORS, did_you_mean

_OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


_WORDS = {
    "=": "exactly",
    "==": "exactly",
    "!=": "not exactly",
    ">": "more than",
    "<": "less than",
    ">=": "at least",
    "<=": "at most",
}


@dataclass(frozen=True, slots=True)
class ExpectedCount:
    """A comparison with a number of calls."""

    operator: str
    count: int

    def holds(self, actual: int) -> bool:
        """Whether `actual` calls are as expected."""
        return _OPERATORS[self.operator](actual, self.count)

    def holds_from(self, actual: int) -> set[bool]:
        """Whether `actual` calls are as expected, and any larger number of them: what the answers may be."""
        return {self.holds(number) for number in (actual, max(actual, self.count), max(actual, self.count) + 1)}

    @property
    def words(self) -> str:
        """It as a person would say it: ``at most 3 times``."""
        return f"{_WORDS[self.operator]} {self.count} {'time' if self.count == 1 else 'times'}"

    def __str__(self) -> str:
        return f"{self.operator} {self.count}"


def _validate_count(value: Any) -> ExpectedCount:
    if isinstance(value, ExpectedCount):
        return value
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError('expected an operator and a number of calls, such as ["<=", 3]')
    sign, count = value
    if not isinstance(sign, str) or sign not in _OPERATORS:
        meant = MEANT_OPERATORS.get(sign) if isinstance(sign, str) else None
        hint = f"; did you mean {meant!r}?" if meant else did_you_mean(str(sign), _OPERATORS)
        raise ValueError(f"no operator {sign!r}{hint}")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ValueError(f"expected a number of calls from 0, found {count!r}")
    return ExpectedCount(sign, count)


_COUNT_SCHEMA = {
    "type": "array",
    "prefixItems": [{"enum": list(_OPERATORS)}, {"type": "integer", "minimum": 0}],
    "minItems": 2,
    "maxItems": 2,
}
Count: TypeAlias = Annotated[
    ExpectedCount,
    PlainValidator(_validate_count),
    PlainSerializer(lambda count: [count.operator, count.count]),
    WithJsonSchema(_COUNT_SCHEMA),
]
