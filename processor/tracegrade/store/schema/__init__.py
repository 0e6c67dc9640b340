"""The tables. One row for each trace holds all its results; by the other tables, results are found and counted.

``traces.judged`` is the delivered record (tool calls, evaluations, decisions, with every value), compressed: text is
nine tenths of a result and compresses to a tenth. ``evaluations``, ``tool_calls``, ``decisions`` and ``agent_runs`` are
views over lists in the same row: writing a row for each took most of the time of storing a trace. Values that many
results share (rule, service, agent and so on) are a row of ``series``, as in a metrics database. ``counts`` adds
outcomes up by minute, hour and day (UTC) of the trace's last span, in the transaction that writes them, so pass rates
cost the same at ten million results as at ten. For people who read by SQL, the view ``results`` joins the columns that
they usually need.

A session has a row like a trace's, under a trace id of its own, with only its results: they change with each of its
traces, and a higher revision replaces them, as with a trace.

Times are ns since 1970 UTC; ids are bytes as on the wire; outcomes, kinds and subject kinds are indexes into the tuples
of ``values.py``.
"""

from importlib import import_module

from sqlalchemy import Table

from tracegrade.part import parts

# First: the reference shows tables in this order.
from tracegrade.store.schema.result_tables import arrivals, blocks, counts, rule_sets, rule_texts, series, traces

# isort: split
from tracegrade.store.schema.alert_tables import alerts, incident_notes, incidents, silences, waiting_alerts
from tracegrade.store.schema.metadata import metadata, postgresql_metadata
from tracegrade.store.schema.postgresql_tables import judges, session_turns, shared_deletions, trace_keys
from tracegrade.store.schema.run_tables import backfills, experiment_entries, experiments, runs
from tracegrade.store.schema.values import (
    ALERT_STATES,
    BACKFILL,
    BLOCK_TRACES,
    CHUNK_BLOCKS,
    CHUNK_TRACES,
    COUNTED_MINUTES,
    DAY_MINUTES,
    DECISION_KINDS,
    EVERY_SERIES,
    EVERY_TRACE,
    LIVE,
    MINUTE_NS,
    NUMBERS,
    OUTCOMES,
    SUBJECT_KINDS,
    WHOLE_RULE,
    WHOLE_RUN,
    DecisionRow,
    EvaluationRow,
)

__all__ = [
    "ALERT_STATES",
    "BACKFILL",
    "BLOCK_TRACES",
    "CHUNK_BLOCKS",
    "CHUNK_TRACES",
    "COUNTED_MINUTES",
    "DAY_MINUTES",
    "DECISION_KINDS",
    "EVERY_SERIES",
    "EVERY_TRACE",
    "LIVE",
    "MINUTE_NS",
    "NUMBERS",
    "OUTCOMES",
    "SUBJECT_KINDS",
    "WHOLE_RULE",
    "WHOLE_RUN",
    "DecisionRow",
    "EvaluationRow",
    "alerts",
    "arrivals",
    "backfills",
    "blocks",
    "counts",
    "experiment_entries",
    "experiments",
    "incident_notes",
    "incidents",
    "judges",
    "metadata",
    "postgresql_metadata",
    "rule_sets",
    "rule_texts",
    "runs",
    "series",
    "session_turns",
    "shared_deletions",
    "silences",
    "tables_of_parts",
    "trace_keys",
    "traces",
    "waiting_alerts",
]


_OWN = frozenset(metadata.tables)

for _part in parts():
    if _part.tables is not None:
        import_module(_part.tables)


def tables_of_parts() -> list[Table]:
    """The tables that parts declare."""
    return [table for name, table in metadata.tables.items() if name not in _OWN]
