"""Disk, journal and processes: whether accepted requests are forwarded, judged and stored."""

import shutil
import time
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection

from tracegrade.assemble.dispositions import DROPPED, TOO_LATE, reason_text
from tracegrade.config import Config
from tracegrade.display import count, time_text
from tracegrade.doctor.finding import Finding, Level
from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader
from tracegrade.pipeline.data_folder import DELIVERY, DataFolder
from tracegrade.pipeline.judge_set import JudgeSet
from tracegrade.serve.supervising.judge_process import HUNG
from tracegrade.store.files import put_aside_of, sqlite_path
from tracegrade.store.registry import database
from tracegrade.telemetry.conditions import KINDS, conditions_in
from tracegrade.telemetry.merged import MergedSnapshots

_MIB = 1024 * 1024
_BEHIND_BYTES = 16 * _MIB
_BEHIND_S = 5.0  # the age of messages beyond which a judge of Kafka is behind
_STALE_S = 10.0


def disk(config: Config) -> Iterator[Finding]:
    """Whether the disk has room for what the settings allow."""
    usage = shutil.disk_usage(config.data_path)
    where, free_mib = str(config.data_path), usage.free // _MIB
    if usage.free < 0.02 * usage.total or free_mib < 256:
        yield Finding(
            "disk", "error", where, f"{free_mib} MiB free", "make room: when the disk is full, senders are refused"
        )
    elif config.journal.kafka is None and free_mib < config.journal.max_size_mib:
        text = f"{free_mib} MiB free, and the journal may still grow to {config.journal.max_size_mib} MiB"
        yield Finding("disk", "warning", where, text, "make room, or set journal.max_size_mib lower")
    else:
        yield Finding("disk", "ok", where, f"{free_mib} MiB free")


def privacy(config: Config) -> Iterator[Finding]:
    """Whether other users of the machine can read what is kept: prompts, arguments, outputs."""
    mode = config.data_path.stat().st_mode & 0o777
    if mode & 0o077:
        level: Level = "warning" if mode & 0o007 else "note"  # a group is somebody's decision
        where, who = str(config.data_path), "all users" if mode & 0o007 else "a group"
        text = f"open to {who} of this machine (mode {mode:04o}); prompts, arguments and outputs are in it"
        yield Finding("privacy", level, where, text, f"chmod -R go= {where}")


def free_space_of(connection: Connection, path: str) -> Iterator[Finding]:
    """The size of a SQLite store's file, and how much of it serve gives back to the disk."""
    if (space := database(connection).free_space(connection)) is None:
        return
    text = f"{space.size_bytes / _MIB:.1f} MiB, of which {space.free_bytes / _MIB:.1f} MiB hold nothing"
    advice = "serve gives back to the disk what is more than an eighth" if space.surplus_pages else ""
    yield Finding("store size", "ok", path, text, advice)


def replaced_stores(config: Config) -> Iterator[Finding]:
    """Stores that a repair put aside: how old and large they are, and when they go."""
    if (store := sqlite_path(config.store_url)) is None:
        return
    for aside in put_aside_of(store):
        since, until = time_text(aside.since_ns), time_text(aside.since_ns + round(config.store.damaged_kept_s * 1e9))
        text = f"put aside {since} UTC, {aside.size_bytes / _MIB:.1f} MiB: holds what the store held"
        advice = f"copy it elsewhere if you need it: serve deletes it after {until} UTC, and a deletion before that"
        yield Finding("replaced store", "note", str(aside.path), text, advice)


def journal(config: Config, folder: DataFolder, reader: JournalReader) -> Iterator[Finding]:
    """The fill of the journal, and which consumer is behind."""
    end, first = reader.durable().end, reader.first()
    used, bound = end - first, config.journal.max_size_mib * _MIB
    text = f"{used / _MIB:.0f} of {config.journal.max_size_mib} MiB"
    if used > 0.95 * bound:
        advice = "set journal.max_size_mib higher, or find out which consumer is behind: beyond the bound senders wait"
        yield Finding("journal", "warning", "", text, advice)
    else:
        yield Finding("journal", "ok", "", text)
    if reader.lost_bytes:
        lost = f"{reader.lost_bytes} bytes cannot be read"
        yield Finding("journal", "error", "", lost, "check the disk; the requests in these bytes cannot be judged")
    judges = [judge.name for judge in JudgeSet(folder).judges]
    for name in (*judges, *config.exporters):
        position = Position(folder.position(name)).load()
        behind = end - max(first, position or 0)
        if behind > _BEHIND_BYTES:
            what = f"{behind / _MIB:.0f} MiB behind the end of the journal"
            advice = (
                "check that 'tracegrade serve' runs; if it does, there are too many spans for it (judge.workers), "
                "or a rule is very slow"
                if name in judges
                else "check its endpoint; 'tracegrade_exporter_retries_total' on /metrics says why it waits"
            )
            yield Finding("journal", "warning", name, what, advice, {"behind_bytes": behind})


def conditions(folder: DataFolder) -> Iterator[Finding]:
    """The conditions of the running processes, as ``/healthz`` shows them."""
    now_ns = time.time_ns()
    for snapshot in folder.read_published():
        if now_ns - snapshot["time_ns"] > _STALE_S * 1e9:
            continue
        for condition in conditions_in(snapshot):
            if condition.name == "record_set_aside":
                continue  # reported one by one, running or not
            level: Level = "error" if condition.refuses and snapshot["role"] == "receive" else "warning"
            text = f"{condition.message}; since {time_text(condition.since_ns)} UTC"
            where = condition.where or snapshot["role"]
            yield Finding(condition.name.replace("_", " "), level, where, text, condition.advice)


