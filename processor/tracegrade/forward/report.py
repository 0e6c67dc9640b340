"""Reports how an exporter's requests end: metrics, a condition while it fails, a log line now and then."""

import logging
from collections.abc import Callable

from tracegrade.model.signal import Signal
from tracegrade.otlp.client import Answer
from tracegrade.telemetry.metrics import Telemetry

_log = logging.getLogger(__name__)
_QUIET_S = 60.0


class Report:
    """The report of one exporter."""

    def __init__(self, name: str, endpoint: str, telemetry: Telemetry, now_s: Callable[[], float]) -> None:
        """Start with nothing to report.

        Args:
            name: the exporter's id, a metric label.
            endpoint: of its peer, for messages.
            telemetry: filled with ``tracegrade.exporter.*``.
            now_s: a monotonic clock, s.
        """
        self._name = name
        self._endpoint = endpoint
        self._telemetry = telemetry
        self._now_s = now_s
        self._quiet_until_s: dict[str, float] = {}  # by kind of trouble
        self._failing: set[int] = set()  # positions of requests that have failed for long
        self._gave_up_s: float | None = None  # when a request was given up last

    def queued(self, requests: int) -> None:
        """Set the number of requests that are not finished."""
        self._telemetry.set("tracegrade.exporter.queued_requests", requests, exporter=self._name)

    def sent(self, signal: Signal, answer: Answer) -> None:
        """The peer took one request."""
        word = _word(signal)
        self._telemetry.add("tracegrade.exporter.sent_requests", exporter=self._name, signal=word)
        if answer.rejected:
            self._telemetry.add("tracegrade.exporter.rejected_items", answer.rejected, exporter=self._name, signal=word)

    def failed(self, signal: Signal, reason: str, requests: int = 1) -> None:
        """Count requests that will never be sent."""
        self._telemetry.add(
            "tracegrade.exporter.failed_requests", requests, exporter=self._name, signal=_word(signal), reason=reason
        )

    def deleted(self, begin: int, end: int) -> None:
        """Retention deleted the requests from `begin` to `end` before they were sent."""
        _log.warning(
            "exporter %s: retention deleted journal positions %d to %d before they were sent", self._name, begin, end
        )

    def gave_up(self, signal: Signal, answer: Answer) -> None:
        """No further attempt is made at one request."""
        self._log(answer, "given up")
        self._gave_up_s = self._now_s()
        self._begin_failing(answer)
        self.failed(signal, answer.reason)

    def retries(self, position: int, signal: Signal, answer: Answer, *, for_long: bool) -> None:
        """The request at `position` is tried again; `for_long` says whether it has failed for long."""
        self._log(answer, "will try again")
        if for_long:
            self._failing.add(position)
            self._begin_failing(answer)
        self._telemetry.add(
            "tracegrade.exporter.retries", exporter=self._name, signal=_word(signal), reason=answer.reason
        )

    def finished(self, position: int) -> None:
        """The request at `position` is sent or given up."""
        self._failing.discard(position)

    def end_failing(self) -> None:
        """End the condition once no request has failed for long, and none was given up lately."""
        of_late = self._gave_up_s is not None and self._now_s() - self._gave_up_s < _QUIET_S
        if not self._failing and not of_late:
            self._telemetry.conditions.end("exporter_failing", self._name)

    def _begin_failing(self, answer: Answer) -> None:
        message = f"{self._endpoint}: {answer.reason}: {answer.message}"
        self._telemetry.conditions.begin("exporter_failing", message, self._name)

    def _log(self, answer: Answer, outcome: str) -> None:
        """Log each kind of trouble now and then, not for every request that meets it."""
        trouble = f"{answer.reason}, {outcome}"
        now_s = self._now_s()
        if now_s >= self._quiet_until_s.get(trouble, now_s):
            self._quiet_until_s[trouble] = now_s + _QUIET_S
            _log.warning("exporter %s: %s: %s: %s", self._name, self._endpoint, trouble, answer.message)


def _word(signal: Signal) -> str:
    return signal.name.lower()
