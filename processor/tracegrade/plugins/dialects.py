"""Dialects of installed packages: the entry-point group ``tracegrade.dialects``, checked when they are loaded."""

from collections.abc import Collection, Sequence
from typing import get_args

from tracegrade.extract.reading import Dialect, Holds, Keys, SpanKind
from tracegrade.model.span import Span
from tracegrade.plugins.entry_points import Plugin

_FUNCTIONS = ("classify", *(field for field, default in Dialect._field_defaults.items() if callable(default)))
_TUPLES = ("prefixes", "own_names", "schemas_in", "metadata", "agent_metadata")
_KINDS: tuple[SpanKind, ...] = get_args(SpanKind)


def put_in_force(found: Sequence[Plugin[Dialect]]) -> None:
    """Have these dialects asked before ours.

    Raises:
        TraceGradeError: one is not what a dialect must be.
    """
    from tracegrade.extract.registry import DIALECTS, put_first

    for plugin in found:
        if (mistake := _mistake(plugin.member, plugin.name, DIALECTS)) is not None:
            raise plugin.error(mistake)
    put_first({plugin.name: _with_known_kinds(plugin.member) for plugin in found})


def _with_known_kinds(dialect: Dialect) -> Dialect:
    """The dialect, whose ``classify`` raises ValueError where it gives a kind that there is not."""

    def classify(span: Span) -> SpanKind | None:
        kind = dialect.classify(span)
        if kind is not None and kind not in _KINDS:
            expected = ", ".join(_KINDS)
            raise ValueError(
                f"classify of dialect {dialect.name!r}: expected None or one of {expected}, found {kind!r}"
            )
        return kind

    return dialect._replace(classify=classify)


def _mistake(dialect: Dialect, name: str, taken: Collection[str]) -> str | None:
    if dialect.name != name:
        return f"expected a dialect of the entry point's name, found the name {dialect.name!r}"
    if name in taken:
        return f"the name {name!r} is taken by a dialect that TraceGrade has"
    if not isinstance(dialect.keys, Keys):
        return f"keys: expected tracegrade.extract.reading.Keys, found {type(dialect.keys).__name__}"
    if not isinstance(dialect.holds, Holds):
        return f"holds: expected tracegrade.extract.reading.Holds, found {type(dialect.holds).__name__}"
    if not dialect.marks:
        return "expected marks, the attribute keys by which its spans are known, found none"
    texts: list[tuple[str, type, Collection[str]]] = [
        ("marks", frozenset, dialect.marks),
        ("events", frozenset, dialect.events),
        *((field, tuple, getattr(dialect, field)) for field in _TUPLES),
        *((f"keys.{field}", tuple, value) for field, value in dialect.keys._asdict().items()),
        *((f"holds.{field}", tuple, value) for field, value in dialect.holds._asdict().items()),
    ]
    for field, kind, value in texts:
        # A single text would be read as its letters, and an empty prefix keeps everything.
        if not isinstance(value, kind) or not all(isinstance(text, str) and text for text in value):
            return f"{field}: expected a {kind.__name__} of non-empty texts, found {value!r}"
    for field in _FUNCTIONS:
        if not callable(getattr(dialect, field)):
            return f"{field}: expected a function, found {getattr(dialect, field)!r}"
    return None
