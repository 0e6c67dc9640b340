"""The queries of docs/guides/parquet.md, run over files that the sink wrote."""

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest

from build.parquet_files import TRACE_ID
from build.records import decisions_of, summary_of
from tracegrade.codec.results import new_result
from tracegrade.deliver.cut import Cut
from tracegrade.deliver.parquet.names import path_name
from tracegrade.deliver.parquet.settings import ParquetSettings
from tracegrade.deliver.parquet.storage import Storage
from tracegrade.deliver.sinks.parquet import ParquetSink
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.model.trace_result import TraceResult

duckdb = pytest.importorskip("duckdb", reason="needs DuckDB; '.ci/long parquet' runs these")

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "parquet.md"
OTHER = "ff" * 16
RUN = "00f067aa0ba902b7"


def call(name: str, number: int, **changes: Any) -> ToolCall:
    start_ns = 1_700_000_000_000_000_000 + number
    known: dict[str, Any] = {"call_id": None, "arguments": {}, "output": 1, "error": None, "span_id": f"{number:016x}"}
    return ToolCall(
        name,
        name,
        arguments_status="ok",
        output_status="ok",
        start_ns=start_ns,
        end_ns=start_ns + 2_000_000,
        agent="support",
        agent_span_id=RUN,
        **known | changes,
    )


def evaluation(trace_id: str, revision: int, rule_id: str, name: str, outcome: str) -> dict[str, Any]:
    return {
        "tenant": "42",
        "run": "live",
        "trace_id": trace_id,
        "revision": revision,
        "close_reason": "settled",
        "complete": True,
        "missing": [],
        "release": "1.4",
        "span_id": RUN,
        "session": None,
        "agent": "support",
        "service": "shop",
        "time": 0,
        "subject": {"kind": "agent", "id": RUN},
        "rule_id": rule_id,
        "rule_hash": "0123456789abcdef",
        "level": "high",
        "probability": 1.0,
        "id": f"{rule_id}/{name}/{revision}/{trace_id}",
        "evaluation": name,
        "evaluator": "tool-call-order",
        "case": None,
        "threshold": 1.0,
        "score": 1.0 if outcome == "pass" else 0.0,
        "outcome": outcome,
        "reason": "",
        "explanation": "so it is",
        "details": {},
    }


def judged(trace_id: str, revision: int, calls: list[ToolCall], *found: tuple[str, str, str]) -> TraceResult:
    supersedes = revision - 1 if revision > 1 else None
    summary = summary_of(
        tenant="42",
        trace_id=trace_id,
        revision=revision,
        supersedes=supersedes,
        service="shop",
        release="1.4",
        first_received_ns=time.time_ns(),
    )
    return new_result(summary, b"", calls, decisions_of([evaluation(trace_id, revision, *item) for item in found]))


@pytest.fixture
def parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """DuckDB where the page's files are: two traces, one in two revisions, one judged by two judges."""
    looked_up, refunded = call("find_order", 1), call("refund", 2, error=ToolError("Refused", ""))
    settings = ParquetSettings(url=str(tmp_path / "parquet"))

    async def write(instance: str, begin: int, *batch: TraceResult) -> None:
        sink = ParquetSink(settings, Storage(settings), tmp_path / "data", instance, frozenset)
        await sink.deliver(batch)
        await sink.write(Cut(begin, begin + 1))
        await sink.close()

    first = judged(TRACE_ID, 1, [refunded], ("order", "a", "fail"), ("order", "b", "pass"), ("gone", "a", "fail"))
    second = judged(TRACE_ID, 2, [looked_up, refunded], ("order", "a", "pass"), ("order", "b", "pass"))
    other = judged(OTHER, 1, [looked_up], ("order", "a", "pass"), ("order", "b", "fail"))
    asyncio.run(write("here", 0, first))
    asyncio.run(write("here", 7, second, other))
    asyncio.run(write("there", 0, other))  # judged again by another judge, with the same results
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as connection:
        yield connection


def queries() -> list[str]:
    return re.findall(r"runs it with DuckDB -->\n```sql\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_pages_queries_answer_by_the_highest_revisions(parquet: Any) -> None:
    results_of, rates, calls_of, tools, called = queries()
    parquet.execute(results_of)
    (day,) = parquet.execute("SELECT DISTINCT date FROM results_of(current_date - 1, current_date)").fetchone()
    assert parquet.execute("SELECT count(*) FROM results_of(current_date - 1, current_date)").fetchone() == (4,)
    assert parquet.execute(rates).fetchall() == [("order", "1.4", day, 1, 1, 0.5)]
    parquet.execute(calls_of)
    assert parquet.execute(tools).fetchall() == [("shop", "refund", 1, 1.0, 2.0), ("shop", "find_order", 2, 0.0, 2.0)]
    assert parquet.execute(called).fetchall() == [("order", ["find_order"], 1, OTHER)]


def test_a_tenant_named_by_a_number_is_text(parquet: Any) -> None:
    parquet.execute(queries()[0])
    found = parquet.execute("SELECT DISTINCT tenant FROM results_of(current_date - 1, current_date)").fetchall()
    assert found == [("42",)]


def test_what_a_higher_revision_does_not_have_is_gone(parquet: Any) -> None:
    parquet.execute(queries()[0])
    rules = parquet.execute("SELECT DISTINCT rule_id FROM results_of(current_date - 1, current_date)").fetchall()
    assert rules == [("order",)]


@pytest.mark.parametrize("tenant", ["a/b", "../x=1", "Käse & Wein", "100%", ""])
def test_a_tenants_name_is_read_as_it_was(parquet: Any, tenant: str) -> None:
    folder = Path("parquet", "results", f"tenant={path_name(tenant)}", "date=2026-01-01")
    folder.mkdir(parents=True)
    parquet.execute(f"COPY (SELECT 1 AS revision) TO '{folder}/x.parquet' (FORMAT parquet)")
    found = parquet.execute(
        "SELECT tenant FROM read_parquet('parquet/results/*/*/*.parquet', hive_partitioning = true, "
        "hive_types_autocast = false) WHERE date = '2026-01-01'"
    ).fetchall()
    assert found == [(tenant,)]
