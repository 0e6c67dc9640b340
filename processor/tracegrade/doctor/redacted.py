"""Values redacted on receipt in the stored traces, by service."""

from collections import Counter
from collections.abc import Iterable, Iterator

import orjson

from tracegrade.doctor.finding import Finding, share
from tracegrade.model.extraction import Extraction
from tracegrade.model.json_value import JsonValue
from tracegrade.model.trace import Trace
from tracegrade.semconv import REDACTED

_SHOWN = 3  # places


def redacted(extractions: Iterable[Extraction]) -> Iterator[Finding]:
    """One finding for each service of which something was redacted: by detector, and where most."""
    traces: Counter[str] = Counter()
    marked: Counter[str] = Counter()
    by_detector: dict[str, Counter[str]] = {}
    by_place: dict[str, Counter[str]] = {}
    for extraction in extractions:
        trace = extraction.trace
        service = trace.spans[0].resource.service if trace.spans else ""
        traces[service] += 1
        found = list(_marks(trace))
        marked[service] += bool(found)
        for place, detector, number in found:
            by_detector.setdefault(service, Counter())[detector] += number
            by_place.setdefault(service, Counter())[place] += number
    for service, of_service in sorted(by_detector.items()):
        named = ", ".join(f"{number} {name}" for name, number in of_service.most_common())
        places = ", ".join(place for place, _ in by_place[service].most_common(_SHOWN))
        text = f"something was redacted in {share(marked[service], traces[service])} traces: {named}; most at {places}"
        advice = "'tracegrade redact --dry-run' shows what 'redaction' takes out; rules can compare what is hashed"
        yield Finding("redaction", "note", service, text, advice, dict(of_service))


def _marks(trace: Trace) -> Iterator[tuple[str, str, int]]:
    """Place, detector and how often, of all marks of a trace."""
    values: list[JsonValue] = [span.attributes.get(REDACTED) for span in trace.spans]
    values += [record.event.attributes.get(REDACTED) for record in trace.log_records]
    for value in values:
        try:
            said = orjson.loads(value) if isinstance(value, str) else {}
        except orjson.JSONDecodeError:  # a sender may write what it likes
            continue
        for place, found in said.items() if isinstance(said, dict) else ():
            for detector, number in found.items() if isinstance(found, dict) else ():
                if isinstance(number, int):
                    yield place, detector, number
