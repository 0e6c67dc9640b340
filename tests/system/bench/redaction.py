"""What redaction takes for personal data or secrets in recorded traces, what it misses of planted ones, and its cost.

    python tests/system/bench/redaction.py FOLDER...                  what is found, and the cost
    python tests/system/bench/redaction.py --planted 5000 FOLDER...   the same, and secrets planted in every folder

FOLDERs hold OTLP files, such as those of a collector's file exporter, in a folder for each dialect. Prints the values
(texts, keys and integers, also those within JSON in texts), how many of them each detector changes with an example of
each, and the CPU time a span: of the look at a request's bytes, of requests in which that finds nothing and of others,
and of the look at the load that throughput is measured with. Planted secrets are made up, each in one of the disguises
of `tests/build/planted.py` or split over two texts, in a value, a key, an error, an event, or a resource.
"""

import argparse
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracegrade.assemble.decode import Decoder
from tracegrade.codec.span_reader import AttributeFilter
from tracegrade.model.json_value import JsonValue
from tracegrade.model.signal import Signal
from tracegrade.otlp.files.report import SourceReport
from tracegrade.otlp.files.sources import read_sources
from tracegrade.receive.redaction import RequestRedactor, trial_redactor
from tracegrade.redact.json_text import Leaf, is_json, rewritten
from tracegrade.redact.requests.item import Redaction
from tracegrade.redact.scan import Scanner
from tracegrade.redact.settings import RedactionSettings
from tracegrade.sensitive.registry import all_detectors

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1])]

from bench import agent_traces  # noqa: E402

from build import planted  # noqa: E402  # the line above makes both importable


def values_in(value: JsonValue) -> int:
    """The number of texts, keys and integers of `value`; a text that is JSON counts as what is in it."""
    if isinstance(value, str):
        if not is_json(value):
            return 1
        found = 0

        def count(text: str, leaf: Leaf, path: object) -> str:
            nonlocal found
            found += values_in(text) if leaf == "text" else 1
            return text

        rewritten(value, count)
        return found
    if isinstance(value, dict):
        return sum(1 + values_in(member) for member in value.values())
    return sum(map(values_in, value)) if isinstance(value, list) else int(type(value) is int)


def requests_in(folder: str) -> list[bytes]:
    """The requests with spans in it."""
    files = [str(path) for path in sorted(Path(folder).rglob("*.binpb")) if ".logs." not in path.name]
    return [request.payload for request in read_sources(files, SourceReport()) if request.signal is Signal.TRACES]


def report_found(requests: Sequence[bytes], redactor: RequestRedactor) -> None:
    """Print what is found in requests of nobody's data, and what looking costs."""
    decoder = Decoder(AttributeFilter(frozenset(), ("",)))
    spans = [len(decoder.spans(request)) for request in requests]
    values = sum(values_in({**span.attributes, "name": span.name}) for one in requests for span in decoder.spans(one))
    scanner = Scanner(all_detectors(), (), {})
    counts: Counter[Redaction] = Counter()
    examples: dict[str, str] = {}
    took: dict[bool, list[float]] = {False: [0.0, 0], True: [0.0, 0]}
    look_s = 0.0
    for request in requests:
        scanner.may_hold(request)  # what is learnt of texts is learnt once a process
    for request, number in zip(requests, spans, strict=True):
        look_s += _cpu_s(lambda request=request: scanner.may_hold(request))
        done: list[Any] = []

        def redact(request: bytes = request, done: list[Any] = done) -> None:
            done.append(redactor.redacted(Signal.TRACES, request, "default", _keep_examples))

        def _keep_examples(redaction: Redaction, value: str) -> None:
            examples.setdefault(redaction.detector, f"{value[:60]!r} at {redaction.place_text}")

        walked = took[scanner.may_hold(request)]
        walked[0] += _cpu_s(redact)
        walked[1] += number
        counts += done[0].counts
    print(f"{sum(spans)} spans, {values} values, {counts.total()} redacted: {counts.total() / values:.3%}")
    by_detector: Counter[str] = Counter()
    for redaction, count in counts.items():
        by_detector[redaction.detector] += count
    for name, number in by_detector.most_common():
        print(f"  {name} {number}: {examples.get(name, '')}")
    print(f"{look_s / sum(spans) * 1e6:.0f} µs a span for the look at the bytes")
    for is_walked, (seconds, number) in took.items():
        what = "that may hold something" if is_walked else "in which nothing can be found"
        print(f"{seconds / max(number, 1) * 1e6:.0f} µs a span in all, of {number:.0f} spans in requests {what}")
    load = agent_traces.template(26)
    scanner.may_hold(load)
    load_us = min(_cpu_s(lambda: scanner.may_hold(load)) for _ in range(10)) / (26 * agent_traces.SPANS_PER_TRACE) * 1e6
    print(f"{load_us:.1f} µs a span of {len(load) / 26 / agent_traces.SPANS_PER_TRACE:.0f} bytes of the load")


