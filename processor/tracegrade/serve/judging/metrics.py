"""The snapshot of the judge's metrics and conditions, which the receive role shows."""

from collections import defaultdict
from collections.abc import Collection, Sequence

from tracegrade.extract.unread import read_by_shape, unread_model_spans, unread_spans
from tracegrade.pipeline.data_folder import JUDGE, DataFolder
from tracegrade.pipeline.judged import Judged, JudgedSession
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.version import note_build
from tracegrade.serve.judging.read_sums import ReadSums
from tracegrade.telemetry.conditions import conditions_in
from tracegrade.telemetry.metrics import Telemetry, series
from tracegrade.telemetry.process import note_process
from tracegrade.telemetry.series_bound import MAX_SERIES, MAX_TENANTS

MAX_SCOPES = 200
MAX_SKIPPED = 100  # ranges in a snapshot; each is counted by the next one at the latest


class JudgeMetrics:
    """Fills the judge's ``telemetry``, from the judging thread, and writes its snapshot, from any thread."""

    def __init__(
        self, folder: DataFolder, max_series: int = MAX_SERIES, name: str = JUDGE, max_tenants: int = MAX_TENANTS
    ) -> None:
        """Begin with the conditions that held when an earlier judge ended, except those that its own counting began.

        `name` is that of the judge, or of delivery where that is a process of its own.
        """
        self._folder = folder
        self.name = name
        self.telemetry = Telemetry(name, max_series, max_tenants)
        note_build(self.telemetry)
        earlier = conditions_in(folder.read_snapshot(name) or {})
        self.telemetry.conditions.resume(item for item in earlier if item.name != "too_many_series")
        self._skipped: list[tuple[int, int]] = []  # (from, to) of what retention deleted before it was read
        self._scopes: set[tuple[str, str]] = set()  # services and scopes that metrics name

    def publish(self, judge: RecordJudge) -> None:
        """Take over from `judge` what it has read and all dispositions, as of one moment (promise 5)."""
        sums = ReadSums()
        sums.add(judge)
        self.telemetry.replace(
            {
                **sums.metrics(),
                "tracegrade.journal.position": {
                    series("tracegrade.journal.position", journal="journal", consumer=self.name): judge.read_position
                },
            }
        )

    def skip(self, begin: int, end: int) -> None:
        """Retention deleted everything between these positions; the receive role counts how much that was."""
        self._skipped.append((begin, end))

    def count_closed(self, judged: Sequence[Judged]) -> None:
        """Count the traces among `judged`, and the spans in them that no dialect could read."""
        counts: dict[tuple[str, bool], int] = {}
        not_decoded: defaultdict[str, list[int]] = defaultdict(list)  # reason -> spans of each such trace
        for item in judged:
            if isinstance(item, JudgedSession):
                continue
            key = (item.trace.close_reason, item.trace.complete)
            counts[key] = counts.get(key, 0) + 1
            if item.judgement.not_decoded is not None:
                not_decoded[item.judgement.not_decoded.reason].append(len(item.trace.spans))
                continue  # nothing was read that could be unread
            if item.judgement.extraction.dialect_error:
                self.telemetry.add("tracegrade.extract.dialect_errors")
            for span in unread_spans(item.judgement.extraction):
                self._count_scope("tracegrade.extract.unread_tool_spans", span.resource.service, span.scope)
            for work, span in unread_model_spans(item.judgement.extraction):
                name = "tracegrade.extract.unread_model_spans"
                self._count_scope(name, span.resource.service, span.scope, reason=work.why)
            for _, span in read_by_shape(item.judgement.extraction):
                self._count_scope("tracegrade.extract.calls_by_shape", span.resource.service, span.scope)
            for scope in item.judgement.extraction.silent_scopes:
                self._count_scope("tracegrade.extract.silent_traces", item.trace.resource.service, scope)
        for reason, spans in not_decoded.items():
            self.telemetry.add("tracegrade.traces.not_decoded", len(spans), reason=reason)
            self.telemetry.add("tracegrade.spans.not_decoded", sum(spans), reason=reason)
        for (reason, complete), count in counts.items():
            self.telemetry.add(
                "tracegrade.traces.closed", count, close_reason=reason, complete="true" if complete else "false"
            )

    def forget_traces(self, trace_ids: Collection[bytes]) -> None:
        """Name these traces no longer, neither in metrics nor in the snapshot."""
        self.telemetry.forget_traces({trace_id.hex() for trace_id in trace_ids})
        self.write_snapshot()

    def write_snapshot(self) -> None:
        """Write the snapshot, which the receive role shows, or this process where it runs alone."""
        note_process(self.telemetry, self.name)
        snapshot = self.telemetry.snapshot()
        # After the position was taken, so that everything skipped before the snapshot's position is in it.
        self._folder.write_snapshot(self.name, snapshot | {"skipped": self._skipped[-MAX_SKIPPED:]})

    def _count_scope(self, metric: str, service: str, scope: str, **labels: str) -> None:
        if (service, scope) not in self._scopes:
            if len(self._scopes) >= MAX_SCOPES:
                service = scope = "other"
            self._scopes.add((service, scope))
        self.telemetry.add(metric, service=service, scope=scope, **labels)
