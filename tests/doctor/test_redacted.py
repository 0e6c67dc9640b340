"""What doctor says of values that were redacted on receipt."""

import json
from typing import Any

from build import trace
from tracegrade.doctor.redacted import redacted
from tracegrade.extract.extract import extract
from tracegrade.model.extraction import Extraction


def extraction(number: int, **attributes: Any) -> Extraction:
    return extract(trace([{"id": 1, "attributes": attributes}], number.to_bytes(16, "big")))


def mark(**places: Any) -> str:
    return json.dumps(places)


def test_what_was_redacted_is_counted_by_detector_and_place() -> None:
    (finding,) = redacted(
        [
            extraction(1, **{"tracegrade.redacted": mark(a={"email": 2}, b={"card": 1})}),
            extraction(2, **{"tracegrade.redacted": mark(a={"email": 1})}),
            extraction(3),
        ]
    )
    assert (finding.check, finding.level) == ("redaction", "note")
    assert "2 of 3" in finding.found
    assert finding.found.endswith("traces: 3 email, 1 card; most at a, b")


def test_marks_of_strangers_do_no_harm() -> None:
    strange = ("{", "[]", '{"a": 1}', '{"a": {"b": "c"}}', "")
    assert list(redacted(extraction(n, **{"tracegrade.redacted": text}) for n, text in enumerate(strange, 1))) == []
