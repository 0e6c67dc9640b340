"""What each agent run was asked and what it took: model, hash of its prompt, tokens, duration.

Filled from the kept spans of every trace, in the record and in the rows of the view, a few traces in memory at a time.
The spans are extracted again, but which runs a trace had stays as it was judged. A trace whose spans cannot be read
keeps its runs, with nothing else known of them.
"""

import logging
from dataclasses import replace

import sqlalchemy as sa
from alembic import op

from tracegrade.codec.json_text import rows_to_json
from tracegrade.codec.kept_spans import trace_of
from tracegrade.codec.packing import Unreadable
from tracegrade.codec.results import unpack_result, with_runs
from tracegrade.extract.extract import extract
from tracegrade.extract.run_summaries import run_summaries
from tracegrade.model.trace_result import RunSummary
from tracegrade.store.migrations.versions.v0001_first import view_of_list
from tracegrade.store.rows import run_rows

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

logger = logging.getLogger(__name__)

FIELDS = {
    "span_id": "text",
    "agent": "text",
    "parent_span_id": "text",
    "session": "text",
    "model": "text",
    "prompt_hash": "text",
    "input_tokens": "bigint",
    "output_tokens": "bigint",
    "duration_ns": "bigint",
}

_TOGETHER = 20
_SAY_EVERY = 10_000


def upgrade() -> None:
    op.add_column("traces", sa.Column("agent_runs", sa.Text, nullable=False, server_default="[]"))
    op.execute(view_of_list("agent_runs", FIELDS))
    connection = op.get_bind()
    some = sa.text(
        "SELECT number, judged, spans FROM traces WHERE number > :after AND members IS NULL ORDER BY number "
        f"LIMIT {_TOGETHER}"
    )
    update = sa.text("UPDATE traces SET agent_runs = :agent_runs, judged = :judged WHERE number = :number")
    after, done = -1, 0
    while rows := connection.execute(some, {"after": after}).all():
        filled = []
        for number, judged, spans in rows:
            try:
                runs = _runs(bytes(judged), bytes(spans))
                packed = with_runs(bytes(judged), runs)
            except Unreadable:
                continue  # as unreadable as it was
            filled.append({"number": number, "agent_runs": rows_to_json(run_rows(runs)), "judged": packed})
        if filled:
            connection.execute(update, filled)
        after = rows[-1].number
        done += len(rows)
        if done % _SAY_EVERY == 0:
            logger.info("agent runs of %d traces filled in", done)


def _runs(judged: bytes, spans: bytes) -> list[RunSummary]:
    """The runs that a trace had when it was judged, with what its spans say of them now."""
    result = unpack_result(judged, spans)
    try:
        now = {run.span_id: run for run in run_summaries(extract(trace_of(result)))}
    except Unreadable:
        now = {}
    return [_filled(run, now[run.span_id]) if run.span_id in now else run for run in result.trace.runs]


def _filled(run: RunSummary, now: RunSummary) -> RunSummary:
    return replace(
        run,
        model=run.model or now.model,
        prompt_hash=now.prompt_hash,
        input_tokens=now.input_tokens,
        output_tokens=now.output_tokens,
        duration_ns=now.duration_ns,
    )
