"""What judges have read and what became of it, as of one moment (promise 5): read = open + all dispositions."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tracegrade.assemble.dispositions import Dispositions
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.telemetry.merged import HANDED_OVER
from tracegrade.telemetry.metrics import Labels, series

_UNREAD_LOGS = "tracegrade.extract.unread_log_records"


@dataclass(slots=True)
class ReadSums:
    """Sums over judges. Spans and log records are counted apart."""

    spans: Dispositions = field(default_factory=Counter)
    log_records: Dispositions = field(default_factory=Counter)
    open_spans: int = 0
    open_log_records: int = 0
    read_spans: int = 0
    read_log_records: int = 0
    open_traces: int = 0
    unread_log_records: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Log records that look like tool calls and name no span, by service, scope and reason."""

    def add(self, judge: RecordJudge) -> None:
        """Add a judge that goes on."""
        self._add_done(judge)
        self.open_spans += judge.live.open_spans
        self.open_log_records += judge.live.open_log_records
        self.open_traces += len(judge.live)

    def add_ended(self, judge: RecordJudge) -> None:
        """Add a judge whose open traces another one reads again."""
        self._add_done(judge)
        if judge.live.open_spans:
            self.spans[HANDED_OVER] += judge.live.open_spans
        if judge.live.open_log_records:
            self.log_records[HANDED_OVER] += judge.live.open_log_records

    def copy(self) -> "ReadSums":
        """The same sums, to which others can be added."""
        return ReadSums(
            Counter(self.spans),
            Counter(self.log_records),
            self.open_spans,
            self.open_log_records,
            self.read_spans,
            self.read_log_records,
            self.open_traces,
            Counter(self.unread_log_records),
        )

    def metrics(self) -> dict[str, dict[Labels, float]]:
        """The values of the metrics that say this."""
        return {
            "tracegrade.spans": _by_disposition("tracegrade.spans", self.spans),
            "tracegrade.spans.open": {(): self.open_spans},
            "tracegrade.spans.read": {(): self.read_spans},
            "tracegrade.log_records": _by_disposition("tracegrade.log_records", self.log_records),
            "tracegrade.log_records.open": {(): self.open_log_records},
            "tracegrade.log_records.read": {(): self.read_log_records},
            "tracegrade.traces.open": {(): self.open_traces},
            _UNREAD_LOGS: {
                series(_UNREAD_LOGS, service=service, scope=scope, reason=reason): number
                for (service, scope, reason), number in self.unread_log_records.items()
            },
        }

    def _add_done(self, judge: RecordJudge) -> None:
        self.spans.update(judge.intake.span_dispositions)
        self.log_records.update(judge.intake.log_record_dispositions)
        self.read_spans += judge.intake.read_spans
        self.read_log_records += judge.intake.read_log_records
        for found, number in judge.intake.unread_log_records.items():
            self.unread_log_records[found.service, found.scope, f"no {found.lacks}"] += number


def _by_disposition(name: str, dispositions: Mapping[tuple[str, str], int]) -> dict[Labels, float]:
    return {series(name, fate=fate, reason=reason): count for (fate, reason), count in dispositions.items()}
