"""A trial of redaction over recorded requests; nothing is changed."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tracegrade.journal.record import Record
from tracegrade.receive.redaction import RequestRedactor
from tracegrade.redact.requests.item import Redaction

_LONGEST_EXAMPLE = 40


@dataclass(slots=True)
class Trial:
    """What was found in ``requests`` of ``items`` spans, log records and data points; ``changed`` requests of them.

    ``counts`` says how often, ``examples`` has the form of one value of each that a detector found.
    """

    requests: int = 0
    items: int = 0
    changed: int = 0
    counts: Counter[Redaction] = field(default_factory=Counter)
    examples: dict[Redaction, str] = field(default_factory=dict)


def try_redaction(redactor: RequestRedactor, records: Iterable[Record]) -> Trial:
    """Redact `records`, and keep what was found by its form alone.

    Raises:
        NotTaken: one of them could not be redacted, and would be refused.
    """
    trial = Trial()

    def on_found(redaction: Redaction, value: str) -> None:
        trial.examples.setdefault(redaction, form_of(value))

    for record in records:
        redacted = redactor.redacted(record.signal, record.payload, record.tenant, on_found)
        trial.requests += 1
        trial.items += record.items
        trial.changed += bool(redacted.counts)
        trial.counts += redacted.counts
    return trial


def form_of(value: str) -> str:
    """A text that shows what `value` looks like and says nothing of it: letters as x, digits as 9."""
    shown = value[:_LONGEST_EXAMPLE]
    form = "".join("9" if sign.isdigit() else "x" if sign.isalpha() else sign for sign in shown)
    return form + ("…" if len(value) > _LONGEST_EXAMPLE else "")
