"""What a request, a journal record or an exported batch carries."""

from enum import IntEnum


class Signal(IntEnum):
    """The kind of a payload. The numbers are written to disk: never change or reuse one.

    ``TRACES``, ``LOGS`` and ``METRICS`` are OTLP export requests; ``RESULTS`` are judged traces on their way to sinks.
    """

    TRACES = 1
    LOGS = 2
    METRICS = 3
    RESULTS = 4
