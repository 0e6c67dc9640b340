"""Values of a kind that their attribute, or their member of it, never has: each trace is read all the same."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from build import each
from extract.test_cases import CASES, records
from extract.test_registry import read_case
from tracegrade.display import json_text
from tracegrade.extract.extract import extract
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

Path = tuple[str | int, ...]

NOT_HASHABLE: list[JsonValue] = [["tool"], {"a": {"b": 1}}]
OTHERS: list[JsonValue] = [None, True, 7, 0.5, "", "[", "{}", "null", "[[1]]", [], [{"a": [1]}], {}]


def paths(value: JsonValue, path: Path = ()) -> Iterator[Path]:
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from paths(member, (*path, key))


def put(value: JsonValue, path: Path, new: JsonValue) -> JsonValue:
    if not path:
        return new
    changed = value.copy() if isinstance(value, dict | list) else value
    changed[path[0]] = put(changed[path[0]], path[1:], new)  # type: ignore[index,call-overload]
    return changed


def in_text(raw: JsonValue) -> JsonValue:
    try:
        return json.loads(raw) if isinstance(raw, str) and raw[:1] in ("[", "{") else None
    except ValueError:
        return None


def changed_attributes(
    attributes: dict[str, JsonValue], values: list[JsonValue], seen: set[object], of: object
) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """The attributes with each of them, and each member of each, as each of the values; of equal places, the first."""
    for key, raw in attributes.items():
        held = in_text(raw)
        for path in [*paths(raw), *((None, *path) for path in paths(held))] if held is not None else paths(raw):
            place = (of, key, tuple("#" if isinstance(step, int) else step for step in path))
            if place in seen:
                continue
            seen.add(place)
            for value in values:
                new = json.dumps(put(held, path[1:], value)) if path[:1] == (None,) else put(raw, path, value)  # type: ignore[arg-type]
                yield f"{key} {path}: {value!r}", {**attributes, key: new}


def changed_spans(span: Span, values: list[JsonValue], seen: set[object]) -> Iterator[tuple[str, Span]]:
    for what, attributes in changed_attributes(span.attributes, values, seen, span.scope):
        yield what, replace(span, attributes=attributes)
    for place, event in enumerate(span.events):
        for what, attributes in changed_attributes(event.attributes, values, seen, (span.scope, event.name)):
            events = [*span.events[:place], replace(event, attributes=attributes), *span.events[place + 1 :]]
            yield f"{event.name} {what}", replace(span, events=events)


@each(
    "values",
    [pytest.param(NOT_HASHABLE, id="not hashable"), pytest.param(OTHERS, id="others", marks=pytest.mark.long)],
)
def test_each_value_of_each_case_may_be_of_any_kind(values: list[JsonValue]) -> None:
    seen: set[object] = set()
    failed = []
    for case in CASES:
        trace = read_case(case)
        for place, span in enumerate(trace.spans):
            for what, changed in changed_spans(span, values, seen):
                spans = [*trace.spans[:place], changed, *trace.spans[place + 1 :]]
                try:
                    json_text(records(extract(replace(trace, spans=spans))))
                except Exception as error:
                    failed.append(f"{case.stem}: {what}: {error!r}")
    assert not failed
