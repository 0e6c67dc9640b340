"""The tables and views of the SQL store: from the code's own description, and from a store made for the purpose."""

import tempfile
from pathlib import Path

from sqlalchemy import Table, inspect
from sqlalchemy.types import TypeEngine

from tracegrade.cli.output import markdown_table
from tracegrade.store.open import open_store
from tracegrade.store.schema import metadata

_ENCODED = {
    "subject_kind": "0 agent, 1 trace, 2 session, 3 tool-call",
    "outcome": "0 pass, 1 fail, 2 not_evaluable, 3 error",
    "kind": "0 evaluated, 1 not_matched, 2 sampled_out, 3 not_evaluable, 4 error",
}
# What a view says of its columns where no table has one of that name.
_OF_VIEWS = {
    **_ENCODED,
    "trace": "`traces.number`",
    "place": "the place in the row's list, from 0",
    "series": "`series.number`",
    "id": "the evaluation's id, 32 hex digits",
    "case_id": "the case of the rule; null: none",
    "subject_id": "the id of the judged agent run's span, call's span, trace or session, in hex",
    "score": "from 0 to 1; null: not judged",
    "time": "when the subject ended, ns since 1970 UTC",
    "time_ns": "when the subject ended, ns since 1970 UTC",
    "name": "the tool's name",
    "span_id": "the call's span, 16 hex digits",
    "arguments_status": "how the arguments were read",
    "output_status": "how the output was read",
    "error_type": "null: it did not fail",
    "parent_span_id": "the run around it; null: none",
    "model": "the model that answered",
    "prompt_hash": "16 hex digits, equal for prompts that differ in whitespace alone",
    "input_tokens": "tokens that its own model calls took in, without those of its sub-agents",
    "output_tokens": "tokens that its own model calls gave out",
    "duration_ns": "from its start to its end, ns",
}
_VIEWS = {
    "results": "What people ask for by SQL: an evaluation a row, with everything in words.",
    "evaluations": "An evaluation a row.",
    "decisions": "What became of each subject and rule, a row each.",
    "tool_calls": "A tool call a row.",
    "agent_runs": "An agent run a row; null is what was not recorded.",
}
_OF_AGENT_RUNS = {
    "span_id": "the run's span, 16 hex digits: the `subject_id` of what judges it",
    "session": "the run's own conversation; null: that of its trace",
}
_OF_RESULTS = {
    "subject_kind": "agent, trace, session or tool-call",
    "outcome": "pass, fail, not_evaluable or error",
    "trace_id": "32 hex digits",
}
_OF_EVALUATIONS = {
    "service": "the service's own name where `series` counts one of the three names as `other`; else null",
    "release": "the release's, likewise",
    "agent": "the agent's, likewise",
}
_OF_VIEW = {"results": _OF_RESULTS, "evaluations": _OF_EVALUATIONS, "agent_runs": _OF_AGENT_RUNS}


def store_tables() -> str:
    """A section for each table and view.

    Raises:
        LookupError: a table, view or column has no description.
    """
    with tempfile.TemporaryDirectory() as folder:
        engine = open_store(f"sqlite:///{Path(folder) / 'tracegrade.db'}")
        found = inspect(engine)
        views = {name: [column["name"] for column in found.get_columns(name)] for name in found.get_view_names()}
        engine.dispose()
    parts = [f"## View {name}\n\n{_VIEWS[name]}\n\n{_view(name, views[name])}" for name in _VIEWS]
    if undescribed := set(views) - set(_VIEWS):
        raise LookupError(f"docs/generator/store.py: describe the views {', '.join(sorted(undescribed))}")
    parts += [f"## Table {table.name}\n\n{_about(table)}\n\n{_table(table)}" for table in metadata.tables.values()]
    return "\n\n".join(parts)


def _about(table: Table) -> str:
    reason = table.info.get("without_tenant")
    return f"{table.info['about']} It has no tenant: {reason}." if reason else str(table.info["about"])


def _table(table: Table) -> str:
    rows = []
    for column in table.columns:
        if not column.doc:
            raise LookupError(f"store/schema/: {table.name}.{column.name}: give the column a doc")
        marks = ["key"] if column.primary_key else []
        marks += ["may be null"] if column.nullable else []
        rows.append((f"`{column.name}`", _type(column.type), ", ".join(marks), column.doc))
    return markdown_table(("column", "type", "", "holds"), rows)


def _type(kind: TypeEngine[object]) -> str:
    return str(kind).lower().partition("(")[0]


def _view(name: str, columns: list[str]) -> str:
    # The first tables last: a view's columns are of series and traces, where these have them.
    of_tables = {column.name: column.doc for table in reversed(metadata.tables.values()) for column in table.columns}
    known = {**of_tables, **_OF_VIEWS, **_OF_VIEW.get(name, {})}
    if missing := [column for column in columns if not known.get(column)]:
        raise LookupError(f"docs/generator/store.py: describe {', '.join(missing)} of the view {name}")
    return markdown_table(("column", "holds"), [(f"`{column}`", known[column]) for column in columns])
