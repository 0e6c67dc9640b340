"""A data folder as a serve leaves it: journal, results, store, an alert; without any process."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from build import store_with
from build.canonical import canonical_line
from build.harness import NS_PER_S
from build.otlp import Content, agent_span, log_payload, payload, spans_of, tool_span
from build.stored_alerts import store_incident
from build.stored_runs import run_of
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.codec.results import encode_result
from tracegrade.config import Config
from tracegrade.history.runs.recorded_run import RecordedRun, record_of
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry, Signal
from tracegrade.model.trace_result import TraceResult
from tracegrade.pipeline.judged import evaluations_of
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.replay import replay_journal
from tracegrade.pipeline.trace_result import result_of
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import Facts, StoredAlert
from tracegrade.store.open import open_store
from tracegrade.store.write import StoreWriter
from waiting import WITHIN_S

OF_SESSIONS = Rule.model_validate(
    {
        "id": "of-sessions",
        "scope": "session",
        "evaluate": [{"evaluator": "tool-call-args", "tool_calls": [{"name": "create_order", "args": {"user_id": 1}}]}],
    }
)
RULES = RuleSet([*load_rules(["builtin:demo"]).rules, OF_SESSIONS])


def id_of(trace: int) -> bytes:
    return trace.to_bytes(16, "big")


def secret_trace(trace: int, secret: str, session: str = "", user: str = "", noise_bytes: int = 6000) -> list[Content]:
    """An agent run that quotes `secret` in its calls; noise keeps it from being compressed to nothing."""
    noise = random.Random(secret).randbytes(noise_bytes).hex()
    root = agent_span(trace, 1)
    for key, value in (("gen_ai.conversation.id", session), ("user.id", user)):
        if value:
            root.attributes.add(key=key).value.string_value = value
    root.attributes.add(key="nobody.reads.this").value.string_value = secret
    return [
        root,
        tool_span(trace, 2, 1, "validate_user", f'{{"user_id": "{secret}"}}'),
        tool_span(trace, 3, 1, "create_order", f'{{"user_id": "{secret}", "note": "{noise}"}}'),
    ]


class ServedFolder:
    """One data folder; requests come in, are judged, and are stored."""

    def __init__(self, folder: Path, store_url: str = "") -> None:
        self.config = Config(
            data_dir=str(folder), traces={"settle": "1s"}, store={"url": store_url or store_with(folder)}
        )
        self.folder = folder
        self._now_ns = NS_PER_S

    def receive(self, *requests: Sequence[Content], judge: bool = True, tenant: str = "default") -> None:
        """Journal `requests` a second apart; with `judge`, judge and store all that the journal holds, twice.

        What is judged at its end, and again with what came meanwhile, leaves a row of each revision.
        """
        journal = LocalJournal.open(self.folder / "journal", now_ns=lambda: self._now_ns)
        for contents in requests:
            self._now_ns += NS_PER_S
            spans = spans_of(contents)
            logs = [content for content in contents if content not in spans]
            for signal, items, data in ((Signal.TRACES, spans, payload(spans)), (Signal.LOGS, logs, log_payload(logs))):
                if items:
                    journal.append(Entry(signal, Encoding.PROTOBUF, tenant, len(items), data)).result(WITHIN_S)
        journal.close()
        if judge:
            self._judge()

    def _judge(self) -> None:
        reader = JournalReader(self.folder / "journal")
        records = reader.read(reader.first())
        reader.close()
        engine = open_store(self.config.store_url)
        results = LocalJournal.open(self.folder / "results", name="results")
        for some in (records[: len(records) // 2], records):
            judge = RecordJudge(self.config.traces, RULES, ClosedTraces())
            batch = [item for record in some for item in judge.read(record)]
            judged = [result_of(item, "live", "hash") for item in [*batch, *judge.end()]]
            entries = [Entry(Signal.RESULTS, Encoding.PROTOBUF, "default", 1, encode_result(item)) for item in judged]
            if entries:
                results.append_all(entries).result(WITHIN_S)
                StoreWriter(engine).write(judged)
        results.close()
        engine.dispose()

    def replay(self) -> str:
        """Store what the journal holds as a run; its name."""
        engine = open_store(self.config.store_url)
        with RecordedRun(engine, run_of("", experiment="kept"), None) as run:
            for item in replay_journal(self.folder / "journal", self.config.traces, RULES, run.name):
                run.add(record_of(item, run.name, "hash"))
            run.complete()
        engine.dispose()
        return run.name

    def alert_about(self, *trace_ids: bytes) -> None:
        """A firing alert that names these traces."""
        facts = Facts(worst=[trace_id.hex() for trace_id in trace_ids])
        alert = StoredAlert("ab" * 16, 1, None, "firing", "default", "r", "s", "high", "t", "x", 0.9, 60, 0.1, 9, 2)
        engine = open_store(self.config.store_url)
        with engine.begin() as connection:
            store_incident(connection, replace(alert, facts=facts))
        engine.dispose()

    def replayed(self, deleted: Iterable[bytes] = ()) -> list[str]:
        """The canonical results that the journal gives."""
        judged = replay_journal(
            self.folder / "journal", self.config.traces, RULES, "replay", deleted=frozenset(deleted)
        )
        latest = {item.key: evaluations_of(item) for item in judged}
        return sorted(canonical_line(e.to_json()) for evaluations in latest.values() for e in evaluations)

    def files_with(self, *pieces: bytes) -> list[str]:
        """The files of the folder in which any of `pieces` stands."""
        files = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        return sorted(str(path) for path, data in files.items() if any(piece in data for piece in pieces))


def pieces_of(packed: bytes) -> list[bytes]:
    """Some of what a packed row is recognised by, wherever it was cut into pages."""
    return [packed[at : at + 32] for at in range(0, len(packed) - 32, 256)]


def packed_rows(records: Iterable[TraceResult]) -> list[bytes]:
    """The pieces of all packed rows."""
    return [piece for record in records for blob in (record.packed, record.spans) for piece in pieces_of(blob)]
