"""Tables, and the views over the lists in `traces`."""

from sqlalchemy import Engine, Table, text

from build import each
from build.judged_traces import AGENT_SPAN, judged
from tracegrade.model.trace_result import RunSummary
from tracegrade.store.open import reading
from tracegrade.store.schema import metadata
from tracegrade.store.write import StoreWriter


@each("table", metadata.tables.values(), ids=str)
def test_a_table_has_a_tenant_or_says_why_not(table: Table) -> None:
    assert ("tenant" in table.columns) is not ("without_tenant" in table.info)


FULL = RunSummary(
    AGENT_SPAN, "support", "00f067aa0ba902b0", "chat-1", "gpt-4o", "0123456789abcdef", 2**40, 7, 5, 300, 2
)


def test_each_run_of_a_trace_is_a_row_of_the_view(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1, runs=[FULL, RunSummary("01", "\0odd")]), judged(2)])
    columns = "trace, place, span_id, agent, parent_span_id, session, model, prompt_hash"
    with reading(engine) as connection:
        rows = connection.execute(
            text(f"SELECT {columns}, input_tokens, output_tokens, duration_ns FROM agent_runs ORDER BY place")
        ).all()
    assert [tuple(row) for row in rows] == [
        (1, 0, AGENT_SPAN, "support", "00f067aa0ba902b0", "chat-1", "gpt-4o", "0123456789abcdef", 2**40, 7, 5),
        (1, 1, "01", "\N{REPLACEMENT CHARACTER}odd", None, None, None, None, None, None, None),
    ]
