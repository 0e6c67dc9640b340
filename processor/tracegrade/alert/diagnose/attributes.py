"""The values that attributes have in stored traces."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, select

from tracegrade.alert.diagnose.cases import Case
from tracegrade.codec.kept_spans import decode_spans
from tracegrade.codec.packing import Unreadable
from tracegrade.display import json_text
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span
from tracegrade.model.trace import SPAN_ORDER
from tracegrade.store.database import rows_in
from tracegrade.store.schema import traces

_LONGEST = 80  # characters of a value; longer ones are texts, which no two results share


def attributes_of(
    connection: Connection, cases: Sequence[Case], names: Sequence[str]
) -> dict[tuple[int, str], Mapping[str, str]]:
    """The values of attributes as text, by the row and the subject of each case, without absent and long ones.

    They are looked up where clauses of rules look them up: in the subject's span, then the root, then the resource.
    Traces whose spans cannot be read are left out.
    """
    subjects = defaultdict[int, set[str]](set)
    for case in cases:
        subjects[case.number].add(case.subject)
    found: dict[tuple[int, str], Mapping[str, str]] = {}
    query = select(traces.c.number, traces.c.spans)
    for number, blob in rows_in(connection, query, traces.c.number, sorted(subjects)):
        try:
            spans = sorted(decode_spans(bytes(blob)).spans, key=SPAN_ORDER)
        except Unreadable:  # damaged, or of another version: others tell enough
            continue
        for subject in subjects[number] if spans else ():
            found[number, subject] = _values(spans, subject, names)
    return found


def _values(spans: Sequence[Span], subject: str, names: Sequence[str]) -> dict[str, str]:
    own = next((span for span in spans if span.span_id.hex() == subject.partition("/")[0]), None)
    root = next((span for span in spans if span.is_local_root), spans[0])
    places = [*([own.attributes] if own is not None else ()), root.attributes, (own or root).resource.attributes]
    texts = ((name, _text(place[name])) for place in reversed(places) for name in names if name in place)
    return {name: text for name, text in texts if 0 < len(text) <= _LONGEST}


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json_text(value)
