"""A detector of what is written in another form: in base64, with escapes, with unseen characters in between."""

from collections.abc import Iterator, Sequence

from tracegrade.redact.scan.scanner import Scanner
from tracegrade.sensitive.detector import Detector, Part


def disguised(name: str, detectors: Sequence[Detector]) -> Detector:
    """A detector of what `detectors` find in one text in another form, and not in its own.

    Stand it first: of a value with an unseen character in it, one of `detectors` may take a part for the whole. Its
    stand-ins are ``[redacted-1]``: a value in another form has none of its own.
    """
    scanner = Scanner(detectors, names=(), patterns={})

    def find(text: str, key: str) -> Iterator[Part]:
        found = scanner.find([text], [key])
        if not found:
            return
        as_they_are = {place for detector in detectors for part in detector.find(text, key) for place in range(*part)}
        for one in found:
            if not as_they_are.issuperset(range(one.start, one.end)):
                yield one.start, one.end

    return Detector(name, find, lambda value, number: f"[redacted-{number}]")
