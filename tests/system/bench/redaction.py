"""How many values of recorded traces the redactor takes for personal data or secrets, and what that costs.

    python tests/system/bench/redaction.py FOLDER...

FOLDERs hold OTLP files, such as those of a collector's file exporter. Prints the values (texts, keys and integers, also
those within JSON in texts), how many of them each detector changes with an example of each, and the time a span.
"""

import sys
import time
from collections import Counter
from pathlib import Path

from tracegrade.assemble.decode import Decoder
from tracegrade.codec.span_reader import AttributeFilter
from tracegrade.document.problem import dotted
from tracegrade.model.json_value import JsonValue
from tracegrade.otlp.file import read_sources
from tracegrade.redact.json_text import Leaf, is_json, rewritten
from tracegrade.redact.redactor import Redactor
from tracegrade.redact.registry import all_detectors


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


def main(folders: list[str]) -> None:
    """Measure and print."""
    decoder = Decoder(AttributeFilter(frozenset(), ("",)))
    files = [str(path) for folder in folders for path in sorted(Path(folder).rglob("*.binpb"))]
    spans = []
    for file in files:
        if not file.endswith(".logs.binpb"):
            for request in read_sources([file]):
                spans += decoder.spans(request.payload)
    values = sum(values_in({**span.attributes, "name": span.name}) for span in spans)
    changed: Counter[str] = Counter()
    examples: dict[str, set[str]] = {}
    started = time.process_time()
    for span in spans:
        redactor = Redactor(all_detectors())
        redactor.value({**span.attributes, "name": span.name})
        changed += redactor.counts
        for (name, value), places in redactor.places.items():
            examples.setdefault(name, set()).add(f"{value[:60]!r} at {min(map(dotted, places))}")
    took_s = time.process_time() - started
    print(f"{len(spans)} spans, {values} values, {changed.total()} changed: {changed.total() / values:.3%}")
    for name, number in changed.most_common():
        print(f"  {name} {number}: {'; '.join(sorted(examples[name])[:5])}")
    print(f"{took_s / len(spans) * 1e6:.0f} µs a span of {values / len(spans):.0f} values")


if __name__ == "__main__":
    main(sys.argv[1:])