def _cpu_s(work: Any) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def report_planted(folders: Sequence[str], redactor: RequestRedactor, number: int) -> int:
    """Plant secrets in requests of all folders in turn, and print how many are still there afterwards; that many."""
    chance = random.Random(number)
    requests = [(folder, requests_in(folder)) for folder in folders]
    requests = [(folder, some) for folder, some in requests if some]
    kinds = [*planted.ALL, *PLACES]
    left: Counter[tuple[str, str]] = Counter()
    for count in range(number):
        _, some = requests[count % len(requests)]
        message = ExportTraceServiceRequest.FromString(chance.choice(some))
        kind = kinds[count // len(requests) % len(kinds)]
        names = SPLIT if kind in ("split", "parts") else planted.names_for(kind)
        name = chance.choice(names)
        value = planted.SECRETS[name](chance)
        written = plant(message, kind, value, chance)
        redacted = redactor.redacted(Signal.TRACES, message.SerializeToString(), "default").payload
        if is_left(ExportTraceServiceRequest.FromString(redacted), value, written):
            left[name, kind] += 1
    print(f"{number} planted in {len(requests)} folders, in {len(kinds)} disguises and places: {left.total()} left")
    for (name, kind), count in left.most_common():
        print(f"  {name}, {kind}: {count}")
    return left.total()


_VERSIONS = re.compile(r"version|release|build|user.?agent")
PLACES = ("split", "parts", "key", "error", "event", "resource", "span name")
SPLIT = [name for name in sorted(planted.SECRETS) if name != "ip_address"]


def plant(message: ExportTraceServiceRequest, kind: str, value: str, chance: random.Random) -> list[str]:
    """Write `value` into a span of `message`; what was written."""
    resource = chance.choice([one for one in message.resource_spans if any(s.spans for s in one.scope_spans)])
    span = chance.choice([span for scope in resource.scope_spans for span in scope.spans])
    said = f"see {value} there"
    if kind == "split":
        pieces = planted.pieces_of(value, chance, 2)
        for place, piece in enumerate(pieces):
            span.attributes.add(key=f"piece.{'ab'[place]}").value.string_value = piece
        return pieces
    if kind == "parts":
        pieces = planted.pieces_of(value, chance, 2)
        messages = [{"role": "user", "parts": [{"type": "text", "content": piece} for piece in pieces]}]
        span.attributes.add(key="gen_ai.input.messages").value.string_value = json.dumps(messages)
        return [f'"{max(pieces, key=len)}"']
    if kind == "key":
        span.attributes.add(key="extra").value.string_value = '{"a": {"' + value.replace("\n", "\\n") + '": 1}}'
    elif kind == "error":
        span.status.message = said
    elif kind == "event":
        span.events.add(name="exception").attributes.add(key="exception.message").value.string_value = said
    elif kind == "resource":
        resource.resource.attributes.add(key="host.note").value.string_value = said
    elif kind == "span name":
        span.name = said
    else:
        said = planted.ALL[kind](value)
        # Under a name that says so, four numbers with dots are a version, not an address.
        texts = [one for one in span.attributes if one.value.HasField("string_value") and not _VERSIONS.search(one.key)]
        if texts and chance.random() < 0.5:
            one = chance.choice(texts)
            one.value.string_value += f"\n{said}"
        else:
            span.attributes.add(key="tool.parameters").value.string_value = said
    return [said]


def is_left(message: ExportTraceServiceRequest, value: str, written: Sequence[str]) -> bool:
    """Whether `value`, or all that was written to say it, is still in `message`."""
    texts: list[str] = []
    for resource in message.resource_spans:
        texts += [one.value.string_value for one in resource.resource.attributes]
        for scope in resource.scope_spans:
            for span in scope.spans:
                texts += [span.name, span.status.message, *(one.key for one in span.attributes)]
                texts += [one.value.string_value for one in span.attributes]
                texts += [one.value.string_value for event in span.events for one in event.attributes]
    whole = "\0".join(texts)
    return value in "".join(texts) or all(one in whole for one in written)


def main() -> int:
    """Measure and print; 1 when a planted secret is left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--planted", type=int, default=0, metavar="N")
    options = parser.parse_args()
    redactor = trial_redactor(RedactionSettings())
    report_found([request for folder in options.folders for request in requests_in(folder)], redactor)
    return int(bool(options.planted and report_planted(options.folders, redactor, options.planted)))


if __name__ == "__main__":
    sys.exit(main())