def processes(folder: DataFolder) -> Iterator[Finding]:
    """The last state of the judge: spans and results that were lost, what ended it, what failed."""
    aside = folder.set_aside.load()
    for record in aside.waiting[-20:]:
        text = (
            f"the record at {record.position} ({record.what}) ended the judge twice ({record.reason}) and is not judged"
        )
        yield Finding("set aside", "error", str(record.position), text, KINDS["record_set_aside"].advice)
    for trace in sorted(aside.traces)[:20]:
        text = f"trace {trace.hex()} ended the judge twice ({aside.pairs[trace.hex(), '']}) and is not judged"
        yield Finding("set aside", "error", trace.hex(), text, KINDS["record_set_aside"].advice)
    pairs = sorted(aside.pairs.items())
    for (trace_id, rule_id), reason in [found for found in pairs if found[0][1]][:20]:
        text = f"judging trace {trace_id} by it ended the judge ({reason}), and is not tried again"
        if reason == HUNG:
            advice = "look for a very long trace or an expensive pattern"
        elif reason.endswith("SIGKILL"):
            advice = "it may have taken all memory: see the system's log, and look for a very long trace"
        else:
            advice = "a bug in the evaluator, or in a library it calls: report it to the authors of the package"
        yield Finding("judge", "error", rule_id, text, advice)
    snapshot = _snapshot_of_judges(folder)
    if snapshot is None:
        yield Finding("judge", "note", "", "no judge has run over this data folder yet", "tracegrade serve")
        return
    age_s = max(0.0, (time.time_ns() - snapshot["time_ns"]) / 1e9)
    if age_s > _STALE_S:
        yield Finding(
            "judge", "note", "", f"not running: its last sign of life was {age_s:.0f} s ago", "tracegrade serve"
        )
    elif all(finding.check != "judge down" for finding in conditions(folder)):
        yield Finding("judge", "ok", "", "running")
    for point in _series(snapshot, "tracegrade.spans"):
        fate, reason, spans = point["fate"], point["reason"], int(point["value"])
        if not spans or (fate, reason) == (DROPPED, "ignored_scope"):
            continue
        if fate == TOO_LATE:
            text = f"{spans} spans since its start {reason_text(fate, reason)} and were not judged"
            advice = "the check 'arrivals' shows which service is late; set traces.reopen_for higher"
            yield Finding("too late", "warning", "", text, advice, {"spans": spans})
        elif fate == DROPPED:
            text = f"{spans} spans since its start were dropped: {reason}"
            yield Finding("dropped", "warning", reason, text, _DROPPED.get(reason, ""), {"spans": spans})
    for name, what, advice in _LOSSES:
        for lost in _series(snapshot, name):
            if lost["value"]:
                where = str(lost.get("sink") or lost.get("receiver") or lost.get("topic") or "")
                yield Finding("judge", "warning", where, f"{int(lost['value'])} {what} since its start", advice)
    yield from _lag(snapshot)


def _lag(snapshot: dict[str, Any]) -> Iterator[Finding]:
    """Of a judge of Kafka: how far behind its partitions it was, by their messages' age."""
    lags = {str(point["partition"]): float(point["value"]) for point in _series(snapshot, "tracegrade.kafka.lag")}
    if not lags:
        return
    worst = max(lags, key=lambda partition: lags[partition])
    if lags[worst] < _BEHIND_S:
        yield Finding("lag", "ok", "", f"{count(len(lags), 'partition')} read with less than {_BEHIND_S:g} s of lag")
    else:
        text = f"{lags[worst]:.0f} s behind, the most of {count(len(lags), 'partition')}"
        yield Finding(
            "lag", "warning", f"partition {worst}", text, "wait, or start more judges: one a partition at most"
        )


def _snapshot_of_judges(folder: DataFolder) -> dict[str, Any] | None:
    """The last snapshot of the judge; of several, their sum, as old as the oldest of them."""
    judges = JudgeSet(folder).judges
    names = [judge.name for judge in judges]
    if len(judges) == 1:
        return folder.read_snapshot(names[0])
    found = [folder.read_snapshot(name) for name in (*names, DELIVERY)]
    return MergedSnapshots("judge").merged([snapshot for snapshot in found if snapshot is not None])


_DROPPED = {
    "span_cap": "set traces.max_spans_per_trace higher",
    "byte_cap": "set traces.max_mib_per_trace higher",
    "memory": "set traces.max_live_spans or max_live_traces higher, or shorter times",
    "set_aside": KINDS["record_set_aside"].advice,
    "judge_behind": "the judge is too slow for this many spans: use fewer rules, or judge.when_full: refuse",
}
_LOSSES = (
    (
        "tracegrade.sink.dropped_records",
        "judged traces were given up",
        "the judge's log shows the sink's answers",
    ),
    (
        "tracegrade.extract.dialect_errors",
        "traces were read without installed dialects",
        "'tracegrade why' names the error",
    ),
    ("tracegrade.kafka.malformed", "messages were malformed", "the judge's log names their partitions and offsets"),
    (
        "tracegrade.kafka.lost",
        "messages were deleted unread by the topic's retention",
        "start more judges, or set retention.ms of the topics higher",
    ),
    (
        "tracegrade.kafka.senders_times",
        "messages had their sender's time",
        "set message.timestamp.type=LogAppendTime for the topic",
    ),
    ("tracegrade.alerts.failed_checks", "checks of alerts failed", "check whether the store can be reached"),
)


def _series(snapshot: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The series of a metric: its labels and its ``value``."""
    return [{**item["labels"], "value": item["value"]} for item in snapshot["metrics"].get(name, ())]
